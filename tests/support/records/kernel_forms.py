"""The kernels in both forms, compiled and as the Python that they are written in: what holds for one holds for both."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from tailrace.record import kernels


def _forms() -> dict[str, SimpleNamespace]:
    found = {"interpreted": SimpleNamespace(**{name: kernels.interpreted(name) for name in kernels.KERNELS})}
    if kernels.COMPILED:
        found["compiled"] = SimpleNamespace(
            **{name: importlib.import_module(f"tailrace.record.kernels.{name}") for name in kernels.KERNELS}
        )
    return found


FORMS = _forms()
"""Those that can run here, by name."""

both_forms = pytest.mark.parametrize("name", ["compiled", "interpreted"])


def form_of(name: str) -> SimpleNamespace:
    """Skips the test where there is no such form."""
    if name not in FORMS:
        pytest.skip("the kernels are not compiled here: `python setup.py build_ext --inplace` needs a C compiler")
    return FORMS[name]
