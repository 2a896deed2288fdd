"""In what state a classic group is, and from where it may come there.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲          │    ▲   ▲                  │                 │
      └──────────┘    │   └──────────────────┘                 │
                      └────────────────────────────────────────┘

Dead is a group whose coordinator is another broker now, or that was deleted.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """Named as DescribeGroups names it."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


COMES_FROM: Final = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING}),
    ClassicState.PREPARING: frozenset({ClassicState.EMPTY, ClassicState.COMPLETING, ClassicState.STABLE}),
    ClassicState.COMPLETING: frozenset({ClassicState.PREPARING}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING}),
    ClassicState.DEAD: frozenset(ClassicState),
}
