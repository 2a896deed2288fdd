"""Fuzz: the two forms of the kernel for runs of batches agree on every damaged log, and on its index entries."""

from __future__ import annotations

import pytest

from support.records.batch_runs import run_disagreements
from tailrace.record import kernels

EXAMPLES_PER_SEED = 20_000


@pytest.mark.long
@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_interpreted_agree_on_damaged_runs(seed: int) -> None:
    if not kernels.COMPILED:
        pytest.skip("the kernels are not compiled here: `python setup.py build_ext --inplace` needs a C compiler")
    found, counts = run_disagreements(seed, EXAMPLES_PER_SEED)
    assert not found
    assert counts == set(range(9))  # runs of every length were among them
