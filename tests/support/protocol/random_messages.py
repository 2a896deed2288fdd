"""Random messages of ours, straight from their declarations."""

from __future__ import annotations

from random import Random
from typing import Any

from tailrace.protocol.layout import Version, is_nullable, layout_of, version_of
from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import BOOL, FLOAT64, STRING, UUID, ArrayOf, Field, Scalar, Sequence

TEXTS = ("", "a", "orders", "ключ", "x" * 130)


def random_message(message: type[Message], number: int, random: Random) -> Message:
    """Fields that the version lacks keep their defaults."""
    made = random_struct(message, version_of(message, number), random)
    assert isinstance(made, Message)
    return made


def random_struct(struct: type[Struct], version: Version, random: Random) -> Struct:
    layout = layout_of(struct, version)
    return struct(**{f.name: _field(f, version, random) for f in (*layout.regular, *layout.tagged)})


def _field(f: Field, version: Version, random: Random) -> Any:
    if random.random() < 0.2 and (is_nullable(f, version) or f.default is None):
        return None
    if isinstance(f.type, ArrayOf):
        return [_value(f.type.element, version, random) for _ in range(random.randrange(3))]
    return _value(f.type, version, random)


def _value(kind: Scalar | Sequence | type[Struct], version: Version, random: Random) -> Any:
    if isinstance(kind, Sequence):
        return random.choice(TEXTS) if kind is STRING else random.randbytes(random.randrange(5))
    if not isinstance(kind, Scalar):
        return random_struct(kind, version, random)
    if kind is BOOL:
        return random.random() < 0.5
    if kind is FLOAT64:
        return random.choice((0.0, 1.5, -2.25))
    if kind is UUID:
        return random.randbytes(16)
    signed = kind.code.islower()
    bits = 8 * kind.size_bytes - signed
    return random.choice((-(1 << bits) if signed else 0, 0, 1, (1 << bits) - 1))
