"""The record of a sink: which transactions its last epoch consists of. Its key is the sink's id, its value JSON.

    state    decided   these transactions commit, and nothing else happens before they have
             ended     they have
             partial   some were lost: their time ran out after the decision, and nobody committed them before; or
                       it is not known any more whether, since the cluster has forgotten their ids

    {"version": 1, "state": "decided", "query": "…", "batch": 7,
     "transactions": [[id, producer id, epoch, claim's producer id, claim's epoch], …],
     "heirs": […], "lost": [id, …], "unknown": [id, …], "others": {"query": batch, …}}

`heirs` are identities that nobody has used yet, in the same form: the next epoch of transactions that have ended. At
most one of a partition. `others` are the last batches of queries that have written under this sink before, the latest
last: one that comes back may run its last batch again. At most MOST_QUERIES are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tailrace.client.outgoing import Identity
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.names import partition_of

VERSION: Final = 1
DECIDED: Final = "decided"
ENDED: Final = "ended"
PARTIAL: Final = "partial"
WRITES: Final = ""
"""Instead of a query's id: batch writes, which are numbered."""
MOST_QUERIES: Final = 256


class Grant(NamedTuple):
    """The right to write under a transactional id with this identity. `claim` is what the id beside it has given."""

    id: str
    identity: Identity
    claim: Identity

    def flat(self) -> list[Any]:
        return [self.id, *self.identity, *self.claim]

    @classmethod
    def from_flat(cls, flat: list[Any]) -> Grant:
        name, producer_id, epoch, claim_producer_id, claim_epoch = flat
        return cls(
            str(name), Identity(int(producer_id), int(epoch)), Identity(int(claim_producer_id), int(claim_epoch))
        )


class Epoch(NamedTuple):
    """One batch of one query. Batches of different queries have no order."""

    query_id: str
    batch_id: int

    def __str__(self) -> str:
        if self.query_id == WRITES:
            return f"write {self.batch_id}"
        return f"batch {self.batch_id} of query {self.query_id}"


@dataclass(frozen=True)
class Decision:
    epoch: Epoch
    state: str
    transactions: tuple[Grant, ...] = ()
    heirs: tuple[Grant, ...] = ()
    lost: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    others: tuple[Epoch, ...] = ()

    def to_json(self) -> bytes:
        value = {
            "version": VERSION,
            "state": self.state,
            "query": self.epoch.query_id,
            "batch": self.epoch.batch_id,
            "transactions": [each.flat() for each in self.transactions],
            "heirs": [each.flat() for each in self.heirs],
            "lost": list(self.lost),
            "unknown": list(self.unknown),
            "others": dict(self.others),
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Decision:
        try:
            value: Mapping[str, Any] = json.loads(text)
            if value["version"] != VERSION:
                raise PipelineError(
                    f"the sink's last decision has version {value['version']}: a newer Tailrace wrote it"
                )
            if value["state"] not in (DECIDED, ENDED, PARTIAL):
                raise ValueError(value["state"])
            return cls(
                Epoch(str(value["query"]), int(value["batch"])),
                value["state"],
                tuple(Grant.from_flat(each) for each in value["transactions"]),
                tuple(Grant.from_flat(each) for each in value["heirs"]),
                tuple(str(each) for each in value["lost"]),
                tuple(str(each) for each in value["unknown"]),
                tuple(Epoch(str(query), int(batch)) for query, batch in value["others"].items()),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(f"what is written as the sink's last decision is none: {text[:200]!r}") from error

    def ended(self, heirs: Iterable[Grant]) -> Decision:
        """All have committed and left these."""
        return replace(self, state=ENDED, transactions=(), heirs=merged(self.heirs, heirs))

    def partly_ended(self, lost: Iterable[str], unknown: Iterable[str]) -> Decision:
        return replace(self, state=PARTIAL, lost=tuple(lost), unknown=tuple(unknown))

    def accepted(self) -> Decision:
        """What was lost is given up."""
        return replace(self, state=ENDED, transactions=(), lost=(), unknown=())

    @property
    def committed(self) -> tuple[str, ...]:
        """Of a partial one."""
        others = {*self.lost, *self.unknown}
        return tuple(each.id for each in self.transactions if each.id not in others)

    def before(self, epoch: Epoch) -> tuple[Epoch, ...]:
        """`others` of the decision that follows this one."""
        return tuple(each for each in (*self.others, self.epoch) if each.query_id != epoch.query_id)[-MOST_QUERIES:]


def merged(old: Iterable[Grant], new: Iterable[Grant]) -> tuple[Grant, ...]:
    """One for each partition, the new before the old."""
    by_partition = {partition_of(each.id): each for each in (*old, *new)}
    return tuple(by_partition[number] for number in sorted(by_partition))
