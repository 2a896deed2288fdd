"""Runs of whole nodes find defects: each one of the catalog is injected, and its seed finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.metadata.node_defects import (
    DEFECTS,
    NodeDefect,
    found_by,
    run_busy,
    run_cut_off,
    run_seed,
    run_unregistered,
)

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


@pytest.mark.parametrize("run", [run_seed, run_busy, run_cut_off, run_unregistered], ids=lambda run: run.__name__)
def test_seeds_find_nothing_without_a_defect(run: Callable[[int], None]) -> None:
    seeds = {defect.seed for defect in DEFECTS if defect.run is run}
    assert seeds
    for seed in sorted(seeds):
        run(seed)
