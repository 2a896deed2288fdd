"""How a task comes by the right to write: it inherits an identity, or makes up a transactional id."""

from __future__ import annotations

from tailrace.client.outgoing import Identity
from tailrace.spark.sink.exactly_once.decision import Grant
from tailrace.spark.sink.exactly_once.driver import Plan
from tailrace.spark.sink.exactly_once.effects import Steps, Take
from tailrace.spark.sink.exactly_once.names import claim_id, task_id


def acquire(planned: Plan, partition: int, nonce: bytes) -> Steps[Grant]:
    """`nonce` was never used before. The grant is this task's alone, among all that were, are and will be."""
    heir = planned.heir_of(partition)
    if heir is not None:
        drawn: Identity = yield Take(claim_id(heir.id))
        if drawn == (heir.claim.producer_id, heir.claim.epoch + 1):
            return heir._replace(claim=drawn)
    name = task_id(planned.sink_id, partition, nonce)
    claim: Identity = yield Take(claim_id(name))
    identity: Identity = yield Take(name)
    return Grant(name, identity, claim)
