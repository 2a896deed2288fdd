"""Real processes on a real disk, killed while they compact and delete: what comes back is what must survive.

`support.stress.log_kills.run` describes the stress test, `support.stress.log_kills.model` what the logs must hold after
each kill.
"""

from __future__ import annotations

import pytest

from suite.seeds import fresh_seed
from support.stress.log_kills.run import LogFigures, LogKills

KILLS = 20


def check(figures: LogFigures) -> None:
    counts = figures.counts
    happened = (
        "acknowledged",
        "probes",
        "records_compacted",
        "tombstones_expired",
        "aborted_dropped",
        "records_retired",
    )
    assert all(counts[each] for each in happened), counts
    assert figures.in_a_clean >= figures.kills / 3, "too few kills fell into a clean to say anything"
    assert figures.found["swap"] >= figures.kills / 10
    assert figures.in_retention
    assert figures.sightings > figures.kills / 2


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.spec("LM-13", "LM-19", "LM-20", "LM-26", "LM-36")
def test_nothing_that_must_survive_is_lost_by_killed_processes() -> None:
    figures = LogKills(fresh_seed(), KILLS).run()
    figures.assert_passed(KILLS)
    check(figures)
