"""The middle of a move between data directories: the future log is filled from the current one until it can take over.

Step by step, beginning anew whenever something has changed meanwhile:

    1  what the future log must not keep is cut off; where the current log begins behind the end of the future one, that
       is emptied and goes on there
    2  a chunk is read from the current log, up to its end rather than its high watermark, in a job, and appended to
       the future log as it is; the throttle says how long to wait before the next
    3  with everything copied that was there when a chunk was read, the future log is flushed, in a job
    4  what came in since, if it is little, is copied and flushed at once; then the future log takes over (`log_move`)

So a move ends even if the partition is written to all the time, and it holds up the owner's thread for the copying of
a chunk, and once, at the end, for a few syncs.

Everything runs on the owner's thread, but the reading. Between two steps anything may happen to both logs: segments are
deleted, the log start moves, the current log is cut. Whoever cuts it first says so (`keep_below`).
Compaction of the partition must be paused: a copy of which one half was compacted and the other was not would bring
back keys that were deleted. As a second line of defence both logs are measured before one takes the other's place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tailrace.model.errors import (
    InvalidDataError,
    LogDirUnavailableError,
    OffsetOutOfRangeError,
    SegmentGoneError,
    TailraceError,
    UnexpectedAppendOffsetError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.storage.append import NO_OFFSET
from tailrace.storage.manager.log_agreement import agreed_end, bytes_between, first_offset, has_same_bytes
from tailrace.storage.manager.log_move import LogMove
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.log_truncation import LogTruncation
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

Pace = Callable[[int], int]
"""How many milliseconds to wait after so many bytes."""

CHUNK_BYTES: Final = 256 * 1024
LAST_STRETCH_BYTES: Final = 1024 * 1024
_FLUSH_CHECK_MS: Final = 1000
_OTHER_FLUSH_MS: Final = 10  # of a segment that was rolled just now
_MOST_FRESH_STARTS: Final = 3
_MOST_MISSES: Final = 10


class LogCopying:
    def __init__(
        self,
        truncation: LogTruncation,
        store: LogStore,
        move: LogMove,
        pace: Pace,
        partition: TopicPartition,
        current: UnifiedLog,
        future: UnifiedLog,
        *,
        is_resumed: bool,
    ) -> None:
        """`is_resumed` says that the future log is of an earlier run."""
        self._truncation = truncation
        self._store = store
        self._move = move
        self._pace = pace
        self._partition = partition
        self._ended: Callable[[TailraceError | None], None] = noop
        self._turn = 0
        self._end_seen = 0
        """The end of the current log when the last chunk was asked for; 0: none was."""
        self._is_flushed = False
        """A flush has been done since the future log reached that end."""
        self._fresh_starts = 0
        self._misses = 0
        self._keep_below: int | None = None
        self._must_compare = is_resumed
        self.current = current
        self.future = future
        self.has_progressed = False
        """Something was copied since `go_on`."""

    @property
    def offset_lag(self) -> int:
        return self.current.log_end_offset - self.future.log_end_offset

    @property
    def bytes_behind(self) -> int:
        """As far as the sizes of the logs tell."""
        return max(0, self.current.local.size - self.future.local.size)

    def go_on(self, ended: Callable[[TailraceError | None], None]) -> None:
        """Begin, or go on. `ended` gets None when the future log has become the current one, else what is wrong."""
        self._ended = ended
        self._fall_behind()
        self.has_progressed = False
        self._misses = 0
        self._step()

    def stop(self) -> None:
        """What is on its way ends without effect; `go_on` may be called again."""
        self._turn += 1
        self._ended = noop

    # What the future log must not keep

    def keep_below(self, offset: int) -> None:
        """The current log is cut here: the future log goes on from there too. At once, or else with the next step."""
        self._keep_below = offset if self._keep_below is None else min(offset, self._keep_below)
        try:
            self._cut()
        except TailraceError as error:
            _log.error("%s: the copy of %s must be cut at %d: %s", self.future.dir, self._partition, offset, error)

    def compare(self) -> None:
        """Of an earlier run: cut off what the current log does not have, or has differently."""
        self._move.call_incomplete(self.future)
        end = agreed_end(self.current, self.future)
        if not has_same_bytes(self.current, self.future, end):
            end = 0
        if end < self.future.log_end_offset:
            _log.warning("%s: the copy of %s is the same up to offset %d only", self.future.dir, self._partition, end)
            self.keep_below(end)
        self._must_compare = False

    def _cut(self) -> None:
        current, future = self.current, self.future
        end = current.log_end_offset if self._keep_below is None else min(self._keep_below, current.log_end_offset)
        if end < future.log_end_offset:
            self._fall_behind()
            if end <= max(first_offset(current), first_offset(future)):
                self._start_afresh(first_offset(current))
            else:
                self._truncation.cut_copy(self._partition, end)
        self._keep_below = None

    def _fall_behind(self) -> None:
        """There may be much to copy again."""
        self._end_seen = 0
        self._is_flushed = False

    def _start_afresh(self, offset: int) -> None:
        self._fall_behind()
        log_start = min(offset, self.current.log_start_offset)
        self._truncation.restart_copy(self._partition, offset, log_start)

    def _follow_log_start(self) -> None:
        current, future = self.current, self.future
        if future.log_end_offset < first_offset(current):
            self._start_afresh(first_offset(current))
        if future.high_watermark < min(current.high_watermark, future.log_end_offset):
            future.update_high_watermark(current.high_watermark)
        future.increment_log_start(min(current.log_start_offset, future.high_watermark))

    # Steps

    def _then(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action`, unless another one came first or the copying was stopped."""
        turn = self._turn

        def run(*arguments: Any) -> None:
            if turn == self._turn:
                self._turn += 1
                action(*arguments)

        return run

    def _step(self) -> None:
        try:
            self._go()
        except TailraceError as error:
            self._end(error)

    def _end(self, error: TailraceError | None) -> None:
        ended = self._ended
        self.stop()
        ended(error)

    def _go(self) -> None:
        self._check_logs()
        if self._must_compare:
            self.compare()
        self._cut()
        self._follow_log_start()
        if not self._is_flushed and self._has_caught_up:
            self._flush()
        elif self._is_flushed and self._copy_last_stretch():
            self._take_over()
        else:
            self._read()

    @property
    def _has_caught_up(self) -> bool:
        """With what there was a moment ago: what is still missing was just written, and is in memory."""
        return not self.offset_lag or 0 < self._end_seen <= self.future.log_end_offset

    def _check_logs(self) -> None:
        store, partition = self._store, self._partition
        for log, known in ((self.current, store.current), (self.future, store.future)):
            directory = store.directory_of(log)
            if directory.failure is not None:
                raise directory.failure
            if known.get(partition) is not log:
                raise LogDirUnavailableError(f"{log.dir} is gone: {partition} cannot be moved")
        if self.future.failure is not None:
            raise self.future.failure

    def _read(self) -> None:
        current, offset = self.current, self.future.log_end_offset
        if self._leap_over_gap():
            self._step()
            return
        self._fall_behind()
        self._end_seen = current.log_end_offset
        limit, truncations = self._chunk_bytes, current.local.truncations

        def work() -> bytes:
            return current.read(offset, limit).read()

        jobs = self._store.env.jobs
        jobs.run("move-log", work, self._then(partial(self._take, offset, truncations)), self._then(self._not_read))

    @property
    def _chunk_bytes(self) -> int:
        return min(CHUNK_BYTES, self.future.config.segment_bytes)

    def _leap_over_gap(self) -> bool:
        """The current log can end behind its last record, where a truncation has cut through a batch."""
        is_gap = self.future.log_end_offset >= self.current.local.data_end
        if is_gap:
            self.future.roll(self.current.log_end_offset)
        return is_gap

    def _take(self, offset: int, truncations: int, data: bytes) -> None:
        wait_ms = 0
        try:
            self._check_logs()
            if (self.current.local.truncations, self.future.log_end_offset) == (truncations, offset):
                self._append(data)
                wait_ms = self._pace(len(data))
        except TailraceError as error:
            self._end(error)
            return
        if wait_ms > 0:
            self._store.env.jobs.later("move-log", wait_ms, self._then(self._step))
        else:
            self._step()

    def _append(self, data: bytes) -> None:
        future = self.future
        if self.current.topic_id is not None:
            future.assign_topic_id(self.current.topic_id)
        try:
            result = future.append_as_follower(data)
        except UnexpectedAppendOffsetError as error:
            if future.local.size or error.last_offset < future.log_end_offset:
                raise
            # The current log begins in the middle of a batch, which is taken whole.
            self._start_afresh(error.first_offset)
            result = future.append_as_follower(data)
        if result.last_offset == NO_OFFSET:
            raise InvalidDataError(f"{self.current.dir} has no whole batch at offset {future.log_end_offset}")
        self.has_progressed = True
        self._misses = 0

    def _not_read(self, error: Exception) -> None:
        if not isinstance(error, TailraceError):
            raise error
        self._misses += 1
        is_passing = isinstance(error, OffsetOutOfRangeError | SegmentGoneError) and self._misses < _MOST_MISSES
        if is_passing:
            self._step()
        else:
            self._end(error)

    # The end

    def _copy_last_stretch(self) -> bool:
        """At once, if it is short enough."""
        current, future = self.current, self.future
        if bytes_between(current, future.log_end_offset, current.log_end_offset) > LAST_STRETCH_BYTES:
            return False
        while self.offset_lag:
            if not self._leap_over_gap():
                data = current.read(future.log_end_offset, self._chunk_bytes).read()
                self._append(data)
                self._pace(len(data))
        self._follow_log_start()
        return True

    def _flush(self) -> None:
        self._is_flushed = True
        self._look_after_flush(_FLUSH_CHECK_MS)
        self.future.flush(done=self._then(self._step))

    def _look_after_flush(self, delay_ms: int) -> None:
        """One that fails does not say so, nor does one whose log is let go of."""
        self._store.env.jobs.later("move-log", delay_ms, self._then(partial(self._go_on_when_flushed, delay_ms)))

    def _go_on_when_flushed(self, delay_ms: int) -> None:
        if self.future.is_flushing:
            self._look_after_flush(delay_ms)
        else:
            self._step()

    def _take_over(self) -> None:
        future = self.future
        if not future.is_flushing and future.recovery_point < future.log_end_offset:
            future.flush_now()
        if not future.is_flushing and self._is_same() and self._move.finish(self._partition):
            self._end(None)
        else:
            self._look_after_flush(_OTHER_FLUSH_MS)

    def _is_same(self) -> bool:
        if has_same_bytes(self.current, self.future, self.current.log_end_offset):
            return True
        self._fresh_starts += 1
        if self._fresh_starts > _MOST_FRESH_STARTS:
            raise InvalidDataError(f"{self.current.dir} and its copy {self.future.dir} differ, whenever it is made")
        _log.warning("%s: the copy of %s differs from it and is made anew", self.future.dir, self._partition)
        self._keep_below = 0
        return False
