"""Proof that a transaction is really open at its coordinator before its first batch enters a log (KIP-890).

Without it a late batch could open a transaction in this partition that no coordinator knows of, and the last
stable offset would stand still for ever. The way of a transactional producer's first batch is

    1. `VerificationStates.start` hands out a guard, and the coordinator is asked whether the transaction is open;
    2. the answer comes, and the append brings the guard along;
    3. the append is taken only if the guard is still the producer's current one (`VerificationGuard.verifies`).

A marker or a batch written in the meantime has removed the guard, so an answer about an older transaction opens
nothing. States live in memory only; a restart makes the producer begin at step 1 again.
"""

from __future__ import annotations

from typing import Final


class VerificationGuard:
    """A token equal to nothing but itself."""

    __slots__ = ()

    def verifies(self, presented: VerificationGuard) -> bool:
        return presented is self and presented is not NO_GUARD


NO_GUARD: Final = VerificationGuard()
"""Stands for "no guard": what an append brings that was not verified, and what a producer without state has."""


class VerificationStateEntry:
    """One producer's verification under way.

    `lowest_sequence` is the lowest one seen waiting in `epoch`: a batch with a higher sequence must not get in before
    it, or the lower one could only be retried into OUT_OF_ORDER_SEQUENCE until its retries run out.
    `supports_epoch_bump` says that the client of `epoch` raises it with every transaction (transactions version 2).
    """

    __slots__ = ("epoch", "guard", "lowest_sequence", "supports_epoch_bump", "timestamp_ms")

    def __init__(self, timestamp_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.timestamp_ms = timestamp_ms
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def note_waiting(self, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        """A batch waits for verification: a new epoch counts its sequences afresh, an older one is of no interest."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
            self.supports_epoch_bump = supports_epoch_bump
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class VerificationStates:
    """The verifications under way in one log, by producer id."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, VerificationStateEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def start(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationStateEntry:
        """The producer's entry, made if there is none; a second batch joins the verification of the first."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = VerificationStateEntry(now_ms, sequence, epoch, supports_epoch_bump)
        else:
            entry.note_waiting(sequence, epoch, supports_epoch_bump)
        return entry

    def get(self, producer_id: int) -> VerificationStateEntry | None:
        return self._entries.get(producer_id)

    def settle(self, producer_id: int, epoch: int, brings_epoch: bool) -> None:
        """A transactional batch was taken: the verification has served, whatever came of it.

        Except for a marker that has brought the very epoch being verified (`brings_epoch`: it is higher than that of
        the data): the marker ended the transaction before, and the one being verified goes on.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and not (brings_epoch and entry.epoch == epoch):
            del self._entries[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        expired = [pid for pid, entry in self._entries.items() if now_ms - entry.timestamp_ms >= expiration_ms]
        for producer_id in expired:
            del self._entries[producer_id]
