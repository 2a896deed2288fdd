"""Values as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tailrace.spark.tables.columns import VALUE
from tailrace.spark.tables.values.plan import Decoded, Discovered


@dataclass(frozen=True)
class BytesPlan:
    column: str = VALUE

    @property
    def fields(self) -> Sequence[pa.Field]:
        return [pa.field(self.column, pa.binary())]

    def decoder(self) -> BytesDecoder:
        return BytesDecoder()

    def grown(self, discovered: Iterable[Discovered]) -> BytesPlan:
        return self


class BytesDecoder:
    def decode(self, values: pa.Array) -> Decoded:
        return Decoded([values.cast(pa.binary())])
