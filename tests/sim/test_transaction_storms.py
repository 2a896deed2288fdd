"""Transactions under faults: lost, late and doubled requests, producers that are replaced, a broker that is killed.

`TAILRACE_SEEDS=0:1000` runs more seeds, `TAILRACE_SEEDS=17` one alone. A failure shows its log.
"""

from __future__ import annotations

import random

import pytest

from suite.seeds import parametrized_seeds
from support.stress.simulated.delays import delay_coordinators, shorten_epochs
from support.stress.simulated.transactions import COMMITTED, TransactionStress

STEPS = 250
LAST_EPOCH = 5


@pytest.mark.spec("CO-07", "CO-08", "CO-09", "LS-30")
@parametrized_seeds()
def test_transactions_in_a_storm(seed: int) -> None:
    assert COMMITTED in TransactionStress(seed).complete(STEPS, __file__).fates.fates.values()


@pytest.mark.spec("CO-08", "CO-09")
@parametrized_seeds()
def test_coordinators_that_are_far_away(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    delay_coordinators(monkeypatch, random.Random(seed))
    if seed % 2:
        shorten_epochs(monkeypatch, LAST_EPOCH)
    TransactionStress(seed).complete(STEPS, __file__)
