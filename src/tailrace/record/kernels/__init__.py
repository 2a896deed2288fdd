"""Work on single records, compiled.

A kernel is a Python module in Cython's pure-Python mode. At install it becomes an extension module beside its source,
which Python then prefers; where there is no C compiler the source itself runs, slowly and with the same results. It
works on buffers and int64 alone, without the GIL, and agrees with its interpreted twin on every input: nothing in it
may rely on C's overflow, nor on Python's lack of it.

`COMPILED` tells which form runs. TAILRACE_KERNELS=interpreted in the environment forces the interpreted one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Final

from tailrace.env.variables import variable

KERNELS: Final = ("bytewise", "offset_map", "rebuild", "whole")


def interpreted(kernel: str) -> ModuleType:
    """A fresh module run from the kernel's source, whether or not a compiled one is there."""
    name = f"{__name__}.{kernel}"
    loader = SourceFileLoader(name, f"{__path__[0]}/{kernel}.py")
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


if variable("TAILRACE_KERNELS") == "interpreted":
    for _kernel in KERNELS:
        sys.modules[f"{__name__}.{_kernel}"] = interpreted(_kernel)

COMPILED: Final = not any(
    str(importlib.import_module(f"{__name__}.{_kernel}").__file__).endswith(".py") for _kernel in KERNELS
)

from tailrace.record.kernels.bytewise import FAULTS, TIMESTAMP_FAULT, BytewiseCheck  # noqa: E402
from tailrace.record.kernels.offset_map import (  # noqa: E402
    DROPPED,
    KEPT,
    KEPT_TOMBSTONE,
    digest,
    find,
    keep_rows,
    put_rows,
)
from tailrace.record.kernels.rebuild import GREATEST_GROWTH, rebuild_records  # noqa: E402
from tailrace.record.kernels.whole import (  # noqa: E402
    AT_END,
    BAD_LENGTH,
    BAD_RECORDS,
    HEADERS_END,
    HEADERS_START,
    KEY_LENGTH,
    KEY_START,
    NOT_PLAIN,
    OFFSET,
    ROW,
    ROWS_FULL,
    TIMESTAMP,
    VALUE_LENGTH,
    VALUE_START,
    check_all,
    check_whole,
    walk_batches,
    walk_records,
    walk_some,
)

__all__ = [
    "AT_END",
    "BAD_LENGTH",
    "BAD_RECORDS",
    "COMPILED",
    "DROPPED",
    "FAULTS",
    "GREATEST_GROWTH",
    "HEADERS_END",
    "HEADERS_START",
    "KEPT",
    "KEPT_TOMBSTONE",
    "KERNELS",
    "KEY_LENGTH",
    "KEY_START",
    "NOT_PLAIN",
    "OFFSET",
    "ROW",
    "ROWS_FULL",
    "TIMESTAMP",
    "TIMESTAMP_FAULT",
    "VALUE_LENGTH",
    "VALUE_START",
    "BytewiseCheck",
    "check_all",
    "check_whole",
    "digest",
    "find",
    "interpreted",
    "keep_rows",
    "put_rows",
    "rebuild_records",
    "walk_batches",
    "walk_records",
    "walk_some",
]
