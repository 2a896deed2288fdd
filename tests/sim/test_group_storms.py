"""Groups in a storm: lost and late requests, members that fall silent, a broker that is killed. Each seed is a story.

`TAILRACE_STORM_SEEDS=0:1000` runs more of them, `TAILRACE_STORM_SEEDS=17` one alone. What fails is told with its story.
"""

from __future__ import annotations

import pytest

from support.stress.simulated.groups import GroupStorm
from support.stress.simulated.seeds import seeds, told

STEPS = 250


@pytest.mark.spec("CO-03", "CO-04", "CO-05")
@pytest.mark.parametrize("seed", seeds())
def test_groups_in_a_storm(seed: int) -> None:
    storm = GroupStorm(seed)
    with told(seed, storm.net.story, __file__):
        storm.run(STEPS)
        storm.settle()
        storm.check_offsets()
    assert storm.witness.commits > 0
