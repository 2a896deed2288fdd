"""The interface between values and those who make rows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Discovered:
    """What a task met that its plan does not know. Small, picklable."""

    fields: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Unknown fields of JSON values whose columns are inferred: name → what holds all values seen."""
    schema_ids: frozenset[int] = frozenset()
    """Of a registry, of which the plan does not have the schema."""
    messages: frozenset[tuple[int, tuple[int, ...]]] = frozenset()
    """Schema id and message of values whose columns the plan does not have. Only Protobuf's schemas have several."""

    def __bool__(self) -> bool:
        return bool(self.fields or self.schema_ids or self.messages)


NOTHING = Discovered()


@dataclass(frozen=True)
class Decoded:
    """The columns of some values, in the order of the plan's fields."""

    columns: Sequence[pa.Array]
    """Null in rows that are bad, and in those whose value is null."""
    bad: Mapping[int, str] = field(default_factory=dict)
    """Row → why its value does not fit, for people. A null value is never bad."""
    discovered: Discovered = NOTHING
    """If there is anything here, columns and bad are not to be used."""


class ValueDecoder(Protocol):
    """Made by each task from its plan. One thread."""

    def decode(self, values: pa.Array) -> Decoded:
        """Of a binary array. Never raises for what is in a value."""
        ...


class ValuePlan(Protocol):
    """Picklable."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """All nullable."""
        ...

    def decoder(self) -> ValueDecoder: ...

    def grown(self, discovered: Iterable[Discovered]) -> ValuePlan:
        """SchemaMismatchError where a declared schema cannot be read into the fields there are."""
        ...
