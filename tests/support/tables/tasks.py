"""What tests of a table's tasks have in common: targets, a plan of values, and rows read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.logs.builders import TOPIC_ID, real_log
from support.spark.directory_source import START_MS, options_for
from tailrace.config.log import LogConfig
from tailrace.record.builder import BatchBuilder
from tailrace.spark.tables import columns
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks import Reading
from tailrace.spark.tables.values.plan import Decoded, Discovered

BAD = b"bad"
CONFIG = LogConfig(message_timestamp_after_max_ms=1 << 62)
Record = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, int]
"""Key, value and perhaps the time in ms."""


class TextPlan:
    """Values are text in a column `text`, but for `bad`; `!name` is a field that is not known before `grown`."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known = tuple(known)

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(name, pa.string()) for name in ("text", *self.known)]

    def decoder(self) -> TextPlan:
        return self

    def decode(self, values: pa.Array) -> Decoded:
        texts = [None if value in (None, BAD) else value.decode() for value in values.to_pylist()]
        new = {text[1:]: pa.string() for text in texts if text and text[0] == "!" and text[1:] not in self.known}
        if new:
            return Decoded([], discovered=Discovered(new))
        bad = {row: "it is bad" for row, value in enumerate(values.to_pylist()) if value == BAD}
        more = [[text if text == f"!{name}" else None for text in texts] for name in self.known]
        return Decoded([pa.array(column, pa.string()) for column in (texts, *more)], bad)

    def grown(self, discovered: Iterable[Discovered]) -> TextPlan:
        return TextPlan((*self.known, *(name for each in discovered for name in each.fields)))


def write_records(root: Path, partition: int, records: Sequence[Record], per_batch: int = 7) -> None:
    """Into a log of the topic `t`, closed cleanly."""
    folder = root / f"t-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    log = real_log(folder, CONFIG, topic_id=TOPIC_ID)
    for first in range(0, len(records), per_batch):
        builder = BatchBuilder()
        for number, (key, value, *time_ms) in enumerate(records[first : first + per_batch], first):
            builder.append(time_ms[0] if time_ms else START_MS + number, key, value)
        (result,) = log.append_as_leader([builder.build()], 0)
        assert result.error is None
    log.close()


def reading_of(root: Path, place: Path, plan: TextPlan | None = None, **more: Any) -> Reading:
    """Of the topic `t` in `root`, for tables in `place`."""
    settings: dict[str, Any] = {"key": "bytes", **more}
    dead = target_of(place / "dead", columns.dead_letter_schema())
    return Reading(options_for(root, "t"), plan or TextPlan(), dead=dead, **settings)


def target_of(
    root: Path, schema: pa.Schema, partition_by: tuple[str, ...] = (), *, holds: bool = True, staging: str | None = None
) -> FileTarget:
    kept = schema if holds else pa.schema([field for field in schema if field.name not in partition_by])
    return FileTarget(str(root), kept, partition_by, holds, staging)


def append_target(root: Path, plan: TextPlan, partition_by: tuple[str, ...] = (), **more: Any) -> FileTarget:
    schema = columns.append_schema(pa.binary(), plan.fields, partition_by)
    return target_of(root, schema, partition_by, **more)


def rows_of(target: FileTarget, files: Iterable[DataFile], columns: list[str] | None = None) -> list[dict[str, Any]]:
    """In the order of the files, without their folders' values."""
    found: list[dict[str, Any]] = []
    for file in files:
        table = pq.ParquetFile(Path(target.root) / file.path).read(columns)
        assert table.num_rows == file.rows
        assert (Path(target.root) / file.path).stat().st_size == file.size_bytes
        found += table.to_pylist()
    return found


def files_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
