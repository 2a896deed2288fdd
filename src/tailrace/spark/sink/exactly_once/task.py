"""How a task comes by the right to write: it inherits an identity, or makes up a transactional id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.client.outgoing import Identity
from tailrace.client.transaction_end import AnswerLostError
from tailrace.spark.sink.exactly_once.decision import Grant
from tailrace.spark.sink.exactly_once.driver import Plan
from tailrace.spark.sink.exactly_once.effects import Look, Sights, Steps, Take
from tailrace.spark.sink.exactly_once.names import claim_id, task_id

MOST_IDS: Final = 5
"""That a task makes up, where answers are lost."""


def acquire(planned: Plan, partition: int, nonce: Callable[[], bytes]) -> Steps[Grant]:
    """`nonce` never gives one that was used before. The grant is this task's alone, among all that were, are and will
    be."""
    heir = planned.heir_of(partition)
    if heir is not None:
        drawn: Identity = yield Take(claim_id(heir.id))
        if drawn == (heir.claim.producer_id, heir.claim.epoch + 1):
            seen: Sights = yield Look((heir.id,))
            if heir.id in seen and seen[heir.id].identity == heir.identity:  # the cluster has not forgotten the id
                return heir._replace(claim=drawn)
    lost = 0
    while True:
        name = task_id(planned.sink_id, partition, nonce())
        claim: Identity = yield Take(claim_id(name))
        try:
            identity: Identity = yield Take(name, is_once=True)
            return Grant(name, identity, claim)
        except AnswerLostError:
            lost += 1
            if lost == MOST_IDS:
                raise
