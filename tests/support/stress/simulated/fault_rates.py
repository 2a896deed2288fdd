"""How often what goes wrong in a stress test of the exactly-once sink."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass
class FaultRates:
    """How often what happens, of a thousand steps."""

    kills: int = 6
    second_drivers: int = 3
    task_kills: int = 10
    twins: int = 12
    pauses: int = 12
    longest_pause: int = 300
    lost_answers: int = 30
    late_effects: int = 500
    dies_with_its_driver: int = 500
    hasty_aborts: int = 100
    """Of a thousand commits: Spark aborts the batch while it is still being committed."""
    late_requests: int = 0
    """Of living actors: they ask again, and both are carried out."""
    unanswered: int = 0
    """The actor is told that there is no answer; carried out before, late, or never."""
    forgets: int = 0
    timeout: int = 3000
    returns: int = 100
    """How soon there is a driver when there is none."""
    queries: int = 1
    outages: int = 100
    """Of a thousand decisions: there is no driver from then, or soon after, until transactions have timed out."""
    hesitations: int = 100
    """Of a thousand decisions: the driver is stopped just before."""

    @classmethod
    def of(cls, chance: random.Random) -> FaultRates:
        rates = cls()
        rates.kills = chance.choice((2, 6, 15))
        rates.second_drivers = chance.choice((0, 3, 12, 30))
        rates.pauses = chance.choice((12, 50))
        rates.longest_pause = chance.choice((30, 100, 300, 1500))
        rates.late_requests = chance.choice((0, 40))
        rates.unanswered = chance.choice((0, 0, 15))
        rates.forgets = chance.choice((0, 0, 0, 20))
        rates.timeout = chance.choice((120, 160, 200, 3000, 100_000))
        rates.returns = chance.choice((6, 20, 100))
        rates.queries = chance.choice((1, 2, 3))
        return rates


NO_FAULTS: Final = FaultRates(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, outages=0, hesitations=0)
