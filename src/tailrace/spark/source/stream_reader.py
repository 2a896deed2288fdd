"""A topic as a DataFrame that goes on: micro-batches, each from the offsets where the last one ended.

One reader lives in a process beside the driver for as long as the query runs; another, made for the tasks, only reads.
After a restart Spark asks for the `partitions` of the batch that was under way before anything else, so they follow
from the two offsets alone, but for partitions that the first one does not know: those begin at their log's start.

Progress is told to the group of `commitGroup` as soon as it is certain: at `commit`, which Spark calls for a batch when
the next one is planned, and at `latestOffset`, whose start lies behind all that is done. So the group has no lag when
a query has read everything, also at the end of AvailableNow and on a stream where nothing comes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, MissingTopicError, PipelineError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Pattern
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.limits import admit
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.origin import Origin, open_origin
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.planning import pieces
from tailrace.spark.source.ranges import Bounds, OffsetRange
from tailrace.spark.source.starting import resolve_start
from tailrace.spark.source.stream_offset import Loss, StreamOffset

if TYPE_CHECKING:
    import pyarrow as pa

_log: Final = logging.getLogger("tailrace.spark")

TELL_AGAIN_S: Final = 600.0
"""A broker forgets what a group without members has committed some days ago: an idle stream says it again."""
RETRY_TELLING_S: Final = 10.0
"""Spark asks an idle stream a hundred times a second."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._open: Origin | None = None
        self._is_bounded = False
        self._target: StreamOffset | None = None
        """Where a query ends that only reads what was there when it began."""
        self._latest: StreamOffset | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._tells_again_at_s = 0.0
        self._admitted_at_s: float | None = None
        self._told: set[Loss | tuple[str, ...]] = set()
        """Losses that the query went on behind: Spark asks again and again, and once is enough."""

    # On the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name, as all below
        origin = self._origin()
        found = origin.partitions(self._options.subscription)
        start = StreamOffset.of(resolve_start(self._options, origin, found), found)
        if self._target is not None:
            self._target = self._reaching(start, self._target)
        return start.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark hands it back to `latestOffset`, which applies all our limits unless told to read everything."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """A topic that is missing is told by what is asked next: a wrong name, or the loss of what was read before."""
        self._is_bounded = True
        with suppress(DataLossError):
            self._target = self._end_of_all()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        done = StreamOffset.from_dict(start)
        self._tell(done)
        latest = self._latest = self._target or self._end_of_all()
        if self._is_bounded:
            self._target = latest
        has_lost = self._check(done, latest)
        if isinstance(limit, ReadAllAvailable):
            return latest.to_dict()
        admitted_at_s = self._admitted_at_s
        admitted = admit(
            self._begins(done, latest),
            latest.offsets,
            max_offsets=self._options.max_offsets_per_trigger,
            # A loss is left behind at once: a log that shrank may have grown again by the time enough has come.
            min_offsets=None if self._target is not None or has_lost else self._options.min_offsets_per_trigger,
            delayed_ms=None if admitted_at_s is None else int((time.monotonic() - admitted_at_s) * 1000),
            max_delay_ms=self._options.max_trigger_delay_ms,
        )
        if admitted is None:
            return start
        self._admitted_at_s = time.monotonic()
        return StreamOffset.of(admitted, latest.ids).to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        done, until = StreamOffset.from_dict(start), StreamOffset.from_dict(end)
        begins = self._begins(done, until)
        ranges = [
            OffsetRange(each, begins[each], behind, until.ids.get(each))
            for each, behind in sorted(until.offsets.items())
            if behind > begins[each]
        ]
        cut = pieces(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        return [Piece(each) for each in cut]

    def commit(self, end: dict[str, Any]) -> None:
        self._tell(StreamOffset.from_dict(end))

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._columns, partition)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    # Between them

    def _origin(self) -> Origin:
        if self._open is None:
            self._open = open_origin(self._options)
        return self._open

    def _end_of_all(self) -> StreamOffset:
        ids, bounds = self._look()
        return StreamOffset.of({each: bounds[each].end for each in ids}, ids)

    def _look(
        self, among: Iterable[TopicPartition] | None = None
    ) -> tuple[dict[TopicPartition, str | None], dict[TopicPartition, Bounds]]:
        """What there is now of the subscription, or of `among`: topic ids and bounds of the same partitions."""
        wanted = None if among is None else set(among)
        while True:
            there = self._there()
            ids = {each: topic_id for each, topic_id in there.items() if wanted is None or each in wanted}
            try:
                return ids, self._origin().bounds(ids)
            except PipelineError:
                if ids.keys() <= self._there().keys():
                    raise
                # else some went between the two questions

    def _there(self) -> dict[TopicPartition, str | None]:
        """A topic that was there when the query began and is not any more is lost, and no wrong name."""
        subscription = self._options.subscription
        gone: set[str] = set()
        while True:
            try:
                return self._origin().partitions(subscription)
            except MissingTopicError as error:
                is_new = not gone.issuperset(error.names)
                if self._options.fail_on_data_loss or isinstance(subscription, Pattern) or not is_new:
                    raise DataLossError(str(error)) from error
                gone.update(error.names)
                if error.names not in self._told:
                    self._told.add(error.names)
                    _log.warning("%s", error)
                subscription = subscription.without(error.names)

    def _reaching(self, start: StreamOffset, target: StreamOffset) -> StreamOffset:
        """`target`, but not before `start`, which was found after it: records may have come between them.

        An offset that the log does not have is no reason to end there.
        """
        later = [each for each, offset in start.offsets.items() if offset > target.offsets.get(each, -1)]
        bounds = self._origin().bounds(later) if later else {}
        reached = {each: max(target.offsets.get(each, 0), min(start.offsets[each], bounds[each].end)) for each in later}
        return StreamOffset.of({**target.offsets, **reached}, {**start.ids, **target.ids})

    def _begins(self, done: StreamOffset, until: StreamOffset) -> dict[TopicPartition, int]:
        """Where the batch that ends at `until` begins in each of its partitions.

        A topic that is new to the query is read from its log's start. A new partition of one that it follows should
        have been seen from its first record on. One that came and went before it was read is lost.
        """
        begins = {each: offset for each, offset in done.offsets.items() if done.is_same_topic(until, each)}
        new = [each for each in until.offsets if each not in begins]
        if new:
            _, bounds = self._look(new)
            begins |= {each: bounds[each].start if each in bounds else until.offsets[each] for each in new}
            topics = {each.topic for each in done.offsets}
            self._tell_lost(done.missed(begins, [each for each in new if each.topic in topics and each in bounds]))
            self._tell_lost(_gone(new, until, bounds))
        return begins

    def _check(self, done: StreamOffset, latest: StreamOffset) -> bool:
        """Fails, or warns, where something that was read up to now is not there any more. Whether there was any."""
        lost = done.lost_in(latest)
        self._tell_lost(lost)
        return bool(lost)

    def _tell_lost(self, losses: Iterable[Loss]) -> None:
        policy = LossPolicy(self._options.fail_on_data_loss)
        for lost in losses:
            if lost not in self._told:
                policy.lost(*lost)
                self._told.add(lost)

    def _tell(self, done: StreamOffset) -> None:
        """A group is for watching: a query does not fail because it could not be told."""
        group = self._options.commit_group
        now_s = time.monotonic()
        if group is None or (done.offsets == self._committed and now_s < self._tells_again_at_s):
            return
        self._committed = dict(done.offsets)
        self._tells_again_at_s = now_s + TELL_AGAIN_S
        try:
            self._origin().commit(group, done.offsets)
        except TailraceError as error:
            self._tells_again_at_s = time.monotonic() + RETRY_TELLING_S
            _log.warning("progress was not committed to group %s: %s", group, error)


def _gone(
    new: Iterable[TopicPartition], until: StreamOffset, bounds: Mapping[TopicPartition, Bounds]
) -> Iterator[Loss]:
    """Of partitions that were to be read from their start up to `until`: those of which nothing is left."""
    for each in sorted(new):
        end = until.offsets[each]
        if each not in bounds and end > 0:
            yield Loss(each, 0, end, "the partition went before it was read")
        elif each in bounds and bounds[each].start > end > 0:
            yield Loss(each, 0, end, f"the log begins at {bounds[each].start}")
