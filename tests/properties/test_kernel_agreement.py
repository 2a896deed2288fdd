"""Fuzz: the two forms of the kernels agree on every damaged payload, however it is cut."""

from __future__ import annotations

import pytest

from support.records.raw_records import disagreements
from tailrace.record import kernels

EXAMPLES_PER_SEED = 50_000


@pytest.mark.long
@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("seed", range(8))
def test_compiled_and_interpreted_agree_on_damaged_records(seed: int) -> None:
    if not kernels.COMPILED:
        pytest.skip("the kernels are not compiled here: `python setup.py build_ext --inplace` needs a C compiler")
    found, statuses = disagreements(seed, EXAMPLES_PER_SEED)
    assert not found
    assert statuses == {0, *kernels.FAULTS}
