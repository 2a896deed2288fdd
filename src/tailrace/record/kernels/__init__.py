"""Work on single records, compiled.

A kernel is a Python module in Cython's pure-Python mode. At install it becomes an extension module beside its source,
which Python then prefers; where there is no C compiler the source itself runs, slowly and with the same results. It
works on buffers and int64 alone, as a rule without the GIL, and agrees with its interpreted twin on every input:
nothing in it may rely on C's overflow, nor on Python's lack of it.

`COMPILED` tells which form runs. TAILRACE_KERNELS=interpreted in the environment forces the interpreted one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tailrace.env.variables import variable
from tailrace.record.checksum import is_hardware_based

KERNELS: Final = (
    "admission",
    "batch_run",
    "bytes_column",
    "bytewise",
    "column_set",
    "columns",
    "crc",
    "fields",
    "offset_map",
    "plain_run",
    "produce_frames",
    "rebuild",
    "rejected",
    "rows",
    "whole",
)

# Kernels that call others' inner functions, which only C sees when those are compiled.
_BUILT_ON: Final = {
    "admission": ("crc", "fields", "whole"),
    "batch_run": ("crc",),
    "column_set": ("bytes_column",),
    "columns": ("bytes_column", "column_set", "fields", "whole"),
    "fields": ("crc",),
    "plain_run": ("crc", "fields", "offset_map", "rebuild", "whole"),
    "produce_frames": ("fields",),
}


def interpreted(kernel: str) -> ModuleType:
    """A fresh module run from the kernel's source, and from those of the kernels it is built on, whether or not
    compiled ones are there."""
    name = f"{__name__}.{kernel}"
    loader = SourceFileLoader(name, f"{__path__[0]}/{kernel}.py")
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    others = {f"{__name__}.{other}": interpreted(other) for other in _BUILT_ON.get(kernel, ())}
    usual = {other: sys.modules[other] for other in others if other in sys.modules}
    sys.modules.update(others)
    try:
        loader.exec_module(module)
    finally:
        for other in others:
            del sys.modules[other]
        sys.modules.update(usual)
    return module


def _is_source(kernel: str) -> bool:
    spec = importlib.util.find_spec(f"{__name__}.{kernel}")
    return spec is None or str(spec.origin).endswith(".py")


_SOURCES: Final = [kernel for kernel in KERNELS if variable("TAILRACE_KERNELS") == "interpreted" or _is_source(kernel)]
for _kernel in _SOURCES:
    sys.modules[f"{__name__}.{_kernel}"] = interpreted(_kernel)

COMPILED: Final = not _SOURCES


def use_crc_instruction() -> bool:
    """Let kernels compute CRCs by the processor's instruction, if it has one that we know; whether it has."""
    from tailrace.record.kernels import crc

    has_one = COMPILED and is_hardware_based and not _is_source("crc_x86")
    if has_one:
        from tailrace.record.kernels import crc_x86

        crc.install(*crc_x86.addresses())
    return has_one


use_crc_instruction()

from tailrace.record.kernels.admission import admit  # noqa: E402
from tailrace.record.kernels.batch_run import (  # noqa: E402
    BATCH_ATTRIBUTES,
    BATCH_CRC,
    BATCH_END,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_PRODUCER_EPOCH,
    BATCH_PRODUCER_ID,
    BATCH_ROW,
    BATCH_START,
    HEADER_COLUMNS,
    check_run,
    columns_run,
    index_run,
    walk_run,
)
from tailrace.record.kernels.produce_frames import take_frames  # noqa: E402
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
    are_in_order,
    check_all,
    check_whole,
    walk_batches,
    walk_records,
    walk_some,
)

if TYPE_CHECKING:
    from tailrace.record.kernels.bytes_column import BytesColumn
    from tailrace.record.kernels.bytewise import FAULTS, NO_KEY_FAULT, TIMESTAMP_FAULT, BytewiseCheck
    from tailrace.record.kernels.column_set import COLUMNS_FULL, HEADERS_FULL, KEYS_FULL, VALUES_FULL, ColumnSet
    from tailrace.record.kernels.columns import (
        COLUMNS_AT_END,
        COLUMNS_BAD_CRC,
        COLUMNS_BAD_RECORDS,
        COLUMNS_BEHIND,
        COLUMNS_ODD,
        GAPS_FULL,
        ColumnRun,
        new_bytes_column,
        new_column_set,
    )
    from tailrace.record.kernels.offset_map import (
        DROPPED,
        KEPT,
        KEPT_TOMBSTONE,
        clear_table,
        digest,
        find,
        keep_rows,
        put_rows,
    )
    from tailrace.record.kernels.plain_run import (
        STOP_AT_END,
        STOP_BAD_RECORDS,
        STOP_ODD,
        STOP_OUT_FULL,
        STOP_TABLE_FULL,
        PlainRun,
    )
    from tailrace.record.kernels.rebuild import GREATEST_GROWTH, rebuild_records
    from tailrace.record.kernels.rejected import REJECTED_ROW, find_rejected
    from tailrace.record.kernels.rows import (
        BAD_HEADER,
        BAD_OFFSETS,
        BAD_PARTITION,
        BAD_TIMESTAMP,
        NEEDS_SLOT,
        NULL_TOPIC,
        ROWS_TAKEN,
        SLOT_BASE_TIMESTAMP,
        SLOT_COUNT,
        SLOT_FULL,
        SLOT_MAX_TIMESTAMP,
        SLOT_NUMBERS,
        SLOT_USED,
        TOPIC_LANE,
        TOPIC_NUMBERS,
        TOPIC_PARTITIONS,
        TOPIC_STICKY,
        RowRun,
        murmur2,
    )

# Kernels that are loaded when a name of theirs is first used: those of the cleaner, of readers and of Spark, and those
# for faulty batches. An idle node needs none of them, and together they take 2 MB.
_ON_USE: Final = {
    "bytes_column": ("BytesColumn",),
    "bytewise": ("FAULTS", "NO_KEY_FAULT", "TIMESTAMP_FAULT", "BytewiseCheck"),
    "column_set": ("COLUMNS_FULL", "HEADERS_FULL", "KEYS_FULL", "VALUES_FULL", "ColumnSet"),
    "columns": (
        "COLUMNS_AT_END",
        "COLUMNS_BAD_CRC",
        "COLUMNS_BAD_RECORDS",
        "COLUMNS_BEHIND",
        "COLUMNS_ODD",
        "GAPS_FULL",
        "ColumnRun",
        "new_bytes_column",
        "new_column_set",
    ),
    "offset_map": ("DROPPED", "KEPT", "KEPT_TOMBSTONE", "clear_table", "digest", "find", "keep_rows", "put_rows"),
    "plain_run": ("STOP_AT_END", "STOP_BAD_RECORDS", "STOP_ODD", "STOP_OUT_FULL", "STOP_TABLE_FULL", "PlainRun"),
    "rebuild": ("GREATEST_GROWTH", "rebuild_records"),
    "rejected": ("REJECTED_ROW", "find_rejected"),
    "rows": (
        "BAD_HEADER",
        "BAD_OFFSETS",
        "BAD_PARTITION",
        "BAD_TIMESTAMP",
        "NEEDS_SLOT",
        "NULL_TOPIC",
        "ROWS_TAKEN",
        "SLOT_BASE_TIMESTAMP",
        "SLOT_COUNT",
        "SLOT_FULL",
        "SLOT_MAX_TIMESTAMP",
        "SLOT_NUMBERS",
        "SLOT_USED",
        "TOPIC_LANE",
        "TOPIC_NUMBERS",
        "TOPIC_PARTITIONS",
        "TOPIC_STICKY",
        "RowRun",
        "murmur2",
    ),
}


def __getattr__(name: str) -> object:
    for kernel, names in _ON_USE.items():
        if name in names:
            value: object = getattr(importlib.import_module(f"{__name__}.{kernel}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AT_END",
    "BAD_HEADER",
    "BAD_LENGTH",
    "BAD_OFFSETS",
    "BAD_PARTITION",
    "BAD_RECORDS",
    "BAD_TIMESTAMP",
    "BATCH_ATTRIBUTES",
    "BATCH_CRC",
    "BATCH_END",
    "BATCH_LAST_OFFSET",
    "BATCH_MAX_TIMESTAMP",
    "BATCH_PRODUCER_EPOCH",
    "BATCH_PRODUCER_ID",
    "BATCH_ROW",
    "BATCH_START",
    "COLUMNS_AT_END",
    "COLUMNS_BAD_CRC",
    "COLUMNS_BAD_RECORDS",
    "COLUMNS_BEHIND",
    "COLUMNS_FULL",
    "COLUMNS_ODD",
    "COMPILED",
    "DROPPED",
    "FAULTS",
    "GAPS_FULL",
    "GREATEST_GROWTH",
    "HEADERS_END",
    "HEADERS_FULL",
    "HEADERS_START",
    "HEADER_COLUMNS",
    "KEPT",
    "KEPT_TOMBSTONE",
    "KERNELS",
    "KEYS_FULL",
    "KEY_LENGTH",
    "KEY_START",
    "NEEDS_SLOT",
    "NOT_PLAIN",
    "NO_KEY_FAULT",
    "NULL_TOPIC",
    "OFFSET",
    "REJECTED_ROW",
    "ROW",
    "ROWS_FULL",
    "ROWS_TAKEN",
    "SLOT_BASE_TIMESTAMP",
    "SLOT_COUNT",
    "SLOT_FULL",
    "SLOT_MAX_TIMESTAMP",
    "SLOT_NUMBERS",
    "SLOT_USED",
    "STOP_AT_END",
    "STOP_BAD_RECORDS",
    "STOP_ODD",
    "STOP_OUT_FULL",
    "STOP_TABLE_FULL",
    "TIMESTAMP",
    "TIMESTAMP_FAULT",
    "TOPIC_LANE",
    "TOPIC_NUMBERS",
    "TOPIC_PARTITIONS",
    "TOPIC_STICKY",
    "VALUES_FULL",
    "VALUE_LENGTH",
    "VALUE_START",
    "BytesColumn",
    "BytewiseCheck",
    "ColumnRun",
    "ColumnSet",
    "PlainRun",
    "RowRun",
    "admit",
    "are_in_order",
    "check_all",
    "check_run",
    "check_whole",
    "clear_table",
    "columns_run",
    "digest",
    "find",
    "find_rejected",
    "index_run",
    "interpreted",
    "keep_rows",
    "murmur2",
    "new_bytes_column",
    "new_column_set",
    "put_rows",
    "rebuild_records",
    "take_frames",
    "walk_batches",
    "walk_records",
    "walk_run",
    "walk_some",
]
