"""What Avro, Protobuf and JSON have in common for plans: a schema is loaded, has columns, and reads values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from tailrace.spark.tables.values.framing import MessagePath
from tailrace.spark.tables.values.readers import ValueReader
from tailrace.spark.tables.values.registry import RegisteredSchema


class Dialect(Protocol):
    """Picklable, and so is what it loads."""

    @property
    def kind(self) -> str:
        """As a registry names it."""
        ...

    def load(self, registered: RegisteredSchema) -> Any:
        """On the driver. TableError where it is none."""
        ...

    def located(self, value: bytes) -> tuple[MessagePath, int]:
        """Of a framed value: which message of its schema it is (always the same where a schema has only one), and
        where its payload begins. BadFrameError."""
        ...

    def has(self, loaded: Any, path: MessagePath) -> bool: ...

    def fields(self, loaded: Any, path: MessagePath) -> list[pa.Field]:
        """The columns of its values. SchemaMismatchError where they cannot be read as the schema that is declared for
        all of them."""
        ...

    def reader(self, loaded: Any, path: MessagePath, fields: Sequence[pa.Field]) -> ValueReader:
        """Into these columns, which hold at least its own."""
        ...
