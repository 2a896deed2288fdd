"""What a step of the protocol asks of the cluster, and what it is answered. Values: who carries them out is elsewhere.

An answer is an error where the cluster refuses: it is thrown into the step. Effects that wait for something that
passes (a transaction that is being ended, a coordinator that moves) are tried again by who carries them out; so are
those whose answer was lost, and then the first request may still come late.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tailrace.client.errors import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from tailrace.client.outgoing import Identity
from tailrace.model.errors import TailraceError
from tailrace.spark.sink.exactly_once.decision import Decision

INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49


class Seen(NamedTuple):
    """A transactional id as its coordinator has it. `began_ms` is by the coordinator's clock; None: nothing is open."""

    identity: Identity
    is_open: bool
    began_ms: int | None
    timeout_ms: int


@dataclass(frozen=True)
class Take:
    """InitProducerId: an Identity that nobody got before. What was open under the id is aborted."""

    id: str
    is_once: bool = False
    """It is not asked again where it may be carried out later than its answer: `AnswerLostError`."""


@dataclass(frozen=True)
class ReadLast:
    """The last decision of the sink that is committed, or None. Who holds the driver's id is told the very last."""


@dataclass(frozen=True)
class Write:
    """A decision, into the open transaction of the driver's id. None: the sink is as if it had never been."""

    driver: Identity
    decision: Decision | None


@dataclass(frozen=True)
class End:
    """EndTxn: the next Identity of the id. Asked again it is answered the same, until the id is taken or used."""

    id: str
    identity: Identity
    is_commit: bool


@dataclass(frozen=True)
class Look:
    """A mapping from each of these ids that there is to what is Seen of it."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class ListOpen:
    """The ids of tasks of this sink that have a transaction open."""


Effect: TypeAlias = Take | ReadLast | Write | End | Look | ListOpen
T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Any, T]
Sights: TypeAlias = Mapping[str, Seen]

_NOT_YOURS: Final = (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE)


def is_refusal(error: BaseException | None) -> bool:
    """The transaction is not, or not any more, that of who asked. Also as the cause of a failed delivery."""
    while isinstance(error, TailraceError):
        if error.code in _NOT_YOURS:
            return True
        error = error.__cause__
    return False
