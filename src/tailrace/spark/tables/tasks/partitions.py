"""Partition values: as text in the way of Hive, and as the names of folders.

A folder is `column=value`. Characters that a path or a pattern could take for its own are `%` and two hex digits, the
same ones as in Spark; others stay, for Spark reads each `%` as one character. Null, and text that is empty, are
`__HIVE_DEFAULT_PARTITION__` in a folder's name; what is committed tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.errors import TableError

Partition = Mapping[str, str | None]

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
MOST_NAME_BYTES: Final = 255
"""That a file system takes for a name."""
FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: others have no text that everybody reads."""

_UNSAFE: Final = re.compile("[\x01-\x1f\"#%'*/:=?\\\\{\\[\\]^\x7f]")


def can_partition_by(type_: pa.DataType) -> bool:
    types = pa.types
    return any(
        (
            types.is_string(type_),
            types.is_integer(type_),
            types.is_boolean(type_),
            types.is_date32(type_),
            types.is_decimal(type_),
        )
    )


def folder_of(partition: Partition) -> str:
    """`_day=2026-11-16/city=Bern`; nothing for a table without partition columns."""
    return "/".join(
        f"{_quoted(column)}={_quoted(value) if value else NULL_FOLDER}" for column, value in partition.items()
    )


def text_of(values: pa.Array) -> pa.Array:
    """Of the types that tables are partitioned by. TableError for others."""
    if not can_partition_by(values.type):
        raise TableError(
            f"a table cannot be partitioned by a column of {values.type}: only by text, whole numbers, booleans, "
            "dates and decimals"
        )
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def split(rows: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition value, in their order; those of a value that comes first, first.

    Each has memory of its own: a few rows that wait for more of theirs would keep all of the others in it too.
    """
    if not columns:
        yield {}, rows
        return
    codes, texts = _codes(rows, columns)
    _, firsts, numbers, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    if len(firsts) == 1:
        yield {column: found[0] for column, found in texts.items()}, rows
        return
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(counts)
    first_rows = rows.take(pa.array(firsts))
    named = {column: _texts(first_rows.column(column)) for column in columns}
    for group in np.argsort(firsts, kind="stable").tolist():
        chosen = order[ends[group] - counts[group] : ends[group]]
        yield {column: named[column][group] for column in columns}, rows.take(pa.array(chosen))


def unplaceable(rows: pa.RecordBatch, columns: tuple[str, ...], *, only_in_folders: bool = False) -> dict[int, str]:
    """Row → why no folder can be named after its partition values.

    `only_in_folders`: files do not hold them. Such a format, as Delta, takes empty text for null.
    """
    bad: dict[int, str] = {}
    for column in columns:
        values = rows.column(column)
        if pa.types.is_date32(values.type):
            days = values.cast(pa.int32())
            wrong = pc.or_(pc.less(days, FIRST_DAY), pc.greater(days, LAST_DAY))
            bad |= dict.fromkeys(_true_rows(wrong), f"the year of {column} has not four digits")
        elif pa.types.is_string(values.type):
            nothing = pc.match_substring(values, "\0")
            bad |= dict.fromkeys(
                _true_rows(nothing), f"the text of {column} has a NUL, which no folder's name may have"
            )
            if only_in_folders:
                empty = pc.equal(values, "")
                bad |= dict.fromkeys(_true_rows(empty), f"the text of {column} is empty: there it could only be null")
            room = MOST_NAME_BYTES - len(_quoted(column).encode()) - 1
            # Three bytes for each at most: only what may be too long is quoted.
            for row in _true_rows(pc.greater(pc.binary_length(values), room // 3)):
                if len(_quoted(values[row].as_py()).encode()) > room:
                    bad[row] = f"the text of {column} is too long for the name of a folder"
    return bad


def _codes(rows: pa.RecordBatch, columns: tuple[str, ...]) -> tuple[np.ndarray, dict[str, list[str | None]]]:
    """A number for each row that is the same where all partition values are, and the values there are of each."""
    codes = np.zeros(rows.num_rows, np.int64)
    texts: dict[str, list[str | None]] = {}
    for column in columns:
        encoded = rows.column(column).dictionary_encode(null_encoding="encode")
        texts[column] = _texts(encoded.dictionary)
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    return codes, texts


def _texts(values: pa.Array) -> list[str | None]:
    found: list[str | None] = text_of(values).to_pylist()
    return found


def _true_rows(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return found


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)
