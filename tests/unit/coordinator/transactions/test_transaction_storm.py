"""Two producers quarrel over one transactional id while coordinators change, replicas lag and partitions refuse.

Requests are also sent twice, and late. Whatever happens: a transaction is committed everywhere or aborted everywhere,
as its producer was told; nobody is given an epoch that another has; and in the end nothing is left half done.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from suite.seeds import parametrized_seeds
from support.coordinators.transactions import P0, P1, TransactionPair
from tailrace.coordinator.transactions.decisions import ProducerKey
from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults
from tailrace.model.errors import NotLeaderOrFollowerError
from tailrace.model.ids import TopicPartition

STEPS = 250


class Storm(TransactionPair):
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.decided: dict[ProducerKey, bool] = {}
        """Of each transaction for which a marker was sent: by the producer with the epoch of its markers."""
        self.marked_at: dict[ProducerKey, set[TopicPartition]] = {}
        self.given: dict[ProducerKey, object] = {}
        """Who was given which epoch."""
        self.added: dict[ProducerKey, set[TopicPartition]] = {}
        self.told: dict[ProducerKey, bool] = {}
        """Ends that were answered, by the producer with the epoch of its markers."""
        self.known = [ProducerKey(-1, -1), ProducerKey(-1, -1)]
        self.open: list[tuple[list[Any], Callable[[Any], None]]] = []
        """Questions without an answer yet."""
        super().__init__(in_sync=(1, 2), offsets_commit_timeout_ms="3000")

    def _send(self, orders: list[MarkerOrder], done: Callable[[MarkerResults], None]) -> None:
        for order in orders:
            key = ProducerKey(order.producer_id, order.epoch)
            assert self.decided.setdefault(key, order.is_commit) == order.is_commit, "two minds about one transaction"
            refused = {each for each in order.partitions if self.codes.get(each, 0)}
            self.marked_at.setdefault(key, set()).update(set(order.partitions) - refused)
        super()._send(orders, done)

    # Producers

    def step_init(self, place: int) -> None:
        asker = object()

        def heard(key: ProducerKey) -> None:
            assert self.given.setdefault(key, asker) is asker, "an epoch was given twice"
            self.known[place] = key

        answers = self.init()
        self._when_answered(answers, heard)

    def step_add(self, place: int) -> None:
        key, partition = self._someone(place), self.dice.choice((P0, P1))
        self._when_answered(self.add(key, partition), lambda _: self.added.setdefault(key, set()).add(partition))

    def step_end(self, place: int) -> None:
        key, is_commit = self._someone(place), self.dice.random() < 0.7
        at_end = ProducerKey(key.id, key.epoch + 1)

        def heard(after: ProducerKey) -> None:
            assert self.told.setdefault(at_end, is_commit) == is_commit
            assert self.given.setdefault(after, key) == key, "an epoch was given twice"
            if self.known[place] == key:
                self.known[place] = after

        for _ in range(self.dice.choice((1, 1, 2))):
            self._when_answered(self.end(key, is_commit), heard)

    def _someone(self, place: int) -> ProducerKey:
        """What the producer has; sometimes what it had before."""
        key = self.known[place]
        return key._replace(epoch=key.epoch - 1) if key.epoch > 0 and self.dice.random() < 0.1 else key

    def _when_answered(self, answers: list[Any], heard: Callable[[Any], None]) -> None:
        """Now or later: looked at after every step."""
        self.open.append((answers, heard))
        self.listen()

    def listen(self) -> None:
        still_open = []
        for answers, heard in self.open:
            if not answers:
                still_open.append((answers, heard))
            elif not isinstance(answers[0], Exception):
                assert len(answers) == 1, "one question, one answer"
                heard(answers[0])
        self.open = still_open

    # The world

    def step_world(self, place: int) -> None:
        what = self.dice.random()
        if what < 0.2:
            self.fail_over()
        elif what < 0.5:
            self.pass_time(self.dice.choice((10, 300, 4000, 20_000)))
        elif what < 0.7:
            self.codes = {P0: NotLeaderOrFollowerError.code} if self.dice.random() < 0.5 else {}
        elif what < 0.8 and self.held is None:
            self.held = []
        else:
            self.release()

    def heal(self) -> None:
        self.codes = {}
        self.release()
        for _ in range(40):
            self.pass_time(2_000)
            self.replicate()
            self.listen()


def weathered(seed: int) -> Storm:
    storm = Storm(seed)
    steps = [storm.step_init, *[storm.step_add] * 8, *[storm.step_end] * 6, *[storm.step_world] * 4]
    for _ in range(STEPS):
        storm.dice.choice(steps)(storm.dice.randrange(2))
        if storm.dice.random() < 0.7:
            storm.replicate()
        storm.listen()
    storm.heal()
    return storm


@pytest.mark.spec("CO-07", "CO-08")
@parametrized_seeds()
def test_whatever_happens(seed: int) -> None:
    storm = weathered(seed)
    assert not storm.transaction().state.is_prepared
    for key, is_commit in storm.told.items():
        assert storm.decided.get(key, is_commit) == is_commit, "a producer was told otherwise"
        if is_commit:
            wanted = storm.added.get(ProducerKey(key.id, key.epoch - 1), set())
            assert wanted <= storm.marked_at.get(key, set()), "a partition has no marker"


def test_something_happens() -> None:
    storms = [weathered(seed) for seed in range(5)]
    ends = [is_commit for storm in storms for is_commit in storm.told.values()]
    assert ends.count(True) > 10
    assert ends.count(False) > 5
    assert sum(len(storm.given) for storm in storms) > 40
