"""Delays inside of a broker: its coordinators and the leaders of its partitions as if they were far apart.

A question whether a transaction is open, and an order to write markers, take a while; so do their answers. Orders may
get lost, and so may their answers: then somebody else is said to lead the partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from tailrace.broker import txn_markers, txn_verification
from tailrace.broker.node import Node
from tailrace.broker.txn_markers import Done, MarkerSender
from tailrace.broker.txn_verification import Answer, Question
from tailrace.coordinator.transactions import decisions, transaction
from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults
from tailrace.model.errors import NotLeaderOrFollowerError
from tailrace.storage import producer_append

DELAYS_MS = (5, 30, 300, 2_000, 10_000)
"""The longest is longer than a producer has patience: what it has given up may still be on its way."""


def delay_coordinators(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    ask_now, send_now = txn_verification.ask_coordinator, MarkerSender.send

    def sometimes_later(node: Node, action: Callable[[], None]) -> None:
        if chance.random() < 0.5:
            action()
        else:
            node.env.jobs.later("far-away", chance.choice(DELAYS_MS), action)

    def ask(node: Node, question: Question, answer: Answer) -> None:
        def answered(refused: object) -> None:
            sometimes_later(node, partial(answer, refused))  # type: ignore[arg-type]

        sometimes_later(node, partial(ask_now, node, question, answered))

    def send(sender: MarkerSender, orders: list[MarkerOrder], done: Done) -> None:
        lost = [dict.fromkeys(order.partitions, NotLeaderOrFollowerError.code) for order in orders]

        def answered(results: MarkerResults) -> None:
            sometimes_later(sender._node, partial(done, lost if chance.random() < 0.1 else results))

        is_lost = chance.random() < 0.1
        order = partial(done, lost) if is_lost else partial(send_now, sender, orders, answered)
        sometimes_later(sender._node, order)

    patch.setattr(txn_verification, "ask_coordinator", ask)
    patch.setattr(txn_markers.MarkerSender, "send", send)


def shorten_epochs(patch: pytest.MonkeyPatch, last: int) -> None:
    """Epochs are used up soon, and producer ids change."""
    patch.setattr(transaction, "MAX_EPOCH", last)
    patch.setattr(producer_append, "MAX_PRODUCER_EPOCH", last)
    for module in (transaction, decisions):
        patch.setattr(module, "LAST_CLIENT_EPOCH", last - 1)
