"""Transaction coordinators for a simulation of the exactly-once sink: one by the facts, one made of the broker's own.

Both answer at once, and write markers when they are told to: until then everybody else is told to wait (`AgainError`).
What a transaction has written is read when its markers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailrace.client.errors import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, error_of
from tailrace.client.outgoing import Identity
from tailrace.coordinator.transactions import decisions
from tailrace.coordinator.transactions.decisions import Ending, Initialisation, Need, ProducerKey
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import VERSION_WITH_BUMPS, Transaction
from tailrace.model.errors import ConcurrentTransactionsError
from tailrace.model.ids import TopicPartition
from tailrace.spark.sink.exactly_once.effects import INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, Seen

FIRST_PRODUCER_ID = 1000
SOMEWHERE = frozenset({TopicPartition("output", 0)})


class AgainError(Exception):
    """What is asked for is to be asked again."""


class Coordinator(Protocol):
    """`written` is what complete transactions have committed, in this order, as (id, what)."""

    now: int
    timeout: int
    written: list[tuple[str, Any]]
    expired: set[tuple[str, Identity]]
    """Transactions that have timed out."""
    forgotten: set[str]

    def take(self, name: str, timeout: int) -> Identity: ...
    def send(self, name: str, identity: Identity, number: int, what: Sequence[Any]) -> None: ...
    def end(self, name: str, identity: Identity, is_commit: bool) -> Identity: ...
    def look(self, name: str) -> Seen | None: ...
    def open_ids(self) -> list[str]: ...
    def prepared_ids(self) -> list[str]: ...
    def complete(self, name: str) -> None: ...
    def expire(self) -> None: ...
    def forget(self, name: str) -> None: ...
    def idle_ids(self) -> list[str]: ...


EMPTY, ONGOING, PREPARED, COMPLETE = "empty", "ongoing", "prepared", "complete"


@dataclass
class Entry:
    producer_id: int
    epoch: int = -1
    state: str = EMPTY
    is_commit: bool = False
    began: int = 0
    timeout: int = 0
    sent: dict[int, Sequence[Any]] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.epoch)


class CoordinatorByFacts:
    """No more than what was found by asking Kafka 4.3.1."""

    def __init__(self) -> None:
        self.now = 0
        self.written: list[tuple[str, Any]] = []
        self.expired: set[tuple[str, Identity]] = set()
        self.forgotten: set[str] = set()
        self._entries: dict[str, Entry] = {}
        self._next_id = FIRST_PRODUCER_ID

    def take(self, name: str, timeout: int) -> Identity:
        entry = self._entries.get(name)
        if entry is None:
            self._next_id += 1
            entry = self._entries[name] = Entry(self._next_id)
        if entry.state == PREPARED:
            raise AgainError
        if entry.state == ONGOING:
            self._prepare(entry, is_commit=False)
            raise AgainError
        entry.epoch += 1
        entry.state, entry.timeout = EMPTY, timeout
        return entry.identity

    def send(self, name: str, identity: Identity, number: int, what: Sequence[Any]) -> None:
        entry = self._entries.get(name)
        if entry is None or entry.producer_id != identity.producer_id:
            raise error_of(INVALID_PRODUCER_ID_MAPPING)
        if entry.state == PREPARED:
            raise AgainError
        if entry.identity != identity:
            raise error_of(INVALID_PRODUCER_EPOCH)
        if entry.state != ONGOING:
            entry.state, entry.began, entry.sent = ONGOING, self.now, {}
        if number in entry.sent:
            assert entry.sent[number] == what, f"two write as {identity} of {name}"
        entry.sent[number] = what

    def end(self, name: str, identity: Identity, is_commit: bool) -> Identity:
        entry = self._entries.get(name)
        if entry is None or entry.producer_id != identity.producer_id:
            raise error_of(INVALID_PRODUCER_ID_MAPPING)
        if entry.state == PREPARED:
            raise AgainError
        if entry.state == COMPLETE and entry.epoch == identity.epoch + 1:
            if entry.is_commit != is_commit:
                raise error_of(INVALID_TXN_STATE)
            return entry.identity
        if entry.identity != identity:
            raise error_of(PRODUCER_FENCED)
        if entry.state != ONGOING and is_commit:
            raise error_of(INVALID_TXN_STATE)
        if entry.state != ONGOING:
            entry.sent = {}
        self._prepare(entry, is_commit)
        return entry.identity

    def _prepare(self, entry: Entry, is_commit: bool) -> None:
        entry.epoch += 1
        entry.state, entry.is_commit = PREPARED, is_commit

    def look(self, name: str) -> Seen | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        is_open = entry.state == ONGOING
        return Seen(entry.identity, is_open, entry.began if is_open else None, entry.timeout)

    def open_ids(self) -> list[str]:
        return [name for name, entry in self._entries.items() if entry.state == ONGOING]

    def prepared_ids(self) -> list[str]:
        return [name for name, entry in self._entries.items() if entry.state == PREPARED]

    def complete(self, name: str) -> None:
        entry = self._entries[name]
        entry.state = COMPLETE
        if entry.is_commit:
            self.written += [(name, each) for number in sorted(entry.sent) for each in entry.sent[number]]
        entry.sent = {}

    def expire(self) -> None:
        for name, entry in self._entries.items():
            if entry.state == ONGOING and entry.began + entry.timeout < self.now:
                self.expired.add((name, entry.identity))
                self._prepare(entry, is_commit=False)

    def idle_ids(self) -> list[str]:
        return [name for name, entry in self._entries.items() if entry.state in (EMPTY, COMPLETE)]

    def forget(self, name: str) -> None:
        self.forgotten.add(name)
        del self._entries[name]


class CoordinatorOfBroker:
    """What the broker decides, without its log and its network."""

    def __init__(self) -> None:
        self.now = 0
        self.written: list[tuple[str, Any]] = []
        self.expired: set[tuple[str, Identity]] = set()
        self.forgotten: set[str] = set()
        self._transactions: dict[str, Transaction] = {}
        self._sent: dict[str, dict[int, Sequence[Any]]] = {}
        self._next_id = FIRST_PRODUCER_ID

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def take(self, name: str, timeout: int) -> Identity:
        wanted = Initialisation(name, timeout, None)
        current = self._transactions.get(name)
        decided = self._decided(lambda new_id: decisions.initialise(current, wanted, self.now, new_id))
        if decided is Need.ABORT:
            assert current is not None
            self._abort(current)
            raise AgainError
        self._transactions[name] = decided
        return Identity(decided.producer_id, decided.epoch)

    def _decided(self, decide: Any) -> Any:
        try:
            decided = decide(None)
            return decide(self._new_id()) if decided is Need.PRODUCER_ID else decided
        except ConcurrentTransactionsError:
            raise AgainError from None

    def _abort(self, current: Transaction) -> None:
        name = current.transactional_id
        self._transactions[name] = self._decided(
            lambda new_id: decisions.abort(current, self.now, VERSION_WITH_BUMPS, new_id)
        )

    def send(self, name: str, identity: Identity, number: int, what: Sequence[Any]) -> None:
        current = self._transactions.get(name)
        decided = self._decided(
            lambda _: decisions.add_partitions(current, ProducerKey(*identity), SOMEWHERE, self.now, VERSION_WITH_BUMPS)
        )
        if current is None or current.state is not TransactionState.ONGOING:
            self._sent[name] = {}
        self._transactions[name] = decided
        sent = self._sent[name]
        if number in sent:
            assert sent[number] == what, f"two write as {identity} of {name}"
        sent[number] = what

    def end(self, name: str, identity: Identity, is_commit: bool) -> Identity:
        ending = Ending(ProducerKey(*identity), is_commit, VERSION_WITH_BUMPS)
        current = self._transactions.get(name)
        decided = self._decided(lambda new_id: decisions.end(current, ending, self.now, new_id))
        if current is not None and current.state is not TransactionState.ONGOING and decided is not current:
            self._sent[name] = {}
        self._transactions[name] = decided
        return Identity(*decided.successor)

    def look(self, name: str) -> Seen | None:
        current = self._transactions.get(name)
        if current is None:
            return None
        is_open = current.state is TransactionState.ONGOING
        identity = Identity(current.producer_id, current.epoch)
        return Seen(identity, is_open, current.start_ms if is_open else None, current.timeout_ms)

    def open_ids(self) -> list[str]:
        return [name for name, each in self._transactions.items() if each.state is TransactionState.ONGOING]

    def prepared_ids(self) -> list[str]:
        return [name for name, each in self._transactions.items() if each.state.is_prepared]

    def complete(self, name: str) -> None:
        current = self._transactions[name]
        sent = self._sent.pop(name, {})
        if current.state is TransactionState.PREPARE_COMMIT:
            self.written += [(name, each) for number in sorted(sent) for each in sent[number]]
        self._transactions[name] = current.completed(self.now)

    def expire(self) -> None:
        for each in list(self._transactions.values()):
            if each.has_timed_out(self.now):
                self.expired.add((each.transactional_id, Identity(each.producer_id, each.epoch)))
                self._abort(each)

    def idle_ids(self) -> list[str]:
        busy = {*self.open_ids(), *self.prepared_ids()}
        return [name for name in self._transactions if name not in busy]

    def forget(self, name: str) -> None:
        self.forgotten.add(name)
        del self._transactions[name]
