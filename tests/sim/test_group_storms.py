"""Groups under faults: lost and late requests, members that fall silent, a broker that is killed.

`TAILRACE_SEEDS=0:1000` runs more seeds, `TAILRACE_SEEDS=17` one alone. A failure shows its log.
"""

from __future__ import annotations

import pytest

from suite.seeds import parametrized_seeds
from support.stress.simulated.groups import GroupStress

STEPS = 250


@pytest.mark.spec("CO-03", "CO-04", "CO-05")
@parametrized_seeds()
def test_groups_in_a_storm(seed: int) -> None:
    assert GroupStress(seed).complete(STEPS, __file__).witness.commits > 0
