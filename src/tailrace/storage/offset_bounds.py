"""The offsets that bound what can be seen of a log, and how they may move.

    log start ≤ last stable ≤ high watermark ≤ log end        local log start ≥ log start

The log end is the local log's; the others are kept here. Forwards they move one by one, backwards only when the log is
cut. They are in memory only: who wants them back after a restart checkpoints them.

Who may call: the owner's thread moves, any thread reads.
"""

from __future__ import annotations

from tailrace.model.errors import OffsetOutOfRangeError, TailraceError
from tailrace.model.invariant import invariant
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.epoch_cache import LeaderEpochCache
from tailrace.storage.local_log import LocalLog
from tailrace.storage.producer_state import ProducerStateManager


class OffsetBounds:
    def __init__(
        self, local: LocalLog, producers: ProducerStateManager, epochs: LeaderEpochCache, log_start: int
    ) -> None:
        self._local = local
        self._producers = producers
        self._epochs = epochs
        self.log_start = log_start
        self.local_log_start = log_start
        """Where data on this disk begins; above the log start where older segments are in a remote store."""
        self.high_watermark = LogOffsetMetadata(log_start)
        self._first_unstable: LogOffsetMetadata | None = None
        self._is_settled = True
        """False while producer state is not that of the log, which was cut below the high watermark."""
        self.refresh_first_unstable()

    @property
    def first_unstable(self) -> LogOffsetMetadata | None:
        """The first offset of a transaction that is not decided, or not below the high watermark yet."""
        return self._first_unstable

    @property
    def last_stable(self) -> int:
        first_unstable = self._first_unstable
        hw = self.high_watermark.offset
        return hw if first_unstable is None else min(first_unstable.offset, hw)

    def check(self) -> None:
        """The promise of the module's first lines, whole; called wherever one of them moves."""
        start, stable, hw, end = self.log_start, self.last_stable, self.high_watermark.offset, self._local.end_offset
        if start <= stable <= hw <= end and self.local_log_start >= start:
            return  # the promise is spelled out only when it is broken: this runs for every append
        where = self._local.place.dir
        invariant(start <= stable <= hw <= end, f"{where}: log start {start} ≤ stable {stable} ≤ HW {hw} ≤ end {end}")
        invariant(self.local_log_start >= start, f"{where}: local start {self.local_log_start} < start {start}")

    def refresh_first_unstable(self) -> None:
        first = self._producers.first_unstable_offset if self._is_settled else LogOffsetMetadata(self.log_start)
        if first is not None and first.offset < self.log_start:
            first = LogOffsetMetadata(self.log_start)
        self._first_unstable = first

    # Forwards

    def update_high_watermark(self, offset: int) -> int:
        bounded = min(max(offset, self.high_watermark.offset), self._local.end_offset)
        try:
            place = self._local.locate(bounded)
        except (OSError, TailraceError):  # readers will be told
            place = LogOffsetMetadata(bounded)
        self._set_high_watermark(place)
        return bounded

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> bool:
        if new.offset > self._local.end_offset:
            raise OffsetOutOfRangeError(f"high watermark {new.offset} beyond the end {self._local.end_offset}")
        old = self.high_watermark
        if new.offset < old.offset or (new.offset == old.offset and new.segment_base <= old.segment_base):
            return False
        self._set_high_watermark(new)
        return True

    def commit_everything(self) -> None:
        """The log has no other replica: whatever is in it is committed."""
        end = self._local.end
        if self._first_unstable is None:  # no transaction has anything to settle
            self.high_watermark = end
        else:
            self._set_high_watermark(end)

    def follow_end(self) -> None:
        """Where the high watermark is at the log end, it is in the segment that ends the log."""
        if self.high_watermark.offset >= self._local.end_offset:
            self._set_high_watermark(self._local.end)

    def follow_leader(self, high_watermark: int, log_start: int) -> bool:
        """The log start stops at the high watermark, which stops at the log end. A position is found when it is needed:
        most followers serve no readers."""
        end = self._local.end
        has_moved = min(high_watermark, end.offset) > self.high_watermark.offset
        if has_moved:
            self._set_high_watermark(end if high_watermark >= end.offset else LogOffsetMetadata(high_watermark))
        return self.increment_log_start(min(log_start, self.high_watermark.offset)) or has_moved

    def _set_high_watermark(self, new: LogOffsetMetadata) -> None:
        self.high_watermark = new
        self._producers.on_high_watermark_updated(new.offset)
        self.refresh_first_unstable()
        self.check()

    def increment_log_start(self, offset: int) -> bool:
        if offset > self.high_watermark.offset:
            raise OffsetOutOfRangeError(f"log start {offset} beyond the high watermark {self.high_watermark.offset}")
        if offset <= self.log_start:
            return False
        self.local_log_start = max(offset, self.local_log_start)
        self.log_start = offset
        self._epochs.truncate_from_start(offset)
        self._producers.on_log_start_offset_incremented(offset)
        self.refresh_first_unstable()
        self.check()
        return True

    def increment_local_log_start(self, offset: int) -> bool:
        if offset <= self.local_log_start:
            return False
        self.local_log_start = offset
        return True

    # When the log is cut

    def come_below(self, offset: int) -> None:
        """Before the cut: other threads look at the bounds at any time, and a failing disk must leave them in order.

        Where a marker below the high watermark goes, its transaction is open again. Producer state says so only in
        the end (`settle`); until then no offset is stable.
        """
        self.log_start = min(self.log_start, offset)
        self.local_log_start = min(self.local_log_start, offset)
        if self.high_watermark.offset > offset:
            self.high_watermark = LogOffsetMetadata(offset)
            self._is_settled = False
        self.refresh_first_unstable()

    def restart_at(self, offset: int, log_start: int) -> None:
        """After the log was emptied."""
        self.log_start = log_start
        self.local_log_start = offset
        if not log_start <= self.high_watermark.offset <= offset:
            self.high_watermark = self._local.end
        self.refresh_first_unstable()

    def settle(self) -> None:
        """After a cut, and when producers are what they were up to the new end."""
        self._is_settled = True
        hw = self.high_watermark.offset
        is_inside = self.log_start <= hw <= self._local.end_offset
        self.high_watermark = self._local.locate(hw) if is_inside else self._local.end
        self._producers.on_high_watermark_updated(self.high_watermark.offset)
        self.refresh_first_unstable()
        self.check()
