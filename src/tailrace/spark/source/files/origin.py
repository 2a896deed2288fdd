"""What a log directory holds, for the driver: topics, bounds, offsets by time.

For read_committed a partition ends at its last stable offset. The state that gives it is kept from call to call, so
that a stream reads each header once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from tailrace.client.offsets import READ_COMMITTED
from tailrace.env import Files
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import MissingTopicError, PipelineError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Assigned, Subscription, Topics
from tailrace.spark.source.files.ends import committed_bounds
from tailrace.spark.source.files.folders import Checkpoints, LogFolders, Noted, PartitionFolder
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.files.segments import SegmentList, list_segments
from tailrace.spark.source.files.times import first_at_or_after
from tailrace.spark.source.files.transactions import OpenTransactions, open_transactions
from tailrace.spark.source.ranges import Bounds

_TRIES: Final = 20

_log: Final = logging.getLogger("tailrace.spark")

T = TypeVar("T")


class _Look(NamedTuple):
    """A partition at one moment."""

    folder: PartitionFolder
    noted: Noted
    segments: SegmentList


class DirectoryOrigin:
    """See `Origin`. Holds no file open between calls. For one thread."""

    def __init__(self, options: SourceOptions, *, files: Files | None = None) -> None:
        """PipelineError for a path that is missing or no log directory."""
        if options.path is None:
            raise PipelineError("there is no path to read files from")
        self._path = options.path
        self._files = ReadOnlyFiles(files)
        self._folders = LogFolders(self._files, options.path)
        self._reads_committed = options.isolation == READ_COMMITTED
        self._transactions: dict[PartitionFolder, tuple[str | None, OpenTransactions]] = {}
        self._warned: set[str] = set()

    @property
    def bytes_read(self) -> int:
        return self._files.bytes_read

    def partitions(self, subscription: Subscription) -> dict[TopicPartition, str | None]:
        found = self._folders.all()
        self._refuse_missing(subscription, found)
        topics = set(subscription.chosen({each.topic for each in found}))
        chosen = sorted(each for each in found if each.topic in topics and subscription.includes(each))
        if not isinstance(subscription, Assigned):
            self._warn_of_holes(chosen)
        ids = {each: found[each].topic_id(self._files) for each in chosen}
        # Without an id: an old folder, or one that was renamed to be deleted since it was listed.
        return {each: known for each, known in ids.items() if known or self._files.exists(found[each].path)}

    def _refuse_missing(self, subscription: Subscription, found: Mapping[TopicPartition, PartitionFolder]) -> None:
        missing: list[str] = []
        if isinstance(subscription, Topics):
            missing = sorted(set(subscription.names) - {each.topic for each in found})
        elif isinstance(subscription, Assigned):
            missing = [str(each) for each in sorted(subscription.all()) if each not in found]
        if missing:
            raise MissingTopicError(f"path {self._path!r} does not hold {', '.join(missing)}", missing)

    def _warn_of_holes(self, chosen: list[TopicPartition]) -> None:
        """A topic without some of its partitions is likely spread over brokers; once for each."""
        numbers: dict[str, set[int]] = {}
        for each in chosen:
            numbers.setdefault(each.topic, set()).add(each.partition)
        for topic, there in numbers.items():
            missing = max(there) + 1 - len(there)
            if missing and topic not in self._warned:
                self._warned.add(topic)
                _log.warning("path %r holds topic %s without %d of its partitions", self._path, topic, missing)

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        checkpoints: dict[str, Checkpoints] = {}
        return {each: self._look(each, self._bounds, checkpoints) for each in partitions}

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        checkpoints: dict[str, Checkpoints] = {}
        return {each: self._look(each, self._at(time_ms), checkpoints) for each, time_ms in times_ms.items()}

    def behind_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        checkpoints: dict[str, Checkpoints] = {}
        return {
            each: self._look(each, self._at(time_ms, counts_markers=False), checkpoints)
            for each, time_ms in times_ms.items()
        }

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        raise PipelineError("files have no consumer groups: commitGroup goes with kafka.bootstrap.servers")

    def close(self) -> None:
        self._transactions.clear()

    # One partition

    def _look(self, partition: TopicPartition, ask: Callable[[_Look], T], checkpoints: dict[str, Checkpoints]) -> T:
        """Segments may go while we look at them: then look again, at the checkpoints too."""
        for _ in range(_TRIES):
            folder = self._folders.one(partition)
            if folder is None:
                break
            try:
                # Checkpoints first: what they say is then true of the files that are listed after them.
                beside = checkpoints.setdefault(folder.log_dir, Checkpoints(self._files, folder.log_dir))
                noted = beside.of(partition)
                return ask(_Look(folder, noted, list_segments(self._files, folder.path)))
            except FileNotFoundError:
                checkpoints.clear()
        raise MissingTopicError(f"path {self._path!r} does not hold {partition} any more", [str(partition)])

    def _bounds(self, look: _Look) -> Bounds:
        bounds = committed_bounds(self._files, look.segments, look.noted)
        if not self._reads_committed:
            return bounds
        return Bounds(bounds.start, max(self._last_stable(look, bounds.end), bounds.start))

    def _last_stable(self, look: _Look, end: int) -> int:
        topic_id = look.folder.topic_id(self._files)
        known_id, state = self._transactions.get(look.folder, (None, None))
        if state is None or known_id != topic_id or state.next_offset > end:
            state = open_transactions(self._files, look.segments, end)
            self._transactions[look.folder] = topic_id, state
        for _ in state.advance(self._files, look.segments, end):
            pass
        return state.stable_below(end)

    def _at(self, time_ms: int, *, counts_markers: bool = True) -> Callable[[_Look], int | None]:
        def ask(look: _Look) -> int | None:
            bounds, point = self._bounds(look), look.noted.recovery_point
            return first_at_or_after(self._files, look.segments, time_ms, bounds, point, counts_markers=counts_markers)

        return ask
