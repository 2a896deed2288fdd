"""The plan for values of one schema, which the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.spark.tables.values.dialect import Dialect
from tailrace.spark.tables.values.framing import BadFrameError, MessagePath, schema_id
from tailrace.spark.tables.values.plan import Decoded, Discovered
from tailrace.spark.tables.values.readers import ValueReader


@dataclass(frozen=True)
class GivenPlan:
    dialect: Dialect
    schema: Any
    path: MessagePath
    fields: Sequence[pa.Field]
    is_framed: bool = False
    """A registry's frame is before each value, and is passed over."""

    def decoder(self) -> GivenDecoder:
        return GivenDecoder(self, self.dialect.reader(self.schema, self.path, self.fields))

    def grown(self, discovered: Iterable[Discovered]) -> GivenPlan:
        """Nothing is ever discovered: the schema says all."""
        return self


class GivenDecoder:
    def __init__(self, plan: GivenPlan, reader: ValueReader) -> None:
        self._plan = plan
        self._reader = reader

    def decode(self, values: pa.Array) -> Decoded:
        raw: list[bytes | None] = values.to_numpy(zero_copy_only=False).tolist()
        bad = self._without_frames(raw) if self._plan.is_framed else {}
        read = self._reader.read(raw)
        return Decoded(read.columns, read.bad | bad)

    def _without_frames(self, raw: list[bytes | None]) -> dict[int, str]:
        """Takes them off. A value with none becomes null, and is bad."""
        bad: dict[int, str] = {}
        for row, value in enumerate(raw):
            if value is None:
                continue
            try:
                schema_id(value)
                raw[row] = value[self._plan.dialect.located(value)[1] :]
            except BadFrameError as error:
                bad[row] = str(error)
                raw[row] = None
        return bad
