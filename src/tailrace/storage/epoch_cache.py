"""Which leader epoch wrote which part of a log: the file `leader-epoch-checkpoint` and its copy in memory.

File. A checkpoint of version 0 with lines `epoch start_offset`. An epoch reaches from its start offset to that of
the next; the last one to the end of the log. Epochs and start offsets both ascend strictly.

Crash rule. An assignment is in the file before `assign` returns (a killed process finds it) and its fsync is started
as a job. A truncation is written in a job as a whole: a file that still has the dropped entries does no harm, since
opening a log truncates to the log's ends again. Before a log's recovery point moves, `sync_now` makes the file
durable. Lost power between an assignment and its fsync may leave an empty or torn file: `load` raises
CorruptCheckpointError and the entries are taken from the headers of the batches.

Who may call. The owner of the log assigns, truncates and loads; any thread may ask and `sync_now`. States are
immutable and numbered; a job writes the newest there is and never puts one over a file with a higher number. The
owner never waits for a job: it takes only the lock of the rename, which no fsync is done under.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from tailrace.env import Files, Jobs, Mode
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.storage.checkpoint import CheckpointFile, parse_number
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT, directory_of, join

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1

_VERSION: Final = 0
_BACKGROUND_SUFFIX: Final = ".flush.tmp"  # apart from the owner's: they may write at the same time
_NEVER: Final = -1
_by_epoch = itemgetter(0)
_by_start_offset = itemgetter(1)


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


_NO_LATEST: Final = EpochEntry(UNDEFINED_EPOCH, 2**63)  # no offset reaches it: every assignment is looked at


class _State(NamedTuple):
    number: int
    entries: tuple[EpochEntry, ...]

    def lines(self) -> list[str]:
        return [f"{entry.epoch} {entry.start_offset}" for entry in self.entries]


class LeaderEpochCache:
    """The epochs of one log; see the module for the file, the crash rule and who may call."""

    __slots__ = (
        "_durable",
        "_file",
        "_files",
        "_flushing",
        "_is_ended",
        "_jobs",
        "_latest_epoch",
        "_latest_start_offset",
        "_renaming",
        "_state",
        "_visible",
        "_visible_is_suspect",
    )

    def __init__(self, files: Files, jobs: Jobs, dir: str) -> None:  # noqa: A002 - the word for it everywhere else
        """Touches no file; empty until `load` or an assignment."""
        self._files = files
        self._jobs = jobs
        self._file = CheckpointFile(files, join(dir, LEADER_EPOCH_CHECKPOINT), _VERSION)
        self._renaming = threading.Lock()  # for _visible and the file's name
        self._flushing = threading.Lock()  # for _durable and the background's temporary file
        self._visible = _NEVER  # number of the state in the file; _NEVER when it has none of ours
        self._visible_is_suspect = False  # a sync of that file failed: only a new file can be trusted
        self._is_ended = False  # with _renaming: from then on the file is another's
        self._durable = _NEVER  # number of the newest state that is safe from lost power
        self._publish(_State(0, ()))

    # Asking

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._state.entries

    @property
    def latest_entry(self) -> EpochEntry | None:
        entries = self._state.entries
        return entries[-1] if entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        entries = self._state.entries
        return entries[0] if entries else None

    @property
    def latest_epoch(self) -> int | None:
        entries = self._state.entries
        return entries[-1].epoch if entries else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that wrote `offset`; None below the earliest."""
        entries = self._state.entries
        at = bisect_right(entries, offset, key=_by_start_offset)
        return entries[at - 1].epoch if at else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest epoch ≤ the requested one, and the offset at which it ended.

        The latest epoch ends at the log's end. An epoch from before the earliest one is answered with itself and
        the earliest start offset: what it wrote is gone, the follower begins there. (−1, −1) for an undefined
        epoch and for one above the latest.
        """
        entries = self._state.entries
        if requested_epoch == UNDEFINED_EPOCH or not entries or requested_epoch > entries[-1].epoch:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if requested_epoch == entries[-1].epoch:
            return requested_epoch, log_end_offset
        following = bisect_right(entries, requested_epoch, key=_by_epoch)
        epoch = entries[following - 1].epoch if following else requested_epoch
        return epoch, entries[following].start_offset

    # Changing, by the owner

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` began at `start_offset`; the latest epoch keeps the start offset it has.

        Entries at the end that contradict the new one (not a lower epoch, or not a lower offset) are removed.
        """
        if epoch == self._latest_epoch and start_offset >= self._latest_start_offset:
            return
        self.assign_all((EpochEntry(epoch, start_offset),))

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """Assign each in turn, with one write."""
        before = self._state
        after = before.entries
        for entry in entries:
            if entry.epoch < 0 or entry.start_offset < 0:
                raise InvalidDataError(f"leader epoch {entry.epoch} cannot begin at offset {entry.start_offset}")
            after = _with(after, entry)
        if after == before.entries:
            return
        state = _State(before.number + 1, after)
        self._write_visibly(state)
        self._publish(state)
        self._start_flush(state)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: drop the epochs that began there or later."""
        entries = self._state.entries
        if end_offset >= 0:
            self._change_later(entries[: bisect_left(entries, end_offset, key=_by_start_offset)])

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: the epoch that wrote it begins there, earlier ones are dropped."""
        entries = self._state.entries
        at = bisect_right(entries, start_offset, key=_by_start_offset)
        if at:
            self._change_later((EpochEntry(entries[at - 1].epoch, start_offset), *entries[at:]))

    def replace_from(self, offset: int, epoch: int, entries: Iterable[EpochEntry]) -> bool:
        """Take these entries for what begins at `offset` or later. What is before it ends with a batch of `epoch`.

        Returns whether any entry has changed.
        """
        before = self._state.entries
        latest = EpochEntry(epoch, offset)
        below = (each for each in before if each.epoch <= epoch and each.start_offset < offset)
        after = (*below, latest) if latest in before else tuple(below)
        for entry in entries:
            after = _with(after, entry)
        self._change_later(after)
        return after != before

    def clear(self) -> None:
        """Drop every entry."""
        self._change_later(())

    def moved_to(self, dir: str) -> None:  # noqa: A002
        """The directory was renamed."""
        with self._renaming:
            self._file = CheckpointFile(self._files, join(dir, LEADER_EPOCH_CHECKPOINT), _VERSION)

    def end(self) -> None:
        """The log lets go of its directory: jobs still on their way leave the file alone."""
        with self._renaming:
            self._is_ended = True

    # The file

    def load(self) -> bool:
        """Take the entries from the file; False when there is none. Raises CorruptCheckpointError.

        For a cache just made. Entries that contradict each other are repaired as by `assign`.
        """
        if not self._files.exists(self._file.path):
            return False
        stored = [parse_entry(self._file.path, line) for line in self._file.read(empty_is_corrupt=True)]
        entries: tuple[EpochEntry, ...] = ()
        for entry in stored:
            entries = _with(entries, entry)
        self._visible = 0 if list(entries) == stored else _NEVER
        self._publish(_State(0, entries))
        return True

    def sync_now(self) -> None:
        """Make the present entries durable before returning."""
        self._make_durable(self._state.number)

    def _publish(self, state: _State) -> None:
        latest = state.entries[-1] if state.entries else _NO_LATEST
        self._state = state
        self._latest_epoch, self._latest_start_offset = latest

    def _change_later(self, entries: tuple[EpochEntry, ...]) -> None:
        before = self._state
        if entries != before.entries:
            state = _State(before.number + 1, entries)
            self._publish(state)
            self._start_flush(state)

    def _start_flush(self, state: _State) -> None:
        work = partial(self._flush_in_background, state.number)
        self._jobs.run(f"flush {self._file.path}", work, can_wait=True)

    def _flush_in_background(self, number: int) -> None:
        # The directory may be gone, or the disk may fail: a flush that matters is repeated by sync_now, which says so.
        with suppress(OSError):
            self._make_durable(number)

    def _write_visibly(self, state: _State) -> None:
        temporary = self._file.prepare(state.lines(), sync=False)
        with self._renaming:
            self._publish_file(temporary, state)

    def _publish_file(self, temporary: str, state: _State) -> None:
        self._file.publish(temporary)
        self._visible = state.number
        self._visible_is_suspect = False

    def _make_durable(self, number: int) -> None:
        """Return once state `number` or a newer one is safe from lost power."""
        with self._flushing:
            while self._durable < number:
                synced = self._sync_visible(number)
                if synced is None:
                    synced = self._write_durably(self._state)
                self._files.sync_dir(directory_of(self._file.path))
                self._durable = max(self._durable, synced)

    def _sync_visible(self, number: int) -> int | None:
        """Sync the file if it holds state `number` or a newer one; returns the number of that one."""
        with self._renaming:
            visible = self._visible
            if visible < number or self._visible_is_suspect:
                return None
            file = self._files.open(self._file.path, Mode.WRITE)
        try:
            file.sync()
        except OSError:
            # The kernel may have dropped the bytes and would call the next sync of this file a success.
            with self._renaming:
                self._visible_is_suspect = True
            raise
        finally:
            file.close()
        return visible

    def _write_durably(self, state: _State) -> int:
        """Write `state` to a new file; returns its number, or _NEVER if a newer one got into the file meanwhile."""
        temporary = self._file.prepare(state.lines(), suffix=_BACKGROUND_SUFFIX)
        with self._renaming:
            if self._is_ended:
                return state.number
            if self._visible > state.number:
                return _NEVER
            self._publish_file(temporary, state)
        return state.number


def _with(entries: tuple[EpochEntry, ...], new: EpochEntry) -> tuple[EpochEntry, ...]:
    """`entries` after the assignment of `new`."""
    if entries and new.epoch == entries[-1].epoch and new.start_offset >= entries[-1].start_offset:
        return entries
    keep = len(entries)
    while keep and (entries[keep - 1].epoch >= new.epoch or entries[keep - 1].start_offset >= new.start_offset):
        keep -= 1
    return (*entries[:keep], new)


def parse_entry(path: str, line: str) -> EpochEntry:
    """One line of the file at `path`; CorruptCheckpointError when it is none."""
    fields = line.split()
    if len(fields) == 2:
        epoch, start_offset = parse_number(fields[0], 2**31 - 1), parse_number(fields[1], 2**63 - 1)
        if epoch is not None and start_offset is not None:
            return EpochEntry(epoch, start_offset)
    raise CorruptCheckpointError(f"{path} has the line {line[:80]!r}, not epoch and start offset")
