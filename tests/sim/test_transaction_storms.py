"""Transactions in a storm: lost, late and doubled requests, producers that are replaced, a broker that is killed.

`TAILRACE_STORM_SEEDS=0:1000` runs more of them, `TAILRACE_STORM_SEEDS=17` one alone. What fails is told with its story.
"""

from __future__ import annotations

import random

import pytest

from support.stress.simulated.delays import delay_coordinators, shorten_epochs
from support.stress.simulated.seeds import seeds, told
from support.stress.simulated.transactions import COMMITTED, TransactionStorm

STEPS = 250
FEW = 20
LAST_EPOCH = 5


@pytest.mark.spec("CO-07", "CO-08", "CO-09", "LS-30")
@pytest.mark.parametrize("seed", seeds())
def test_transactions_in_a_storm(seed: int) -> None:
    storm = TransactionStorm(seed)
    with told(seed, storm.net.story, __file__):
        storm.run(STEPS)
        storm.settle()
        storm.check_end()
    assert COMMITTED in storm.fates.fates.values()


@pytest.mark.spec("CO-08", "CO-09")
@pytest.mark.parametrize("seed", seeds(FEW))
def test_coordinators_that_are_far_away(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    delay_coordinators(monkeypatch, random.Random(seed))
    if seed % 2:
        shorten_epochs(monkeypatch, LAST_EPOCH)
    storm = TransactionStorm(seed)
    with told(seed, storm.net.story, __file__):
        storm.run(STEPS)
        storm.settle()
        storm.check_end()
