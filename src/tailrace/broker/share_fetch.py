"""One share fetch on its way: partitions that are loaded, records that are read, given out and answered with.

It waits in the purgatory until enough bytes can be given, a partition of it cannot go on, or its time is over. Records
are read on the node's thread where the page cache has them, else by a job; meanwhile nobody else reads for the
same group from the same partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.file_range import FileRange
from tailrace.broker.purgatory import Operation, Watched
from tailrace.broker.share_partition import Phase, SharePartition
from tailrace.broker.share_records import Acquired, Want
from tailrace.broker.share_sessions import Place, SessionKey
from tailrace.broker.share_transactions import aborted_ranges
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.model.errors import (
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    SegmentGoneError,
    TailraceError,
    UnknownServerError,
)
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.replication.read_result import ReadResult
from tailrace.storage.fetch import Isolation

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

RECORD_LIMIT: Final = 1
ACQUIRE_MODES: Final = (0, RECORD_LIMIT)
READ_COMMITTED: Final = "read_committed"
FIRST_READ_BYTES: Final = 64 << 10


class ShareWant(NamedTuple):
    """What the request asks of all its partitions together."""

    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    max_wait_ms: int


class Fetched(NamedTuple):
    records: bytes | memoryview = b""
    acquired: Sequence[Acquired] = ()
    error: TailraceError | None = None


class _Read(NamedTuple):
    partition: SharePartition
    offset: int
    found: ReadResult | None
    error: TailraceError | None = None

    @property
    def size(self) -> int:
        records = self.found.data.records if self.found is not None else None
        return 0 if records is None else records.size


class ShareFetch:
    def __init__(
        self,
        node: Node,
        key: SessionKey,
        want: ShareWant,
        places: Sequence[Place],
        done: Callable[[dict[Place, Fetched]], None],
    ) -> None:
        """`done` gets what was found, by partition; those are left out that have nothing."""
        self._node = node
        self._key = key
        self._want = want
        self._done = done
        self._results: dict[Place, Fetched] = {}
        self._is_under_way = False
        self._partitions: dict[Place, SharePartition] = {}
        self._watched: dict[Watched, SharePartition] = {}
        for place in places:
            try:
                self._partitions[place] = node.shares.find_or_load(SharePartitionKey(key.group_id, *place))
            except TailraceError as error:
                self._results[place] = Fetched(error=error)

    def run(self, when_dropped: Callable[[Callable[[], None]], None]) -> None:
        if not self._partitions or not self._want.max_records or not self._want.max_bytes:
            self._done(self._results)
            return
        if self._want.max_wait_ms <= 0:
            self.try_answer(is_last=True)
            return
        operation = DelayedShareFetch(self)
        when_dropped(lambda: self._node.purgatory.abandon(operation))
        for share in self._partitions.values():
            self._watched[share] = self._watched[share.partition] = share
        self._node.purgatory.wait(operation, self._watched, self._want.max_wait_ms)

    # Reading

    def try_answer(self, *, is_last: bool, moved: Watched | None = None) -> bool:
        """Answer, if there is enough to answer with; when `is_last` with whatever there is.

        Nothing can have changed where what has `moved` gives nothing.
        """
        if self._is_under_way:
            return False  # what it does itself moves what it watches
        if moved is not None and not self._has_something(self._watched[moved]):
            return False
        self._is_under_way = True
        self._is_under_way = self._look(is_last=is_last)
        return self._is_under_way

    def _has_something(self, share: SharePartition) -> bool:
        if share.phase is Phase.FENCED or not share.is_led:
            return True
        if not share.is_ready:
            return False
        read = self._read(share, FIRST_READ_BYTES, is_first=True)
        return read.size > 0 or read.error is not None

    def _look(self, *, is_last: bool) -> bool:
        ready = []
        must_answer = is_last
        for place, share in self._partitions.items():
            if share.phase is not Phase.FENCED and not share.is_led:
                share.error = NotLeaderOrFollowerError(f"this broker does not lead {share.partition.id} any more")
                share.fence()
            if share.phase is Phase.FENCED:
                self._results[place] = Fetched(error=share.error)
                must_answer = True
            elif share.is_ready:
                ready.append(share)
        share_bytes = self._want.max_bytes // len(ready) if ready else 0
        reads: list[_Read] = []
        size = 0
        for share in ready:
            reads.append(self._read(share, share_bytes, is_first=not size))
            size += reads[-1].size
        if not must_answer and size < self._want.min_bytes and not any(read.error for read in reads):
            return False
        self._take(reads)
        return True

    def _read(self, share: SharePartition, max_bytes: int, *, is_first: bool) -> _Read:
        """A batch larger than `max_bytes` is only given as the first of an answer: a member always gets on."""
        is_committed = share.settings.share_isolation_level == READ_COMMITTED
        isolation = Isolation.TXN_COMMITTED if is_committed else Isolation.HIGH_WATERMARK
        offset = share.records.next_offset()
        try:
            found = share.partition.read(offset, max_bytes, isolation, is_first)
        except TailraceError as error:
            log = share.partition.log
            if isinstance(error, OffsetOutOfRangeError) and log is not None and offset > log.log_end_offset:
                return _Read(share, offset, None)  # the log has lost what the group has seen: it has to grow first
            return _Read(share, offset, None, error.with_traceback(None))
        return _Read(share, offset, found)

    def _take(self, reads: list[_Read]) -> None:
        most = self._want.max_records
        if not any(_is_cold(read) for read in reads):
            self._give(reads, [_bytes_of(read, most) for read in reads])
            return
        for read in reads:
            read.partition.is_being_read = True

        def end(data: list[bytes | TailraceError]) -> None:
            for read in reads:
                read.partition.is_being_read = False
            self._give(reads, data)
            for read in reads:
                read.partition.moved()

        def broke(error: Exception) -> None:
            end([error if isinstance(error, TailraceError) else UnknownServerError(str(error)) for _ in reads])

        self._node.env.jobs.run("share-fetch", lambda: [_bytes_of(read, most) for read in reads], end, broke)

    # Giving

    def _give(self, reads: list[_Read], contents: list[bytes | TailraceError]) -> None:
        left = self._want.max_records
        for read, data in zip(reads, contents, strict=True):
            place = Place(read.partition.key.topic_id, read.partition.key.partition)
            if isinstance(data, TailraceError):
                self._results[place] = Fetched(error=self._refusal(read, data))
                continue
            try:
                given = self._acquire(read, data, left)
            except TailraceError as error:  # its bytes are none of a log
                given = Fetched(error=error.with_traceback(None))
            left -= sum(each.last - each.first + 1 for each in given.acquired)
            self._results[place] = given
        self._done(self._results)

    def _refusal(self, read: _Read, error: TailraceError) -> TailraceError | None:
        """A log that has lost its beginning is no error of the group: it goes on where the log begins."""
        share = read.partition
        if isinstance(error, OffsetOutOfRangeError) and share.partition.log is not None:
            share.records.log_starts_at(share.partition.log.log_start_offset)
            return None
        if isinstance(error, SegmentGoneError):
            return None
        if not share.is_led:
            share.fence()
        return error

    def _acquire(self, read: _Read, data: bytes, max_records: int) -> Fetched:
        share = read.partition
        if share.phase is not Phase.ACTIVE or not data or self._key not in self._node.shares.sessions:
            return Fetched()
        found = list(batches(data))
        records = share.records
        want = Want(
            self._key.member_id,
            max_records,
            self._want.batch_size,
            self._want.acquire_mode == RECORD_LIMIT,
            share.lock_ends_ms,
        )
        taken = records.acquire(want, share.rules, read.offset, batch_bounds(found, read.offset))
        aborted = read.found.data.aborted if read.found is not None else None
        if taken and aborted:
            taken = records.withdraw(taken, list(aborted_ranges(data, found, aborted)))
        if not taken:
            return Fetched()
        share.locked()
        sent = _covering(data, found, taken)
        self._node.counters.topic(share.partition.topic).bytes_out += len(sent)
        return Fetched(sent, taken)


def _is_cold(read: _Read) -> bool:
    records = read.found.data.records if read.found is not None else None
    return records is not None and FileRange(records).is_cold(min(records.size, FIRST_READ_BYTES))


def _bytes_of(read: _Read, max_records: int) -> bytes | TailraceError:
    """As much of what was found as is needed for so many records: a member asks for few, and for many bytes."""
    if read.error is not None:
        return read.error
    records = read.found.data.records if read.found is not None else None
    if records is None:
        return b""
    size = FIRST_READ_BYTES
    try:
        while size < records.size:
            data = records._replace(size=size).read()
            last = -1
            for batch in batches(data):
                last = batch.last_offset
            if last >= read.offset + max_records - 1:
                return data
            size *= 4
        return records.read()
    except TailraceError as error:
        return error.with_traceback(None)


def batch_bounds(found: Sequence[ShallowBatch], offset: int) -> list[tuple[int, int]]:
    """First and last offset of each, read from `offset` on.

    A compressed batch of an old format does not say where it begins: behind the one before, at the latest. What is not
    in it after all is a gap, as the member will say.
    """
    bounds: list[tuple[int, int]] = []
    for batch in found:
        first = batch.base_offset
        if first < 0:
            first = bounds[-1][1] + 1 if bounds else min(offset, batch.last_offset)
        bounds.append((first, batch.last_offset))
    return bounds


def _covering(data: bytes, found: Sequence[ShallowBatch], taken: Sequence[Acquired]) -> bytes | memoryview:
    """The batches that hold something of what was taken, and those between them."""
    begin = next((batch.position for batch in found if batch.last_offset >= taken[0].first), 0)
    end = next((batch.position for batch in found if batch.base_offset > taken[-1].last), found[-1].end)
    return data if begin == 0 and end == len(data) else memoryview(data)[begin:end]


class DelayedShareFetch(Operation):
    kind = "ShareFetch"

    def __init__(self, fetch: ShareFetch) -> None:
        self._fetch = fetch

    def try_complete(self, moved: Watched | None) -> bool:
        return self._fetch.try_answer(is_last=False, moved=moved)

    def expire(self) -> None:
        self._fetch.try_answer(is_last=True)
