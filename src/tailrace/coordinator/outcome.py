"""What a command of a coordinator gives: records to append, and what to do when they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tailrace.model.errors import TailraceError
from tailrace.protocol.message import Record


class CoordinatorRecord(NamedTuple):
    """A key of a coordinator's topic with its new value; None is a tombstone."""

    key: Record
    value: Record | None
    value_version: int = 0


class ProducerBatchId(NamedTuple):
    """Whose transaction a batch of a coordinator's topic belongs to."""

    id: int
    epoch: int


class Outcome(NamedTuple):
    """The records are one batch: all of them are seen after a crash, or none.

    When they are committed `then(None)` is called, and the response is given to whoever asked; a response of None says
    that the state machine answers by itself, later. Without records the response waits until everything is committed
    that was written before, because it may tell of it. Where the records cannot be appended nothing has changed:
    `then(error)` undoes what the command did to state that no record holds.
    """

    records: Sequence[CoordinatorRecord] = ()
    response: Any = None
    then: Callable[[TailraceError | None], None] | None = None


NOTHING = Outcome()
