"""Making a log durable: fsyncs as jobs, and the producer snapshots that wait for them.

A snapshot is captured when it is due (a roll, a recovery) and written only when everything below it is durable. So a
snapshot found on disk proves that nothing before it was lost when power failed: `loader` relies on that.

A failed fsync may have lost bytes that later ones would not report. From then on `sync_error` is set, no recovery point
moves, and the log refuses writes until it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from tailrace.env import Mode
from tailrace.model.errors import SegmentGoneError
from tailrace.model.invariant import invariant
from tailrace.storage.epoch_cache import LeaderEpochCache
from tailrace.storage.local_log import FlushWork, LocalLog
from tailrace.storage.names import join
from tailrace.storage.producer_state import CapturedSnapshot, ProducerStateManager
from tailrace.storage.steps import Steps


class FlushTrouble(Protocol):
    """Who is told that a flush failed; `is_fatal` when bytes may be lost."""

    def __call__(self, doing: str, cause: OSError, *, is_fatal: bool) -> object: ...


class Flusher:
    """Belongs to one UnifiedLog. All but the work inside jobs runs on the owner's thread."""

    def __init__(
        self,
        local: LocalLog,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        trouble: FlushTrouble,
        captured: Iterable[CapturedSnapshot] = (),
        unsynced: Iterable[str] = (),
    ) -> None:
        """`unsynced` are paths of snapshots that a process before this one wrote, and may not have synced."""
        self._local = local
        self._producers = producers
        self._epochs = epochs
        self._trouble = trouble
        self._env = local.place.env
        self._captured = list(captured)
        self._unsynced = list(unsynced)
        self.sync_error: OSError | None = None
        """Set by the thread that met it: a successful fsync proves nothing any more, whoever learns of it first."""
        self.is_ended = False
        """The log is closed, or is being closed on another thread: jobs still on their way find nothing to do."""
        self.on_their_way = 0
        """Flushes begun and not completed: they know files by the names they had."""

    def capture(self, producers: ProducerStateManager) -> None:
        """Keep the state of now for a snapshot, to be written once the log below it is durable."""
        captured = producers.capture_snapshot()
        if captured is not None:
            self._captured.append(captured)

    def use_captured(self, captured: Iterable[CapturedSnapshot]) -> None:
        """The log was cut, and producer state rebuilt: snapshots captured before may be of what is gone."""
        self._captured = list(captured)

    def start(self, offset: int, recovery_limit: int, done: Callable[[], None] | None = None) -> None:
        """Begin an fsync of everything below `offset`; `done` is called after it, at once if there is nothing to do.

        The recovery point does not pass `recovery_limit`, where something other than bytes is still missing.

        Epochs and earlier snapshots go with the segments, the directory last; then the recovery point moves, and
        snapshots that waited for it are written.
        """
        work = self._local.flush_work(offset, recovery_limit=recovery_limit)
        if work is None:
            if done is not None:
                done()
            return
        run = self._begun(work)

        def finish(_: None) -> None:
            if self._ended(work) and done is not None:
                done()

        def fail(error: Exception) -> None:
            self.on_their_way -= 1
            if isinstance(error, SegmentGoneError | OSError) and self.is_ended:
                return
            if not isinstance(error, OSError):
                raise error
            self._trouble("flush", error, is_fatal=True)

        self._env.jobs.run("flush-log", run, finish, fail)

    def in_steps(self, offset: int, recovery_limit: int) -> Steps[None]:
        """The same as steps of some longer work, which ends when the flush fails."""
        work = self._local.flush_work(offset, recovery_limit=recovery_limit)
        if work is None:
            return
        run = self._begun(work)
        try:
            yield run
        except OSError as error:
            self.on_their_way -= 1
            self._trouble("flush", error, is_fatal=True)
            raise
        except Exception:
            self.on_their_way -= 1
            raise
        self._ended(work)

    def snapshots_in_steps(self) -> Steps[None]:
        """Make every snapshot durable that is written. Compaction does it before it removes older ones: what these know
        of producers whose batches were deleted is nowhere else."""
        snapshots, self._unsynced = self._unsynced, []
        if not snapshots:
            return
        self.on_their_way += 1
        try:
            yield partial(self._sync_written, snapshots)
        except OSError as error:
            if not self.is_ended:
                self._trouble("flush", error, is_fatal=True)
            raise
        finally:
            self.on_their_way -= 1

    def _begun(self, work: FlushWork) -> Callable[[], None]:
        snapshots, self._unsynced = self._unsynced, []
        self.on_their_way += 1
        return partial(self._sync, work, snapshots)

    def _ended(self, work: FlushWork) -> bool:
        """Whether the flush has made anything durable."""
        self.on_their_way -= 1
        if self.sync_error is not None or self.is_ended:
            return False
        self._local.flushed(work)
        try:
            self._store_snapshots()
        except OSError as cause:  # without it a recovery reads one segment more
            self._trouble("write a producer snapshot", cause, is_fatal=False)
        return True

    def finish_now(self) -> None:
        """Make everything durable before returning: at close, before a gap in the offsets, before segments go."""
        if self.sync_error is not None:
            raise self.sync_error
        work = self._local.flush_work(self._local.end_offset, force=True)
        invariant(work is not None, "a forced flush has work")
        assert work is not None
        self._sync(work, self._unsynced)
        self._local.flushed(work)
        self._store_snapshots()
        path = self._producers.take_snapshot()
        self._sync_snapshots([*self._unsynced, *([path] if path is not None else [])])
        self._unsynced.clear()
        self._env.files.sync_dir(self._local.place.dir)

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self._unsynced = [join(directory, path.rpartition("/")[2]) for path in self._unsynced]

    def _sync(self, work: FlushWork, snapshots: list[str]) -> None:
        try:
            self._epochs.sync_now()
            self._sync_snapshots(snapshots)
            work.run()
        except OSError as error:
            self.sync_error = error
            raise

    def _sync_written(self, snapshots: list[str]) -> None:
        try:
            self._sync_snapshots(snapshots)
            self._local.sync_names()
        except OSError as error:
            self.sync_error = error
            raise

    def _store_snapshots(self) -> None:
        durable = [captured for captured in self._captured if captured.offset <= self._local.recovery_point]
        for captured in durable:
            path = self._producers.store_snapshot(captured)
            self._captured.remove(captured)
            if path is not None:
                self._unsynced.append(path)
                self._local.names_change()

    def _sync_snapshots(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):  # deleted meanwhile
                self._env.files.open(path, Mode.WRITE).sync()
