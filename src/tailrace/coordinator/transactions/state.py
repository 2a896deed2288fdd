"""The states of a transaction, and which of them may follow which.

    Empty             initialised: a producer has the id, and no transaction yet
    Ongoing           partitions were added
    PrepareCommit     it shall be committed; markers are on their way
    PrepareAbort      it shall be aborted; markers are on their way
    CompleteCommit    every partition has its marker
    CompleteAbort     the same
    Dead              the id has expired

A prepared transaction is decided: whatever happens it is finished that way. PrepareEpochFence is no state that a log
ever holds; it has a number and a name because tools know it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As answers spell it: `PREPARE_COMMIT` → `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        return self in _PREPARED

    @property
    def is_at_rest(self) -> bool:
        """No transaction is under way: a new one may begin, or the transactional id expire."""
        return self in _AT_REST


_S: Final = TransactionState
_PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

LEGAL_BEFORE: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: _AT_REST,
    _S.ONGOING: _AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: _AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: _AT_REST,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""By state, those that it may follow."""

STATES_BY_TITLE: Final = {state.title: state for state in TransactionState}
