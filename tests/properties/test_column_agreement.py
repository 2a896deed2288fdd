"""Fuzz: the two forms of the kernel that makes columns agree on every damaged log, whatever room they have."""

from __future__ import annotations

import pytest

from support.records.column_runs import column_disagreements
from support.records.kernel_forms import FORMS
from tailrace.record import kernels

EXAMPLES_PER_SEED = 10_000


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_interpreted_agree_on_damaged_logs(seed: int) -> None:
    if not kernels.COMPILED:
        pytest.skip("the kernels are not compiled here: `python setup.py build_ext --inplace` needs a C compiler")
    found, reasons = column_disagreements(FORMS.values(), seed, EXAMPLES_PER_SEED)
    assert not found
    assert reasons == {
        kernels.COLUMNS_AT_END,
        kernels.COLUMNS_BAD_CRC,
        kernels.COLUMNS_BAD_RECORDS,
        kernels.COLUMNS_BEHIND,
        kernels.COLUMNS_ODD,
    }
