"""A run: records of a partition that lie side by side and are alike to a share group."""

from __future__ import annotations

from typing import Final

from tailrace.coordinator.share_state.batches import TERMINAL, DeliveryState, StateBatch

NOBODY: Final = ""


class Run:
    """`deadline_ms` is when the holder's lock ends. `batch_size`: of so many records was first delivered together."""

    __slots__ = ("batch_size", "deadline_ms", "delivery_count", "first", "holder", "is_gap", "last", "next", "state")

    def __init__(
        self, first: int, last: int, state: DeliveryState, delivery_count: int, *, is_gap: bool = False
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.holder = NOBODY
        self.deadline_ms = 0
        self.batch_size = last - first + 1
        self.is_gap = is_gap
        """Nothing is there: the log goes on behind it."""
        self.next: StateBatch | None = None
        """What it becomes when that is written."""

    def __repr__(self) -> str:
        return f"Run({self.first}-{self.last}, {self.state.name}, {self.delivery_count}, {self.holder!r}, {self.next})"

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def can_be_taken(self) -> bool:
        return self.state is DeliveryState.AVAILABLE and self.next is None

    @property
    def is_done(self) -> bool:
        return self.state in TERMINAL

    @property
    def will_be_done(self) -> bool:
        return self.is_done or (self.next is not None and self.next.state in TERMINAL)

    def cut(self, offset: int) -> Run:
        """Leave what is below `offset`; the rest is another run."""
        rest = Run(offset, self.last, self.state, self.delivery_count, is_gap=self.is_gap)
        rest.holder, rest.deadline_ms, rest.batch_size = self.holder, self.deadline_ms, self.batch_size
        self.last = offset - 1
        return rest

    def become(self, state: DeliveryState, delivery_count: int) -> None:
        self.state, self.delivery_count = state, delivery_count
        self.holder, self.next = NOBODY, None

    def is_like(self, other: Run) -> bool:
        return (
            self.state is not DeliveryState.ACQUIRED
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.is_gap == other.is_gap
            and (self.is_done or self.batch_size == other.batch_size)
        )
