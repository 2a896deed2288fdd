"""Runs of whole nodes find defects: each one of the catalog is injected, and its seed finds it."""

from __future__ import annotations

import pytest

from support.metadata.node_defects import DEFECTS, NodeDefect, found_by, run_seed

OTHER_SEEDS = 10
"""Tried when the seed of the catalog no longer finds its defect."""
MAX_SEEDS = 2_000

pytestmark = pytest.mark.long


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_runs_find_the_defect(defect: NodeDefect) -> None:
    assert defect.seed < MAX_SEEDS
    found = (found_by(defect, seed) for seed in (defect.seed, *range(OTHER_SEEDS)))
    assert any(error is not None for error in found), (
        "search a new seed with support.metadata.node_defects, or correct the simulation"
    )


def test_seeds_find_nothing_without_a_defect() -> None:
    for seed in sorted({defect.seed for defect in DEFECTS}):
        run_seed(seed)
