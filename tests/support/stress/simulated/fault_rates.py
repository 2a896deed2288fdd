"""How rough a storm of the exactly-once sink is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass
class Weather:
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
    def of(cls, dice: random.Random) -> Weather:
        weather = cls()
        weather.kills = dice.choice((2, 6, 15))
        weather.second_drivers = dice.choice((0, 3, 12, 30))
        weather.pauses = dice.choice((12, 50))
        weather.longest_pause = dice.choice((30, 100, 300, 1500))
        weather.late_requests = dice.choice((0, 40))
        weather.unanswered = dice.choice((0, 0, 15))
        weather.forgets = dice.choice((0, 0, 0, 20))
        weather.timeout = dice.choice((120, 160, 200, 3000, 100_000))
        weather.returns = dice.choice((6, 20, 100))
        weather.queries = dice.choice((1, 2, 3))
        return weather


CALM: Final = Weather(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, outages=0, hesitations=0)
