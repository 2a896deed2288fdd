"""Every producer that a log remembers, the transactions open in it, and the snapshots that keep both over a restart.

In memory, per log, owned by the thread that appends:

    producers             the last five batches of each producer, its epochs, its open transaction
    ongoing               transactions without a marker, by first offset
    unreplicated          transactions whose marker is not below the high watermark yet
    verification          guards of transactions about to begin (see `verification`)

An offset is *undecided* from the first one of the earliest ongoing transaction on, and *unstable* from the first one
of the earliest transaction that is ongoing or unreplicated; a read_committed reader sees nothing unstable.

On disk: `<offset>.snapshot` files (see `producer_snapshot`). A snapshot at offset N replaces the reading of the log
below N; what follows N is replayed by the log through `prepare_update` and `update`. A snapshot that does not check
is deleted and the next older one taken.

A failing disk shows as the OSError of `Files`. A snapshot that could not be taken leaves the state as it was; after a
failed load or truncation the state is good for nothing until one succeeds.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import CorruptSnapshotError
from tailrace.model.invariant import InvariantError, invariant
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage import names, producer_snapshot
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import ProducerAppendInfo
from tailrace.storage.producer_entry import BatchMetadata, CompletedTxn, ProducerStateEntry, TxnMetadata
from tailrace.storage.verification import VerificationStateEntry, VerificationStates

LATE_TRANSACTION_GRACE_MS: Final = 5 * 60 * 1000

_first_offset_of: Final[Callable[[TxnMetadata], int]] = attrgetter("first_offset.offset")
_log = logging.getLogger(__name__)


class CapturedSnapshot(NamedTuple):
    """The bytes of a snapshot on their way to a file."""

    offset: int
    data: bytes


class ProducerStateManager:
    def __init__(
        self,
        files: Files,
        dir: str,  # noqa: A002 - the name says it best
        *,
        max_transaction_timeout_ms: int = 900_000,
        producer_expiration_ms: int = 86_400_000,
        verifies_transactions: bool = False,
    ) -> None:
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self.producer_expiration_ms = producer_expiration_ms
        self.verifies_transactions = verifies_transactions
        self.producers: dict[int, ProducerStateEntry] = {}
        self._ongoing: list[TxnMetadata] = []  # by first offset
        # A heap by first offset. Transactions below its top may be replicated already: they go when they come up.
        self._unreplicated: list[tuple[int, TxnMetadata]] = []
        self._verification = VerificationStates()
        self._files = files
        self.move_to(dir)
        self._snapshots: list[int] = self._list_snapshots()  # ascending
        self._map_end_offset = 0
        self._last_snapshot_offset = 0
        self.deleted_snapshots = 0
        """How many went so far: they may come back until the directory is synced."""

    def move_to(self, dir: str) -> None:  # noqa: A002
        """The log's directory has been renamed."""
        self.dir = dir
        self._log_name = dir.rstrip("/").rpartition("/")[2]

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self._unreplicated

    # Appends

    def find_duplicate(
        self, producer_id: int, producer_epoch: int, first_seq: int, last_seq: int
    ) -> BatchMetadata | None:
        """The batch already in the log that a client sends again, if it is one of its last five."""
        entry = self.producers.get(producer_id)
        return None if entry is None else entry.find_duplicate(producer_epoch, first_seq, last_seq)

    def prepare_update(self, producer_id: int, origin: Origin) -> ProducerAppendInfo:
        if producer_id < 0:
            raise InvariantError(f"producer id {producer_id} given to the producer state of {self._log_name}")
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = ProducerStateEntry(producer_id)
        return ProducerAppendInfo(self._log_name, entry, origin, self._verification.get(producer_id))

    def update(self, info: ProducerAppendInfo) -> None:
        """The append is written: believe it."""
        entry = info.entry
        self.producers[entry.producer_id] = entry
        for txn in info.started_transactions:
            insort(self._ongoing, txn, key=_first_offset_of)

    def update_followed(self, entries: Mapping[int, ProducerStateEntry]) -> None:
        """Batches are written that changed nothing of their producers but what was the last one."""
        self.producers.update(entries)

    @property
    def map_end_offset(self) -> int:
        """The state is that of the log below this offset."""
        return self._map_end_offset

    def update_map_end_offset(self, offset: int) -> None:
        self._map_end_offset = offset

    # Transactions

    @property
    def ongoing(self) -> tuple[TxnMetadata, ...]:
        return tuple(self._ongoing)

    @property
    def first_undecided_offset(self) -> int | None:
        return self._ongoing[0].first_offset.offset if self._ongoing else None

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        undecided = self._ongoing[0].first_offset if self._ongoing else None
        if not self._unreplicated:
            return undecided
        unreplicated = self._unreplicated[0][1].first_offset
        if undecided is None or unreplicated.offset < undecided.offset:
            return unreplicated
        return undecided

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """What it was behind the marker: the transaction index records it, before `complete_txn`.

        It may be asked late, where the index could not be written at once: what began behind the marker does not count.
        """
        for txn in self._ongoing:
            if txn.first_offset.offset != completed.first_offset:
                return min(txn.first_offset.offset, completed.last_offset + 1)
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Its marker and, if aborted, its index entry are written; it is unstable until the marker is replicated."""
        at = bisect_left(self._ongoing, completed.first_offset, key=_first_offset_of)
        is_known = at < len(self._ongoing) and self._ongoing[at].first_offset.offset == completed.first_offset
        invariant(is_known, f"{completed} of {self._log_name} was never begun")
        txn = self._ongoing.pop(at)._replace(last_offset=completed.last_offset)
        heappush(self._unreplicated, (completed.first_offset, txn))

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Markers below the high watermark are replicated."""
        unreplicated = self._unreplicated
        while unreplicated:
            marker_offset = unreplicated[0][1].last_offset
            if marker_offset is None or marker_offset >= high_watermark:
                return
            heappop(unreplicated)

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest transaction is open longer than any coordinator allows: it may hang for ever."""
        if not self._ongoing:
            return False
        entry = self.producers.get(self._ongoing[0].producer_id)
        if entry is None or entry.last_timestamp <= 0:
            return False
        return now_ms - entry.last_timestamp > self.max_transaction_timeout_ms + LATE_TRANSACTION_GRACE_MS

    # Verification (KIP-890)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        known = self.producers.get(producer_id)
        return known is not None and known.producer_epoch == epoch and known.txn_first_offset is not None

    def maybe_create_verification_state(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationStateEntry:
        return self._verification.start(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    def verification_entry(self, producer_id: int) -> VerificationStateEntry | None:
        return self._verification.get(producer_id)

    def settle_verification(self, producer_id: int, producer_epoch: int, brings_epoch: bool) -> None:
        """To be called for each transactional batch that passed `ProducerAppendInfo.append`."""
        self._verification.settle(producer_id, producer_epoch, brings_epoch)

    # Forgetting

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers idle for `producer_expiration_ms`, except those with an open transaction."""
        expired = [entry.producer_id for entry in self.producers.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        self._verification.remove_expired(now_ms, self.producer_expiration_ms)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        return entry.txn_first_offset is None and now_ms - entry.last_timestamp >= self.producer_expiration_ms

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Producers stay known though their batches are gone; the state now begins no lower than the log."""
        self.on_high_watermark_updated(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        if self._snapshots:
            self._last_snapshot_offset = self._snapshots[-1]
        elif self.is_empty or self._last_snapshot_offset > log_start_offset:
            self._last_snapshot_offset = log_start_offset
        # Otherwise a snapshot of the log start itself may still wait to be written.

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Return to a state at or below `log_end_offset`: see `map_end_offset` for where the replay has to begin.

        Snapshots outside the log are deleted. One at its very start stays: it alone knows whose batches went before.
        The log end is at or below the high watermark, so no transaction that ended below it awaits replication.
        """
        self.delete_snapshots_outside(log_start_offset, log_end_offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
        else:
            self.load_from_snapshots(log_start_offset, now_ms)

    def load_from_snapshots(self, log_start_offset: int, now_ms: int, at_most: int | None = None) -> None:
        """Replace the state by that of the newest good snapshot, or the newest at or below `at_most`.

        Without one the state is empty at `log_start_offset`. Snapshots above `at_most` are left alone. So are those
        below `log_start_offset`: of what stood between they know nothing, and a state that is behind refuses producers
        whom an empty one lets go on.
        """
        self._forget_all()
        self._map_end_offset = self._last_snapshot_offset = log_start_offset
        for offset in reversed(self._snapshots.copy()):
            if offset < log_start_offset or (at_most is not None and offset > at_most):
                continue
            try:
                entries = producer_snapshot.read(self._files, self._path_of(offset))
            except (CorruptSnapshotError, FileNotFoundError) as error:
                _log.warning("producer snapshot discarded: %s", error)
                self._delete_snapshot(offset)
                continue
            self._load(entries, now_ms)
            self._map_end_offset = self._last_snapshot_offset = offset
            return

    def _load(self, entries: list[ProducerStateEntry], now_ms: int) -> None:
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self.producers[entry.producer_id] = entry
            if entry.txn_first_offset is not None:
                self._ongoing.append(TxnMetadata(entry.producer_id, LogOffsetMetadata(entry.txn_first_offset)))
        self._ongoing.sort(key=_first_offset_of)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """The log is emptied and goes on at `offset`."""
        for snapshot in self._snapshots.copy():
            self._delete_snapshot(snapshot)
        self._forget_all()
        self._last_snapshot_offset = 0
        self._map_end_offset = offset

    def _forget_all(self) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def delete_snapshots_outside(self, start: int, end: int) -> int:
        """Delete the snapshots below `start` and above `end`; returns how many. They may come back until the directory
        is synced."""
        doomed = [offset for offset in self._snapshots if not start <= offset <= end]
        for offset in doomed:
            self._delete_snapshot(offset)
        return len(doomed)

    def take_over(self, rebuilt: ProducerStateManager) -> None:
        """Replace the state, but not the verifications, by one that was rebuilt from this log's files."""
        self.producers = rebuilt.producers
        self._ongoing = rebuilt._ongoing
        self._unreplicated = rebuilt._unreplicated
        self._snapshots = rebuilt._snapshots
        self._map_end_offset = rebuilt._map_end_offset
        self._last_snapshot_offset = rebuilt._last_snapshot_offset
        self.deleted_snapshots += rebuilt.deleted_snapshots

    # Snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot_offset(self) -> int | None:
        return self._snapshots[0] if self._snapshots else None

    @property
    def snapshot_paths(self) -> list[str]:
        return [self._path_of(offset) for offset in self._snapshots]

    def snapshot_file_for(self, offset: int) -> str | None:
        return self._path_of(offset) if self._has_snapshot(offset) else None

    def take_snapshot(self, sync: bool = False) -> str | None:
        """Write the state to the snapshot of `map_end_offset`; None when there is one at that offset or above.

        Without `sync`, bytes and name become durable when the caller has synced the file and its directory; until
        then a crash costs at most the reading of one more segment.
        """
        captured = self.capture_snapshot()
        return None if captured is None else self.store_snapshot(captured, sync)

    def capture_snapshot(self) -> CapturedSnapshot | None:
        """The state as a snapshot that is not written yet; None when there is one at that offset or above."""
        if self._map_end_offset <= self._last_snapshot_offset:
            return None
        return CapturedSnapshot(self._map_end_offset, producer_snapshot.encode(self.producers.values()))

    def store_snapshot(self, captured: CapturedSnapshot, sync: bool = False) -> str | None:
        """Write a captured snapshot, unless there is a newer one by now. The log must not have been cut below it."""
        offset = captured.offset
        if offset <= self._last_snapshot_offset:
            return None
        path = self._path_of(offset)
        producer_snapshot.write(self._files, path, captured.data, sync)
        if not self._has_snapshot(offset):
            insort(self._snapshots, offset)
        self._last_snapshot_offset = offset
        return path

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        """At load: look for snapshots again and delete those that belong to no segment.

        One above the last segment's base stays, the largest: a clean shutdown wrote it at the log's end.
        """
        bases = set(segment_base_offsets)
        self._snapshots = self._list_snapshots()
        strays = [offset for offset in self._snapshots if offset not in bases]
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        for offset in strays:
            self._delete_snapshot(offset)

    def discard_torn_snapshots(self) -> None:
        """After a crash: delete those whose bytes did not all reach the disk."""
        for offset in self._snapshots.copy():
            try:
                producer_snapshot.read(self._files, self._path_of(offset))
            except CorruptSnapshotError as error:
                _log.warning("producer snapshot discarded: %s", error)
                self._delete_snapshot(offset)

    def mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Forget a snapshot whose segment is being deleted and rename it to `….deleted`; None when there is none.

        The caller unlinks the file later; a crash before that leaves it to the next load.
        """
        if not self._has_snapshot(offset):
            return None
        path = self._path_of(offset)
        try:
            self._files.rename(path, path + names.DELETED_SUFFIX)
        except FileNotFoundError:
            self._snapshots.remove(offset)
            return None
        self._snapshots.remove(offset)
        return path + names.DELETED_SUFFIX

    def _has_snapshot(self, offset: int) -> bool:
        at = bisect_left(self._snapshots, offset)
        return at < len(self._snapshots) and self._snapshots[at] == offset

    def _delete_snapshot(self, offset: int) -> None:
        try:
            self._files.unlink(self._path_of(offset))
        except FileNotFoundError:
            _log.info("producer snapshot %d of %s was gone already", offset, self._log_name)
        self._snapshots.remove(offset)
        self.deleted_snapshots += 1

    def _path_of(self, offset: int) -> str:
        return names.join(self.dir, names.snapshot_name(offset))

    def _list_snapshots(self) -> list[int]:
        if not self._files.exists(self.dir):
            return []
        found = [_snapshot_offset_of(entry.name) for entry in self._files.list(self.dir) if not entry.is_dir]
        return sorted(offset for offset in found if offset is not None)


def _snapshot_offset_of(name: str) -> int | None:
    """The offset in a snapshot's name; None when it is another file's."""
    offset = names.parse_offset(name)
    return offset if offset is not None and name == names.snapshot_name(offset) else None
