"""How a client of the transaction coordinator is told what went wrong: in the words of its version."""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import (
    InvalidProducerEpochError,
    MessageTooLargeError,
    ProducerFencedError,
    RecordListTooLargeError,
    TailraceError,
    UnknownServerError,
)

_TOO_LARGE: Final = frozenset({MessageTooLargeError.code, RecordListTooLargeError.code})


def code_of(error: TailraceError | type[TailraceError], *, knows_fencing: bool) -> int:
    """Before clients knew that they may be fenced their epoch was called invalid. What the coordinator cannot write to
    its own log is none of their business."""
    if error.code == ProducerFencedError.code and not knows_fencing:
        return InvalidProducerEpochError.code
    return UnknownServerError.code if error.code in _TOO_LARGE else error.code
