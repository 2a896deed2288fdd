"""Frozen things as JSON and back, by the types of their fields: no name of a class is in the text, none is made of it.

dataclasses, named tuples   the list of their fields
tuples, lists, sets         lists
mappings                    lists of pairs
bytes                       base64
"""

from __future__ import annotations

import base64
import binascii
import types
import typing
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from tailrace.model.errors import InvalidDataError

_SCALARS: typing.Final = (int, float, str, bool)


def to_plain(value: Any) -> Any:
    """What `json.dumps` takes."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if is_dataclass(value) and not isinstance(value, type):
        return [to_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, Mapping):
        return [[to_plain(key), to_plain(each)] for key, each in value.items()]
    if isinstance(value, AbstractSet):
        return sorted(to_plain(each) for each in value)
    if isinstance(value, Iterable):
        return [to_plain(each) for each in value]
    return to_plain(value.item())  # a number of numpy's


def from_plain(kind: Any, plain: Any) -> Any:
    """A value of the type `kind`. InvalidDataError where the text is of something else."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind is Any:
        return plain
    if kind is None or kind is type(None):
        return _expect(plain is None, None, plain)
    if origin in (types.UnionType, typing.Union):
        return _from_union(arguments, plain)
    if origin is not None:
        return _from_container(origin, arguments, plain)
    return _from_class(kind, plain)


def _from_union(kinds: Sequence[Any], plain: Any) -> Any:
    if plain is None and type(None) in kinds:
        return None
    for kind in kinds:
        if kind is not type(None):
            try:
                return from_plain(kind, plain)
            except InvalidDataError:
                continue
    raise InvalidDataError(f"{str(plain)[:60]} is none of {kinds}")


def _from_container(origin: Any, arguments: Sequence[Any], plain: Any) -> Any:
    _expect(isinstance(plain, list), None, plain)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(from_plain(arguments[0], each) for each in plain)
        _expect(len(plain) == len(arguments), None, plain)
        return tuple(from_plain(kind, each) for kind, each in zip(arguments, plain, strict=True))
    if issubclass(origin, Mapping):
        _expect(all(isinstance(pair, list) and len(pair) == 2 for pair in plain), None, plain)
        values = int if origin is Counter else arguments[1]
        found = {from_plain(arguments[0], key): from_plain(values, each) for key, each in plain}
        return Counter(found) if origin is Counter else found
    items = [from_plain(arguments[0], each) for each in plain]
    if issubclass(origin, AbstractSet):
        return frozenset(items) if origin is not set else set(items)
    return items if origin is list else tuple(items)


def _from_class(kind: Any, plain: Any) -> Any:
    if kind is bytes:
        _expect(isinstance(plain, str), None, plain)
        try:
            return base64.b64decode(plain, validate=True)
        except binascii.Error as error:
            raise InvalidDataError(f"{plain[:60]!r} is no base64: {error}") from None
    if kind in _SCALARS:
        is_one = type(plain) is kind or (kind is float and type(plain) is int)
        return _expect(is_one, plain, plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(plain)
        except ValueError as error:
            raise InvalidDataError(str(error)) from None
    hints = _fields_of(kind)
    _expect(isinstance(plain, list) and len(plain) == len(hints), None, plain)
    return kind(*(from_plain(hint, each) for hint, each in zip(hints, plain, strict=True)))


@cache
def _fields_of(kind: Any) -> tuple[Any, ...]:
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
    elif hasattr(kind, "_fields"):
        names = list(kind._fields)
    else:
        raise InvalidDataError(f"{kind} is nothing that goes to JSON and back")
    hints = typing.get_type_hints(kind, localns={})  # a field may have the name of a type
    return tuple(hints[name] for name in names)


def _expect(holds: bool, value: Any, plain: Any) -> Any:
    if not holds:
        raise InvalidDataError(f"{str(plain)[:60]!r} is not what should be here")
    return value
