"""Values that are UTF-8 text. Others are dead letters: no character is replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tailrace.spark.tables.columns import VALUE
from tailrace.spark.tables.values.plan import Decoded, Discovered


@dataclass(frozen=True)
class StringPlan:
    column: str = VALUE

    @property
    def fields(self) -> Sequence[pa.Field]:
        return [pa.field(self.column, pa.string())]

    def decoder(self) -> StringDecoder:
        return StringDecoder()

    def grown(self, discovered: Iterable[Discovered]) -> StringPlan:
        return self


class StringDecoder:
    def decode(self, values: pa.Array) -> Decoded:
        try:
            return Decoded([values.cast(pa.string())])
        except pa.ArrowInvalid:
            return _one_by_one(values)


def _one_by_one(values: pa.Array) -> Decoded:
    texts: list[str | None] = []
    bad = {}
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as wrong:
            bad[row] = f"not UTF-8: {wrong.reason} at byte {wrong.start}"
            texts.append(None)
    return Decoded([pa.array(texts, pa.string())], bad)
