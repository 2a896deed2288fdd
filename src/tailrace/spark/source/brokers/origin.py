"""Topics as brokers tell of them: which partitions there are, where they begin and end, and progress to a group.

On the driver. Errors that pass are tried again within the client's timeout, and the whole as often as
`fetchOffset.numRetries` says, `fetchOffset.retryIntervalMs` apart; what is left is a PipelineError that names the
brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from tailrace.client.cluster import NO_ID, Topic
from tailrace.client.coordinators import GROUP, Coordinators
from tailrace.client.errors import NONE, UNKNOWN_TOPIC_OR_PARTITION, NoAnswerError, error_of, name_of
from tailrace.client.fetcher import Fetched
from tailrace.client.group_offsets import Committed, commit_offsets
from tailrace.client.offsets import EARLIEST, LATEST, NO_OFFSET, find_offsets
from tailrace.model.errors import CorruptMessageError, TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.record.shallow import batches
from tailrace.spark.errors import MissingTopicError, PipelineError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Assigned, Pattern, Subscription
from tailrace.spark.source.brokers.links import POOL, purpose_of
from tailrace.spark.source.brokers.piece_fetcher import GONE_AFTER_S
from tailrace.spark.source.ranges import Bounds

_LOOKED_AT_BYTES: Final = 1 << 16
"""Of each partition, for data behind a marker."""

T = TypeVar("T")


class BrokerOrigin:
    """One thread."""

    def __init__(self, options: SourceOptions, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._isolation = options.isolation
        self._tries = options.fetch_retries + 1
        self._interval_s = options.fetch_retry_interval_ms / 1000
        self._brokers = options.brokers
        self._pause = pause
        self._link = POOL.borrow(purpose_of(options))
        self._cluster = self._link.cluster
        self._coordinators = Coordinators(self._cluster, GROUP)

    # What there is

    def partitions(self, subscription: Subscription) -> dict[TopicPartition, str | None]:
        """In order, with topic ids. A pattern may match nothing; other topics that are not there are missed."""
        if isinstance(subscription, Pattern):
            topics = self._ask("asking which topics there are", self._cluster.topics)
            names = set(subscription.chosen(topic.name for topic in topics if not topic.is_internal))
            wanted = [topic for topic in topics if topic.name in names]
        else:
            names = set(subscription.partitions if isinstance(subscription, Assigned) else subscription.names)
            wanted = self._ask(f"asking about {_some(sorted(names))}", lambda: self._named(sorted(names)))
        found = {
            partition: None if topic.id == NO_ID else str(TopicId(topic.id))
            for topic in wanted
            for partition in (TopicPartition(topic.name, number) for number in topic.partitions)
            if subscription.includes(partition)
        }
        if isinstance(subscription, Assigned):
            missing = [str(each) for each in subscription.all() if each not in found]
            if missing:
                what, are = ("partition", "is") if len(missing) == 1 else ("partitions", "are")
                raise MissingTopicError(f"{what} {_some(missing)} {are} not at {self._brokers}", missing)
        return dict(sorted(found.items()))

    def _named(self, names: list[str]) -> list[Topic]:
        """As they are now."""
        deadline, backoff = self._cluster.deadline(GONE_AFTER_S), self._cluster.backoff()
        while missing := self._cluster.retry("asking about topics", lambda: self._missing(names)):
            if deadline.is_over:
                what, are = ("topic", "is") if len(missing) == 1 else ("topics", "are")
                raise MissingTopicError(f"{what} {_some(missing)} {are} not at {self._brokers}", missing)
            backoff.wait(deadline)  # a broker that has just started may not know its topics yet
        return [self._cluster.topic(name) for name in names]

    def _missing(self, names: list[str]) -> list[str]:
        missing = []
        for said in self._cluster.refresh(names).topics:
            if said.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(said.name or "")
            elif said.error_code != NONE:
                raise error_of(said.error_code, f"topic {said.name} cannot be had")
        return sorted(missing)

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """From the log's start to where a reader of the isolation at hand may read."""
        wanted = list(partitions)
        if not wanted:
            return {}

        def ask() -> dict[TopicPartition, Bounds]:
            starts = find_offsets(self._cluster, dict.fromkeys(wanted, EARLIEST), isolation=self._isolation)
            ends = find_offsets(self._cluster, dict.fromkeys(wanted, LATEST), isolation=self._isolation)
            return {each: Bounds(starts[each].offset, ends[each].offset) for each in wanted}

        return self._ask("asking where partitions begin and end", ask)

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after the time; None where there is none."""
        if not times_ms:
            return {}

        def ask() -> dict[TopicPartition, int | None]:
            found = find_offsets(self._cluster, times_ms, isolation=self._isolation)
            return {each: None if at.offset == NO_OFFSET else at.offset for each, at in found.items()}

        return self._ask("asking for offsets of times", ask)

    def behind_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """What is found may be a marker: no broker says so. Then the first data behind it counts, if it is near."""
        found = self.at_times(times_ms)
        positions = {each: offset for each, offset in found.items() if offset is not None}
        if not positions:
            return found

        def ask() -> dict[TopicPartition, int | None]:
            fetched = self._link.fetcher.fetch(positions, max_wait_ms=0, partition_max_bytes=_LOOKED_AT_BYTES)
            return {each.partition: _first_data(each, times_ms[each.partition]) for each in fetched}

        looked = self._ask("looking at what is there at some time", ask)
        return {each: looked.get(each) for each in times_ms}

    # What was done

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As a reader does that keeps its offsets in a group without being a member of it."""
        committed = {partition: Committed(offset) for partition, offset in offsets.items()}
        self._ask(
            f"committing offsets of group {group_id}",
            lambda: commit_offsets(self._cluster, self._coordinators, group_id, committed),
        )

    def close(self) -> None:
        """Once."""
        POOL.give_back(self._link)

    def _ask(self, doing: str, attempt: Callable[[], T]) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                return attempt()
            except PipelineError:
                raise
            except TailraceError as error:
                may_pass = error.retriable or isinstance(error, NoAnswerError)
                if not may_pass or tries >= self._tries:
                    raise PipelineError(f"{doing} at {self._brokers}: {_said(error)}") from error
            self._pause(self._interval_s)


def _first_data(fetched: Fetched, time_ms: int) -> int | None:
    """Where records of that time begin, or end at least; None where that cannot be said: then all of it is read."""
    with suppress(CorruptMessageError):
        for batch in batches(fetched.records):
            if batch.is_control or batch.max_timestamp < time_ms:
                continue
            # Of a batch behind the one that was found it is not known which of its records is the first.
            return fetched.offset if batch.position == 0 else batch.next_offset
    return None


def _said(error: TailraceError) -> str:
    return str(error) if error.code == TailraceError.code else f"{error} ({name_of(error.code)})"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
