"""The in-sync replicas of a partition as its leader knows them, with a change that may be on its way.

The controller decides; the leader proposes. Until the answer is there it counts on the larger set, the maximal ISR:

                    isr          maximal_isr
    Committed       committed    the same
    PendingExpand   committed    with the new one: if it is refused, too much was waited for, never too little
    PendingShrink   committed    the same: if it is refused, those that seemed lost are still needed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.model.invariant import invariant

Isr = frozenset[int]


class Committed(NamedTuple):
    isr: Isr

    @property
    def maximal_isr(self) -> Isr:
        return self.isr

    @property
    def is_in_flight(self) -> bool:
        return False

    def expanded_by(self, replica: int) -> PendingExpand:
        invariant(replica not in self.isr, f"replica {replica} is in the ISR {sorted(self.isr)} already")
        return PendingExpand(self, replica)

    def shrunk_by(self, replicas: Iterable[int]) -> PendingShrink:
        out_of_sync = frozenset(replicas)
        invariant(bool(out_of_sync) and out_of_sync < self.isr, f"{sorted(out_of_sync)} of {sorted(self.isr)} may go")
        return PendingShrink(self, out_of_sync)


class PendingExpand(NamedTuple):
    committed: Committed
    """What holds again when the controller refuses."""
    new: int

    @property
    def isr(self) -> Isr:
        return self.committed.isr

    @property
    def maximal_isr(self) -> Isr:
        return self.proposed

    @property
    def proposed(self) -> Isr:
        return self.committed.isr | {self.new}

    @property
    def is_in_flight(self) -> bool:
        return True


class PendingShrink(NamedTuple):
    committed: Committed
    """What holds again when the controller refuses."""
    out_of_sync: Isr

    @property
    def isr(self) -> Isr:
        return self.committed.isr

    @property
    def maximal_isr(self) -> Isr:
        return self.committed.isr

    @property
    def proposed(self) -> Isr:
        return self.committed.isr - self.out_of_sync

    @property
    def is_in_flight(self) -> bool:
        return True


IsrState = Committed | PendingExpand | PendingShrink

NO_ISR = Committed(frozenset())
"""Of a replica that does not lead."""
