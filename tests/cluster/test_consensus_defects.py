"""The simulation finds defects: each one of the catalog is injected, and the seed that found it must find it again."""

from __future__ import annotations

import pytest

from support.consensus.fault_schedule import run_of
from support.consensus.injected_defects import DEFECTS
from support.consensus.injection import Defect, found_by

OTHER_SEEDS = 20
"""Tried when the seed of the catalog no longer finds its defect."""
MAX_SEEDS = 2_000


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_simulation_finds_the_defect(defect: Defect) -> None:
    assert defect.seed < MAX_SEEDS
    seeds = (defect.seed, *range(OTHER_SEEDS))
    found = (found_by(defect, lambda seed=seed: run_of(defect, seed)) for seed in seeds)
    assert any(error is not None for error in found), (
        "search a new seed with support.consensus.find_defects, or correct the simulation"
    )


def test_seeds_find_nothing_without_a_defect() -> None:
    for defect in {(each.seed, each.has_slow_reads): each for each in DEFECTS}.values():
        run_of(defect, defect.seed)


def test_catalog_is_large_enough() -> None:
    assert len(DEFECTS) >= 50
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)
