"""Columns of structs, lists and maps from Python's values, a whole column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa


def struct_column(values: Sequence[Any], children: list[pa.Array], made: pa.StructType) -> pa.StructArray:
    """Null where a value is None; what the children hold is of the same rows."""
    return pa.StructArray.from_arrays(children, fields=list(made), mask=_mask(values))


def list_column(values: Sequence[Any], column_of: Callable[[list[Any]], pa.Array], made: pa.ListType) -> pa.ListArray:
    """Of lists, or of None."""
    items = column_of(list(chain.from_iterable(value for value in values if value is not None)))
    return pa.ListArray.from_arrays(_offsets(values), items, type=made, mask=_mask(values))


def map_column(values: Sequence[Any], column_of: Callable[[list[Any]], pa.Array], made: pa.MapType) -> pa.MapArray:
    """Of mappings with text keys, or of None."""
    there = [value for value in values if value is not None]
    keys = pa.array(list(chain.from_iterable(there)), made.key_type)
    items = column_of(list(chain.from_iterable(value.values() for value in there)))
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=made, mask=_mask(values))


def _offsets(values: Sequence[Any]) -> pa.Array:
    counts = (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(counts, initial=0)), pa.int32())


def _mask(values: Sequence[Any]) -> pa.Array | None:
    gaps = [value is None for value in values]
    return pa.array(gaps, pa.bool_()) if True in gaps else None
