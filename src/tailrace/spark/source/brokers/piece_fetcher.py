"""The bytes of one piece of a partition, from whoever leads it.

`next` gives what was fetched from `position` on, `ask` sends for what follows, `advance` moves on. What passes (a
leader that moved, a broker that restarts, a connection that breaks, a high watermark that has to catch up) is waited
for as long as the poll timeout allows, counted from the first sign of trouble; then a PipelineError names partition,
offset and broker. What does not come back is told to the loss policy, with its offsets, and passed over:

    the log begins behind `position`       up to its beginning
    the log ends before the piece          from its end on
    the topic is gone, or another one      the rest of the piece; believed after `GONE_AFTER_S` of the same answer,
                                           since a broker that has just started may not know its topics yet

That nothing is left before the end of the piece though the log goes on is a gap like others.

Data is asked for without waiting, because it is there; only when an answer shows that it is not yet, may the broker
keep the next one. How much is asked for follows from how much the offsets took so far, so that a small piece costs
little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.client.caller import NO_LEADER
from tailrace.client.cluster import NO_ID, Topic
from tailrace.client.deadline import Backoff, Deadline
from tailrace.client.errors import (
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
    NoAnswerError,
    name_of,
)
from tailrace.client.fetcher import Fetched
from tailrace.client.offsets import EARLIEST, LATEST, NO_OFFSET, READ_COMMITTED, READ_UNCOMMITTED, find_offsets
from tailrace.model.errors import (
    MessageTooLargeError,
    TailraceError,
    UnsupportedForMessageFormatError,
)
from tailrace.model.ids import TopicId
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.brokers.gaps import Gaps
from tailrace.spark.source.brokers.links import Link
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange

GONE_AFTER_S: Final = 1.0
FIRST_BYTES: Final = 1 << 20
LEAST_BYTES: Final = 1 << 16
GUESSED_BYTES_PER_OFFSET: Final = 256
SLACK: Final = 1.05
LARGEST_BATCH_BYTES: Final = 1 << 27


class PieceFetcher:
    def __init__(self, link: Link, options: SourceOptions, piece: OffsetRange, gaps: Gaps, loss: LossPolicy) -> None:
        self.position = piece.start
        """What comes next."""
        self.end = piece.end
        """Nothing is read from here on. It comes nearer where the log ends before."""
        self._cluster = link.cluster
        self._fetcher = link.fetcher
        self._partition = piece.partition
        self._topic_id = piece.topic_id
        self._gaps = gaps
        self._loss = loss
        self._max_bytes = options.client.max_partition_fetch_bytes
        self._patience_s = options.poll_timeout_ms / 1000
        self._size = piece.size
        self._bytes_per_offset: float | None = None
        self._least_bytes = min(LEAST_BYTES, self._max_bytes)
        self._leader = NO_LEADER
        self._asked: int | None = None
        self._waits = False
        self._is_found = False
        self._empty_answers = 0
        self._trouble: tuple[Deadline, Backoff] | None = None
        self._gone: Deadline | None = None

    @property
    def is_done(self) -> bool:
        return self.position >= self.end

    # Where to begin

    def begin(self, first_ms: int | None = None) -> None:
        """Find the topic. With `first_ms`, begin at the first record of that time or later: no other is wanted."""
        self._until_it_works(lambda: self._find_topic() if first_ms is None else self._find_time(first_ms))

    def _find_time(self, first_ms: int) -> None:
        self._find_topic()
        if self.is_done:
            return
        start = self._offset_at(EARLIEST)
        if start > self.position:
            self._lose_up_to(start)
        try:
            found = self._offset_at(first_ms, self._fetcher.isolation)
        except UnsupportedForMessageFormatError:
            return
        if found == NO_OFFSET and self._offset_at(LATEST, self._fetcher.isolation) >= self.end:
            found = self.end
        self.position = max(self.position, min(found, self.end))

    def _find_topic(self) -> None:
        """Raises while it may still turn up; when it is certain that it will not, the piece is lost."""
        if self._is_found:
            return
        why: str | None = None
        try:
            topic = self._cluster.topic(self._partition.topic)
            why = self._stranger(topic)
        except TailraceError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                self._gone = None
                raise
            why = f"there is no topic {self._partition.topic} any more"
        if why is None:
            self._is_found, self._gone = True, None
            return
        self._cluster.forget(self._partition.topic)
        self._gone = self._gone or self._cluster.deadline(min(GONE_AFTER_S, self._patience_s))
        if not self._gone.is_over:
            raise _NotThereError(why)
        self._lose_rest(why)

    def _stranger(self, topic: Topic) -> str | None:
        """Why this is not what was planned to be read."""
        if self._topic_id is not None and topic.id != NO_ID and str(TopicId(topic.id)) != self._topic_id:
            return f"the topic was deleted and made again: its id is {TopicId(topic.id)}, not {self._topic_id}"
        if self._partition.partition not in topic.partitions:
            return f"topic {topic.name} has {len(topic.partitions)} partitions now"
        return None

    # Fetching

    def ask(self, offset: int, size_bytes: int) -> None:
        """Send for what begins at `offset`, since the last answer, of `size_bytes`, seems to reach there.

        What goes wrong shows in `next`.
        """
        if self.position < offset < self.end and self._asked is None:
            self._bytes_per_offset = size_bytes / (offset - self.position)
            try:
                self._submit(offset)
            except TailraceError:
                self._give_up()

    def next(self) -> Fetched | None:
        """Records from `position` on; None when they cannot be had, and `position` or `end` has moved instead.

        Their memory is that of the next ones too.
        """
        fetched: Fetched | None = None

        def once() -> None:
            nonlocal fetched
            fetched = self._next()

        self._until_it_works(once)
        return fetched

    def advance(self, offset: int, size_bytes: int) -> None:
        """All before `offset` was taken from the last answer, which had `size_bytes`."""
        if offset > self.position:
            self._bytes_per_offset = size_bytes / (offset - self.position)
            self.position = offset
        elif self._least_bytes >= LARGEST_BATCH_BYTES:
            raise MessageTooLargeError(
                f"{self._partition} has no whole batch in {size_bytes} bytes from offset {offset} on"
            )
        else:  # not even one batch is whole: brokers before 0.10.1 do not send a first one whole that is too large
            self._least_bytes = min(max(self._least_bytes, size_bytes) * 4, LARGEST_BATCH_BYTES)

    def _next(self) -> Fetched | None:
        self._find_topic()
        if self.is_done:
            return None
        if self._asked not in (None, self.position):
            self._give_up()  # the batches reached less far than it seemed
        if self._asked is None:
            self._submit(self.position)
        fetched = self._receive()
        if fetched.error is not None:
            self._answer_to(fetched.error)
            return None
        if not len(fetched.records):
            self._nothing_came(fetched)
            return None
        self._empty_answers, self._waits = 0, False
        return fetched

    def _submit(self, offset: int) -> None:
        wait_ms = self._fetcher.max_wait_ms if self._waits else 0
        self._leader = self._cluster.leader(self._partition).leader
        self._fetcher.submit({self._partition: offset}, wait_ms, self._bytes_for(self.end - offset))
        self._asked = offset

    def _bytes_for(self, offsets: int) -> int:
        if self._bytes_per_offset is None:
            wanted = min(self._size * GUESSED_BYTES_PER_OFFSET, FIRST_BYTES)
        else:
            wanted = int(offsets * self._bytes_per_offset * SLACK)
        return max(min(wanted, self._max_bytes), self._least_bytes)

    def _receive(self) -> Fetched:
        deadline = self._cluster.deadline(self._cluster.timeout_s + self._fetcher.max_wait_ms / 1000)
        while self._fetcher.is_waiting:
            found = self._fetcher.receive(deadline.check(f"fetching {self._partition} from offset {self._asked}"))
            for each in found:
                if each.partition == self._partition:
                    self._asked = None
                    return each
        self._asked = None
        raise _NotThereError("the broker said nothing about it")  # as one does that throttles

    # What came instead of records

    def _answer_to(self, error: TailraceError) -> None:
        self._is_found = False
        if error.code != OFFSET_OUT_OF_RANGE:
            raise error
        start = self._offset_at(EARLIEST)
        if start > self.position:
            self._lose_up_to(start)
            return
        log_end = self._offset_at(LATEST)
        if log_end >= self.position:
            raise _NotThereError(f"{error}, but the log goes from {start} to {log_end}")
        self._lose_rest(f"the log ends at {log_end}")

    def _nothing_came(self, fetched: Fetched) -> None:
        """The log ends too early, or is not yet to be seen, or has nothing before the end of the piece."""
        is_committed = self._fetcher.isolation == READ_COMMITTED
        visible = fetched.last_stable_offset if is_committed else fetched.high_watermark
        if visible >= self.end:
            self._empty_answers += 1
            if self._empty_answers > 1:  # twice, to be sure
                self._gaps.judge([(self.position, self.end)])
                self.position = self.end
            return
        self._empty_answers = 0
        if fetched.high_watermark < self.end and self._log_ends_before(self.end):
            log_end = max(fetched.high_watermark, self.position)
            self._loss.lost(self._partition, log_end, self.end, f"the log ends at {log_end}")
            self.end = log_end
            return
        self._waits = True
        if is_committed and fetched.high_watermark >= self.end:
            raise _NotThereError(f"a transaction is open since offset {visible}, and hides the records behind it")
        raise _NotThereError(f"the high watermark is {fetched.high_watermark}")

    def _log_ends_before(self, offset: int) -> bool:
        """The high watermark may have to catch up; but an offset behind the log's end is refused at once."""
        for each in self._fetcher.fetch({self._partition: offset}, max_wait_ms=0, partition_max_bytes=1):
            return each.error is not None and each.error.code == OFFSET_OUT_OF_RANGE
        return False

    def _lose_up_to(self, start: int) -> None:
        behind = min(start, self.end)
        self._loss.lost(self._partition, self.position, behind, f"the log begins at {start}")
        self.position = behind

    def _lose_rest(self, why: str) -> None:
        self._loss.lost(self._partition, self.position, self.end, why)
        self.end = self.position

    def _offset_at(self, point: int, isolation: int = READ_UNCOMMITTED) -> int:
        found = find_offsets(self._cluster, {self._partition: point}, isolation=isolation)
        return found[self._partition].offset

    # Trying again

    def _until_it_works(self, attempt: Callable[[], None]) -> None:
        while True:
            try:
                attempt()
            except TailraceError as error:
                if isinstance(error, PipelineError) and not error.retriable:
                    raise
                if not error.retriable and not isinstance(error, NoAnswerError):
                    raise self._failure(error) from error
                self._mend(error)
            else:
                self._trouble = None
                return

    def _mend(self, error: TailraceError) -> None:
        """Connections anew, metadata anew, a pause; an error that says where when there was enough of that."""
        self._give_up()
        self._cluster.forget(self._partition.topic)
        self._is_found = False
        if self._trouble is None:
            self._trouble = self._cluster.deadline(self._patience_s), self._cluster.backoff()
        deadline, backoff = self._trouble
        if deadline.is_over:
            raise self._failure(error, f", after {self._patience_s:g} s of trying") from error
        backoff.wait(deadline)

    def _failure(self, error: TailraceError, after: str = "") -> PipelineError:
        kind = "" if error.code == TailraceError.code else f" ({name_of(error.code)})"
        return PipelineError(
            f"{self._partition} cannot be read from offset {self.position} on, from {self._who()}{after}: {error}{kind}"
        )

    def _give_up(self) -> None:
        self._fetcher.abandon()
        self._asked = None

    def _who(self) -> str:
        for broker in self._cluster.brokers.values():
            if broker.node_id == self._leader:
                return f"broker {broker.node_id} at {broker.address}"
        return f"the brokers at {', '.join(map(str, self._cluster.bootstrap))}"


class _NotThereError(PipelineError):
    """It may be there in a moment."""

    retriable = True
