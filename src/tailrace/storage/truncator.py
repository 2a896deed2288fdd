"""Cutting a log back, or emptying it, in steps: at once for readers, and on the disk without an fsync by the owner.

    1  memory: bounds, segments, log end, recovery point and epochs are those of the shorter log. Producer snapshots
       outside of it are unlinked. From now on reads below the cut are served, and appends are refused.
    2  the directory is synced, if snapshots went
    3  segments above the cut are renamed `.deleted`, durably, and the file of the last one is cut, durably; a log that
       starts over gets its new segment. See `local_log` for the order.
    4  producer state is rebuilt from the newest snapshot and the batches after it
    5  the directory is synced, if names in it have changed since step 2

Fsyncs and the reading of step 4 are the work of the steps; everything else is done by the owner of the log, between
them.

Crash rule. See `local_log`: a crash leaves a prefix of the log. Step 2 comes before step 3 because a load believes in a
gap before a segment that has a snapshot. Snapshots of what was cut off must not come back beside other data either.
Epochs are written in the background; a load truncates them to what it finds, and reads those of batches again.

Between two steps a flush may begin or end: what it makes durable is below the cut. The log may be let go of, by a
deletion or the loss of its directory: then its files are no longer touched, since another log may have their names.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace.env import Env
from tailrace.storage import producer_replay
from tailrace.storage.appender import Appender
from tailrace.storage.flusher import Flusher
from tailrace.storage.producer_state import CapturedSnapshot, ProducerStateManager
from tailrace.storage.segments import LogSegments
from tailrace.storage.steps import CalledOffError, Steps

if TYPE_CHECKING:
    from tailrace.storage.unified_log import UnifiedLog


class Truncator:
    """Belongs to one UnifiedLog. All but the work inside steps runs on the owner's thread."""

    def __init__(self, log: UnifiedLog, appender: Appender, flusher: Flusher) -> None:
        self._log = log
        self._appender = appender
        self._flusher = flusher
        self._env = log.local.place.env
        self.is_under_way = False
        """Step 1 is done and step 5 is not."""
        self.count = 0
        """Counted when step 1 is done: a reader that began before cannot compare its bound with the new end."""

    def truncating(self, offset: int) -> Steps[None]:
        """`offset` lies in the log, and no transaction's end is missing in the transaction index."""
        log = self._log
        log.bounds.come_below(offset)
        on_disk = log.local.cut_off(offset)
        log.epochs.truncate_from_end(offset)
        first = log.local.segments.first
        start = offset if first is None else min(first.base_offset, log.log_start_offset)
        deleted = log.producers.delete_snapshots_outside(start, offset)
        yield from self._shortened(offset, on_disk, deleted)

    def restarting_at(self, offset: int, log_start: int) -> Steps[None]:
        log = self._log
        log.bounds.come_below(offset)
        on_disk = log.local.start_over(offset)
        log.epochs.clear()
        before = log.producers.deleted_snapshots
        log.producers.truncate_fully_and_start_at(offset)
        log.bounds.restart_at(offset, log_start)
        yield from self._shortened(offset, on_disk, log.producers.deleted_snapshots - before)

    def _shortened(self, end: int, on_disk: Steps[None], deleted_snapshots: int) -> Steps[None]:
        """Steps 2 to 5, for a log that ends at `end` in memory."""
        self._appender.forget_unfinished()
        self._flusher.use_captured(())
        self._log.flush_awaited = min(self._log.flush_awaited, end)
        self.is_under_way = True
        self.count += 1
        try:
            yield from self._while_open(self._on_disk(end, on_disk, deleted_snapshots))
        finally:
            self.is_under_way = False
        self._log.bounds.settle()

    def _on_disk(self, end: int, on_disk: Steps[None], deleted_snapshots: int) -> Steps[None]:
        log = self._log
        names_before = log.local.names_changed
        if deleted_snapshots:
            yield log.local.sync_names
        yield from on_disk
        segments = LogSegments(log.local.segments)
        rebuilt, captured = yield partial(_rebuilt, self._env, log, segments, log.log_start_offset, end)
        log.producers.take_over(rebuilt)
        self._flusher.use_captured(captured)
        if rebuilt.deleted_snapshots or log.local.names_changed > names_before:
            yield log.local.sync_names

    def _while_open(self, steps: Steps[None]) -> Steps[None]:
        """The steps, until the log is let go of."""
        try:
            work = next(steps)
            while True:
                try:
                    value = yield work
                except Exception as error:
                    self._check_open()
                    work = steps.throw(error)
                else:
                    self._check_open()
                    work = steps.send(value)
        except StopIteration:
            return

    def _check_open(self) -> None:
        if self._log.is_let_go:
            raise CalledOffError(f"{self._log.dir} is closed or removed in the middle of its truncation") from None


def _rebuilt(
    env: Env, log: UnifiedLog, segments: LogSegments, log_start: int, end: int
) -> tuple[ProducerStateManager, list[CapturedSnapshot]]:
    """On any thread: what is known of producers in a log that ends at `end`, and the snapshots that are due."""
    known, captured = log.producers, []
    state = ProducerStateManager(
        env.files,
        known.dir,
        max_transaction_timeout_ms=known.max_transaction_timeout_ms,
        producer_expiration_ms=known.producer_expiration_ms,
        verifies_transactions=known.verifies_transactions,
    )

    def capture(state: ProducerStateManager) -> None:
        snapshot = state.capture_snapshot()
        if snapshot is not None:
            captured.append(snapshot)

    now_ms = env.clock.now_ms()
    producer_replay.rebuild(state, segments, log_start, end, now_ms, was_clean=False, take_snapshot=capture)
    return state, captured
