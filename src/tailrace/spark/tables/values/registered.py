"""The plan for values that begin with the id of their schema in a registry.

It holds the schemas that were met so far. A task that meets another id, or another message of a schema, tells so, and
the driver's grown plan has it: what the registry gave, or that it has none of this id, which makes its values dead
letters until the job is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.dialect import Dialect
from tailrace.spark.tables.values.evolution import grow
from tailrace.spark.tables.values.framing import BadFrameError, MessagePath, schema_id
from tailrace.spark.tables.values.plan import Decoded, Discovered
from tailrace.spark.tables.values.readers import Read, ValueReader, merged
from tailrace.spark.tables.values.registry import Registry

Message = tuple[int, MessagePath]
"""A schema's id, and the message in it."""


@dataclass(frozen=True)
class Refused:
    """In the place of a schema: why values with its id are dead letters."""

    reason: str


@dataclass(frozen=True)
class RegisteredPlan:
    dialect: Dialect
    registry: Registry
    fields: Sequence[pa.Field]
    schemas: Mapping[int, Any] = field(default_factory=dict)
    """Id → what the dialect loaded, or `Refused`."""
    messages: frozenset[Message] = frozenset()
    """Those that `fields` hold."""

    def decoder(self) -> RegisteredDecoder:
        return RegisteredDecoder(self)

    def grown(self, discovered: Iterable[Discovered]) -> RegisteredPlan:
        found = list(discovered)
        messages = frozenset[Message]().union(*(one.messages for one in found))
        wanted = frozenset(identity for identity, _ in messages).union(*(one.schema_ids for one in found))
        schemas = dict(self.schemas)
        for identity in sorted(wanted - schemas.keys()):
            schemas[identity] = self._loaded(identity)
        fields = self.fields
        for identity, path in sorted(messages - self.messages):
            if not isinstance(schemas[identity], Refused):
                fields = self._with(fields, identity, schemas[identity], path)
        return replace(self, fields=fields, schemas=schemas, messages=self.messages | messages)

    def _loaded(self, identity: int) -> Any:
        registered = self.registry.schema(identity)
        if registered is None:
            return Refused(f"{self.registry.name} has no schema {identity}")
        if registered.kind != self.dialect.kind:
            return Refused(f"schema {identity} of {self.registry.name} is {registered.kind}, not {self.dialect.kind}")
        return self.dialect.load(registered)

    def _with(self, fields: Sequence[pa.Field], identity: int, loaded: Any, path: MessagePath) -> Sequence[pa.Field]:
        if not self.dialect.has(loaded, path):
            return fields
        try:
            return grow(fields, self.dialect.fields(loaded, path))
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"schema {identity} of {self.registry.name}: {error}") from error


class RegisteredDecoder:
    def __init__(self, plan: RegisteredPlan) -> None:
        self._plan = plan
        self._readers: dict[Message, ValueReader] = {}

    def decode(self, values: pa.Array) -> Decoded:
        raw: list[bytes | None] = values.to_numpy(zero_copy_only=False).tolist()
        groups: dict[Message, tuple[list[int], list[bytes | None]]] = {}
        bad: dict[int, str] = {}
        for row, value in enumerate(raw):
            if value is None:
                continue
            try:
                identity = schema_id(value)
                path, start = self._plan.dialect.located(value)
            except BadFrameError as error:
                bad[row] = str(error)
                continue
            rows, payloads = groups.setdefault((identity, path), ([], []))
            rows.append(row)
            payloads.append(value[start:])
        unknown = self._unknown(groups)
        if unknown:
            return Decoded([], discovered=unknown)
        parts = [(rows, self._read(message, payloads)) for message, (rows, payloads) in groups.items()]
        whole = merged(len(raw), parts, self._plan.fields)
        return Decoded(whole.columns, whole.bad | bad)

    def _unknown(self, groups: Iterable[Message]) -> Discovered:
        plan = self._plan
        missing = [message for message in groups if message not in plan.messages]
        refused = {identity for identity, _ in missing if isinstance(plan.schemas.get(identity), Refused)}
        to_tell = [message for message in missing if message[0] not in refused and self._may_be(message)]
        ids = frozenset(identity for identity, _ in to_tell if identity not in plan.schemas)
        return Discovered(schema_ids=ids, messages=frozenset(to_tell))

    def _may_be(self, message: Message) -> bool:
        """Whether a message is in its schema, or that is not known."""
        identity, path = message
        loaded = self._plan.schemas.get(identity)
        return loaded is None or self._plan.dialect.has(loaded, path)

    def _read(self, message: Message, payloads: Sequence[bytes | None]) -> Read:
        identity, path = message
        loaded = self._plan.schemas[identity]
        if isinstance(loaded, Refused):
            return self._all_bad(payloads, loaded.reason)
        if not self._plan.dialect.has(loaded, path):
            shown = list(path)
            return self._all_bad(payloads, f"schema {identity} of {self._plan.registry.name} has no message {shown}")
        reader = self._readers.get(message)
        if reader is None:
            reader = self._readers[message] = self._plan.dialect.reader(loaded, path, self._plan.fields)
        return reader.read(payloads)

    def _all_bad(self, payloads: Sequence[bytes | None], reason: str) -> Read:
        return no_columns(payloads, self._plan.fields, reason)


def no_columns(payloads: Sequence[bytes | None], fields: Sequence[pa.Field], reason: str) -> Read:
    bad = {row: reason for row, payload in enumerate(payloads) if payload is not None}
    return Read([pa.nulls(len(payloads), one.type) for one in fields], bad)
