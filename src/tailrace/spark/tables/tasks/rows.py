"""Records, as the source reads them, into rows of a table and dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.source import columns as source
from tailrace.spark.source.columns import Columns
from tailrace.spark.tables import columns as names
from tailrace.spark.tables.tasks.partitions import unplaceable
from tailrace.spark.tables.tasks.reading import KeyForm, Reading
from tailrace.spark.tables.values.plan import NOTHING, Discovered
from tailrace.spark.tables.values.times import MICROS

READ_COLUMNS: Final = Columns(
    (
        source.TOPIC,
        source.PARTITION,
        source.OFFSET,
        source.TIMESTAMP,
        source.KEY,
        source.HEADERS,
        source.VALUE,
    )
)
NO_KEY: Final = "the record has no key, and rows of this table are by key"
KEY_IS_NO_TEXT: Final = "the key is not UTF-8"

_DEAD_SCHEMA: Final = names.dead_letter_schema()


@dataclass(frozen=True)
class Rows:
    """Of one record batch."""

    good: pa.RecordBatch
    dead: pa.RecordBatch | None
    """Only those that the table of dead letters does not have."""
    read_bytes: int
    """Of keys and values."""
    discovered: Discovered = NOTHING
    """If there is anything here, there are no rows."""


class RowMaker:
    """Of one task. `keyed` rows are those of an upsert table: with `_deleted`, without topic and headers."""

    def __init__(
        self,
        reading: Reading,
        partition_by: tuple[str, ...] = (),
        *,
        only_in_folders: bool = False,
        keyed: bool = False,
    ) -> None:
        """`only_in_folders`: the table's files do not hold its partition values."""
        self._reading = reading
        self._partition_by = partition_by
        self._only_in_folders = only_in_folders
        self._keyed = keyed
        self._decoder = reading.plan.decoder()
        self._schema = _schema(reading, partition_by, keyed=keyed)
        self._empty = self._schema.empty_table().to_batches(1) or [
            pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self._schema], schema=self._schema)
        ]

    def make(self, records: pa.RecordBatch) -> Rows:
        values = records.column(source.VALUE)
        decoded = self._decoder.decode(values)
        read_bytes = _bytes_of(values) + _bytes_of(records.column(source.KEY))
        if decoded.discovered:
            return Rows(self._empty[0], None, read_bytes, decoded.discovered)
        key, bad_keys = _keys(records.column(source.KEY), self._reading.key, keyed=self._keyed)
        columns = [*self._own(records, key), *decoded.columns]
        if names.DAY in self._schema.names:
            columns.append(records.column(source.TIMESTAMP).cast(pa.date32()))
        good = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        bad: dict[int, str] = {**decoded.bad, **bad_keys, **_bad_times(records.column(source.TIMESTAMP))}
        if self._partition_by:
            unplaced = unplaceable(good, self._partition_by, only_in_folders=self._only_in_folders)
            bad = {**unplaced, **bad}
        settled = self._settled(records)
        if not bad and not settled:
            return Rows(good, None, read_bytes)
        new = {row: why for row, why in bad.items() if row not in settled}
        return Rows(_without(good, settled.union(bad)), dead_letters(records, new) if new else None, read_bytes)

    def _settled(self, records: pa.RecordBatch) -> frozenset[int]:
        """Rows that have a letter already."""
        has_letter = self._reading.has_letter
        if not has_letter or not records.num_rows:
            return frozenset()
        offsets = has_letter.get(records.column(source.PARTITION)[0].as_py())
        if offsets is None:
            return frozenset()
        found = pc.is_in(records.column(source.OFFSET), value_set=offsets)
        return frozenset(pc.indices_nonzero(found).to_pylist())

    def _own(self, records: pa.RecordBatch, key: pa.Array) -> list[pa.Array]:
        partition, offset = records.column(source.PARTITION), records.column(source.OFFSET)
        timestamp = records.column(source.TIMESTAMP)
        if self._keyed:
            return [key, partition, offset, timestamp, records.column(source.VALUE).is_null()]
        return [records.column(source.TOPIC), partition, offset, timestamp, key, records.column(source.HEADERS)]


def dead_letters(records: pa.RecordBatch, bad: Mapping[int, str]) -> pa.RecordBatch:
    """The letters for rows of `records`, in their order."""
    rows = sorted(bad)
    chosen = records.take(pa.array(rows, pa.int64()))
    columns = [*chosen.columns, pa.array([bad[row] for row in rows], pa.string())]
    time_at = _DEAD_SCHEMA.get_field_index(names.TIMESTAMP)
    columns[time_at] = pc.if_else(_is_outside(columns[time_at]), None, columns[time_at])
    return pa.RecordBatch.from_arrays(columns, schema=_DEAD_SCHEMA)


def key_type(form: KeyForm) -> pa.DataType:
    return pa.string() if form == "string" else pa.binary()


def keyed_schema(reading: Reading) -> pa.Schema:
    """Of the rows that a batch of upserts is: those of hidden rows, without the bucket."""
    hidden = names.hidden_schema(key_type(reading.key), list(reading.plan.fields))
    return pa.schema([field for field in hidden if field.name != names.BUCKET])


def _schema(reading: Reading, partition_by: tuple[str, ...], *, keyed: bool) -> pa.Schema:
    if keyed:
        return keyed_schema(reading)
    return names.append_schema(key_type(reading.key), list(reading.plan.fields), partition_by)


def _keys(keys: pa.Array, form: KeyForm, *, keyed: bool) -> tuple[pa.Array, dict[int, str]]:
    """As the table has them, and which cannot be."""
    bad = dict.fromkeys(pc.indices_nonzero(keys.is_null()).to_pylist(), NO_KEY) if keyed and keys.null_count else {}
    if form == "bytes":
        return keys, bad
    try:
        return keys.cast(pa.string()), bad
    except pa.ArrowInvalid:
        texts = [None if key is None else _text(key) for key in keys.to_pylist()]
        for row, (text, was_null) in enumerate(zip(texts, keys.is_null().to_pylist(), strict=True)):
            if text is None and not was_null:
                bad[row] = KEY_IS_NO_TEXT
        return pa.array(texts, pa.string()), bad


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _bad_times(times: pa.Array) -> dict[int, str]:
    """Which timestamps no table holds: a format cannot commit them, or nobody can read it afterwards. That is what
    microseconds become where a producer takes them for milliseconds."""
    found = pc.min_max(times.cast(pa.int64())).as_py()
    if found["min"] is None or (found["min"] >= MICROS[0] and found["max"] <= MICROS[1]):
        return {}
    rows = pc.indices_nonzero(_is_outside(times)).to_pylist()
    numbers = times.cast(pa.int64())
    return {
        row: f"the record's timestamp is not before the year 10000: {numbers[row].as_py() // 1000} ms" for row in rows
    }


def _is_outside(times: pa.Array) -> pa.Array:
    numbers = times.cast(pa.int64())
    return pc.fill_null(pc.or_(pc.less(numbers, MICROS[0]), pc.greater(numbers, MICROS[1])), False)


def _without(rows: pa.RecordBatch, bad: Iterable[int]) -> pa.RecordBatch:
    mask = [True] * rows.num_rows
    for row in bad:
        mask[row] = False
    return rows.filter(pa.array(mask))


def _bytes_of(values: pa.Array) -> int:
    return pc.sum(pc.binary_length(values)).as_py() or 0
