"""Every move of a partition between data directories, from the wish to the end: as many at a time as there are places.

    asked for   refused where the target is offline or cordoned, or any directory is offline: it may hold another copy
    made        the empty future log is there, durably: from now on a start goes on with the move
    copying     with one of `num.replica.alter.log.dirs.threads` places, see `log_copying`
    waiting     the target is full: its place goes to the next, and after a pause, longer each time, it goes on
    over        the partition is in the target; or the move has failed and the partition is where it was

What becomes of the future log of a move that fails: where one of the two disks has failed it stays, and the next start
with both disks goes on; where the partition was deleted it is deleted too; where the log cannot be copied (damage), or
the move was cancelled, it is deleted, durably before anything else happens to the partition. So there are never two.

Compaction of a partition is paused from the first byte copied to the end of the move.

Who may call. The log manager, on the owner's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.model.errors import (
    InvalidReplicaAssignmentError,
    LogDirUnavailableError,
    MoveCancelledError,
    StorageError,
    TailraceError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.storage.manager.cleaning import Cleaning
from tailrace.storage.manager.log_copying import LogCopying, Pace
from tailrace.storage.manager.log_creation import Done, Failed
from tailrace.storage.manager.log_deletion import Errors
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_move import LogMove
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.log_truncation import LogTruncation
from tailrace.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from tailrace.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

FIRST_PAUSE_MS: Final = 1000
LONGEST_PAUSE_MS: Final = 60_000

_Gone = Callable[[Errors], None]


class MoveProgress(NamedTuple):
    """Of one move; `trouble` is why it waits."""

    source: str
    target: str
    offset_lag: int
    bytes_behind: int
    is_copying: bool
    trouble: TailraceError | None


@dataclass(slots=True, eq=False)
class _Move:
    partition: TopicPartition
    current: UnifiedLog
    source: LogDirectory
    target: LogDirectory
    askers: list[tuple[Done, Failed]] = field(default_factory=list)
    copying: LogCopying | None = None
    pause_ms: int = 0
    trouble: TailraceError | None = None
    is_making: bool = False
    has_place: bool = False
    paused_cleaning: Cleaning | None = None
    is_over: bool = False

    def progress(self) -> MoveProgress:
        copying = self.copying
        lag = self.current.log_end_offset if copying is None else copying.offset_lag
        behind = self.current.local.size if copying is None else copying.bytes_behind
        return MoveProgress(self.source.path, self.target.path, lag, behind, self.has_place, self.trouble)


class LogMover:
    def __init__(self, manager: LogManager, store: LogStore, move: LogMove, pace: Pace, places: int) -> None:
        self._manager = manager
        self._store = store
        self._move = move
        self._pace = pace
        self._free_places = places
        self._moves: dict[TopicPartition, _Move] = {}
        self._queue: deque[_Move] = deque()
        self._leaving: dict[TopicPartition, list[_Gone]] = {}
        """Partitions whose future log is being deleted, and who waits for it."""
        self._is_stopped = False
        self.truncation = LogTruncation(store, self.before_cut)
        """Of current logs, which the copies of those that move follow, and of the copies."""

    @property
    def progress(self) -> Mapping[TopicPartition, MoveProgress]:
        return {partition: move.progress() for partition, move in self._moves.items()}

    # Asked for

    def move(self, partition: TopicPartition, target: LogDirectory, done: Done, failed: Failed) -> None:
        try:
            current = self._movable(partition, target)
        except TailraceError as error:
            failed(error)
            return
        known = self._moves.get(partition)
        source = self._store.directory_of(current)
        if source is target:
            self.cancel(partition, lambda errors: failed(errors[partition]) if errors else done(current))
        elif known is not None and known.target is target:
            known.askers.append((done, failed))
        else:
            move = self._moves[partition] = _Move(partition, current, source, target, [(done, failed)])
            self._call_off(partition, known, f"it is moved to {target.path} instead", partial(self._make, move))

    def _movable(self, partition: TopicPartition, target: LogDirectory) -> UnifiedLog:
        current = self._store.current.get(partition)
        offline = ", ".join(each.path for each in self._store.directories.offline)
        if not target.is_live:
            raise LogDirUnavailableError(f"{target.path} is offline: {partition} cannot be moved there")
        if target.is_cordoned:
            raise InvalidReplicaAssignmentError(f"{target.path} is cordoned: {partition} cannot be moved there")
        if current is None:
            raise LogDirUnavailableError(f"{partition} has no log here that could be moved")
        if offline:
            raise LogDirUnavailableError(f"a copy of {partition} may be in an offline directory: {offline}")
        if self._is_stopped or not self._manager.is_started:
            raise LogDirUnavailableError(f"{partition} cannot be moved: the logs are not all open")
        return current

    def resume(self) -> None:
        """After a start: go on with the moves that an earlier run has begun."""
        for partition, future in list(self._store.future.items()):
            current = self._store.current.get(partition)
            if current is None:
                continue
            if None not in (current.topic_id, future.topic_id) and current.topic_id != future.topic_id:
                _log.warning("%s is the copy of an earlier topic of that name and is deleted", future.dir)
                self._delete_future(partition, noop)
                continue
            move = _Move(partition, current, self._store.directory_of(current), self._store.directory_of(future))
            self._moves[partition] = move
            _log.info("%s: the move of %s goes on at offset %d", future.dir, partition, future.log_end_offset)
            self._go_on(move, future)

    # Made

    def _make(self, move: _Move, errors: Errors) -> None:
        if move.is_over or self._is_stopped:
            return
        if errors:
            self._not_made(move, errors[move.partition])
            return
        move.is_making = True
        made, not_made = partial(self._made, move), partial(self._not_made, move)
        self._manager.create_future(move.partition, move.target, made, not_made)

    def _made(self, move: _Move, future: UnifiedLog) -> None:
        move.is_making = False
        if self._is_stopped:
            return
        if move.is_over:
            self._delete_future(move.partition, self._leaving.pop(move.partition, []))
        else:
            move.copying = self._copying(move, future, is_resumed=False)
            self._enqueue(move)

    def _copying(self, move: _Move, future: UnifiedLog, *, is_resumed: bool) -> LogCopying:
        return LogCopying(
            self.truncation,
            self._store,
            self._move,
            self._pace,
            move.partition,
            move.current,
            future,
            is_resumed=is_resumed,
        )

    def _not_made(self, move: _Move, error: TailraceError) -> None:
        move.is_making = False
        if move.is_over:
            for gone in self._leaving.pop(move.partition, ()):
                gone({})
        elif isinstance(error, StorageError) and error.is_shortage:
            self._wait(move, error, partial(self._make, move, {}))
        else:
            self._fail(move, error)

    def _go_on(self, move: _Move, future: UnifiedLog) -> None:
        """With a future log of an earlier run, before anything is appended to the current one."""
        move.copying = self._copying(move, future, is_resumed=True)
        self._pause_cleaning(move)
        try:
            move.copying.compare()
        except TailraceError as error:
            self._ended(move, error)
        else:
            self._enqueue(move)

    # Copying

    def _enqueue(self, move: _Move) -> None:
        self._queue.append(move)
        self._fill_places()

    def _fill_places(self) -> None:
        while self._queue and self._free_places and not self._is_stopped:
            move = self._queue.popleft()
            if move.is_over or move.copying is None:
                continue
            self._free_places -= 1
            move.has_place = True
            move.trouble = None
            self._pause_cleaning(move)
            move.copying.go_on(partial(self._ended, move))

    def _leave_place(self, move: _Move) -> None:
        """To the next one, in a turn of its own: a thousand short moves must not come one inside the other, nor keep
        the owner's thread all at once."""
        if move.has_place:
            move.has_place = False
            self._store.env.jobs.later("move-log", 0, self._free_place)

    def _free_place(self) -> None:
        self._free_places += 1
        self._fill_places()

    def _pause_cleaning(self, move: _Move) -> None:
        if move.paused_cleaning is None:
            move.paused_cleaning = self._store.cleaning
            move.paused_cleaning.pause((move.partition,))

    def _ended(self, move: _Move, error: TailraceError | None) -> None:
        partition = move.partition
        if error is None:
            self._over(move)
            log = self._store.current[partition]
            for done, _ in move.askers:
                done(log)
        elif not self._has_both(move):
            self._fail(move, error)
        elif not (isinstance(error, StorageError) and error.is_shortage):
            self._fail(move, error)
            self._delete_future(partition, noop)
        elif move.copying is not None and move.copying.future.failure is not None:
            # A flush has failed for want of space: nobody knows what of the log is on the disk.
            move.copying = None
            self._wait(move, error, partial(self._delete_future, partition, partial(self._make, move)))
        else:
            self._wait(move, error, partial(self._enqueue, move))

    def _has_both(self, move: _Move) -> bool:
        logs = (self._store.current.get(move.partition), self._store.future.get(move.partition))
        return move.source.is_live and move.target.is_live and None not in logs

    # Waiting

    def _wait(self, move: _Move, error: TailraceError, then: Callable[[], None]) -> None:
        if move.copying is not None and move.copying.has_progressed:
            move.pause_ms = 0
        move.pause_ms = min(max(2 * move.pause_ms, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
        move.trouble = error
        _log.warning("%s waits %d ms before it is moved on: %s", move.partition, move.pause_ms, error)

        def go_on() -> None:
            if not move.is_over and not self._is_stopped:
                then()

        self._store.env.jobs.later("move-log", move.pause_ms, go_on)
        self._leave_place(move)

    # Over

    def cancel(self, partition: TopicPartition, done: _Gone) -> None:
        """Give up the partition's move, if there is one; `done` when no start can find it again, or why one may."""
        self._call_off(partition, self._moves.get(partition), "it was cancelled", done)

    def _call_off(self, partition: TopicPartition, move: _Move | None, why: str, gone: _Gone) -> None:
        if move is None:
            self._delete_future(partition, gone)
            return
        self._over(move)
        if move.is_making:
            self._leaving.setdefault(partition, []).append(gone)
        else:
            self._delete_future(partition, gone)
        _tell(move, MoveCancelledError(f"{partition} is not moved to {move.target.path}: {why}"))

    def _delete_future(self, partition: TopicPartition, gone: _Gone | list[_Gone]) -> None:
        waiting = gone if isinstance(gone, list) else [gone]
        if partition in self._leaving:
            self._leaving[partition].extend(waiting)
            return
        self._leaving[partition] = waiting
        self._manager.delete_future(partition, partial(self._left, partition))

    def _left(self, partition: TopicPartition, errors: Errors) -> None:
        for gone in self._leaving.pop(partition):
            gone(errors)

    def deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are about to be deleted, with their future logs."""
        for partition in partitions:
            move = self._moves.get(partition)
            if move is not None:
                self._fail(move, MoveCancelledError(f"{partition} is deleted while it moves to {move.target.path}"))

    def stop(self) -> None:
        """The logs are being closed: moves stay as they are, the next start goes on with them; nobody is told."""
        self._is_stopped = True
        for move in self._moves.values():
            if move.copying is not None:
                move.copying.stop()

    def _fail(self, move: _Move, error: TailraceError) -> None:
        self._over(move)
        _log.warning("%s is not moved from %s to %s: %s", move.partition, move.source.path, move.target.path, error)
        _tell(move, error)

    def _over(self, move: _Move) -> None:
        move.is_over = True
        if self._moves.get(move.partition) is move:
            del self._moves[move.partition]
        if move.copying is not None:
            move.copying.stop()
        if move.paused_cleaning is not None:
            move.paused_cleaning.resume((move.partition,))
            move.paused_cleaning = None
        self._leave_place(move)

    # The current log is cut

    def before_cut(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The current logs are about to lose everything from the offset on; what was copied of it goes first."""
        for partition, offset in offsets.items():
            move = self._moves.get(partition)
            if move is not None and move.copying is not None:
                move.copying.keep_below(offset)


def _tell(move: _Move, error: TailraceError) -> None:
    for _, failed in move.askers:
        failed(error)
