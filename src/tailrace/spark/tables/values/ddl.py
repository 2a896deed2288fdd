"""Schemas in Spark's DDL: `id BIGINT NOT NULL, tags ARRAY<STRING>, place STRUCT<x: DOUBLE, y: DOUBLE>`.

Spark's own parser is behind a JVM; this one needs none. It takes what `StructType.fromDDL` takes, without collations,
intervals, variants and defaults. A NOT NULL field is one that each value must have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn

import pyarrow as pa

from tailrace.spark.errors import OptionError

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`)
          |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
          |(?P<word>[^\W\d]\w*|\d\w*)
          |(?P<sign>[<>(),:]))""",
    re.VERBOSE | re.DOTALL,
)
_DEEPEST: Final = 64
_LONGEST: Final = 1_000_000

_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_LENGTHS: Final = ("char", "character", "varchar")
"""Their length is read, and not checked."""
_OTHERS: Final = (*_DECIMALS, *_LENGTHS, "array", "map", "struct")


def fields_of_ddl(text: str) -> list[pa.Field]:
    """OptionError, with the place, for what is no schema."""
    return _Parser(text).schema()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _split(text)
        self._at = 0

    def schema(self) -> list[pa.Field]:
        is_whole_struct = [token[1].lower() for token in self._tokens[:2]] == ["struct", "<"]
        fields = list(self._type(0)) if is_whole_struct else self._fields(0)
        if self._tokens[self._at][0] != "end":
            self._fail("the schema should end here, or go on behind a comma")
        return fields

    def _fields(self, depth: int) -> list[pa.Field]:
        fields = [self._field(depth)]
        while self._has_sign(","):
            fields.append(self._field(depth))
        spelled: dict[str, str] = {}
        for field in fields:
            other = spelled.setdefault(field.name.lower(), field.name)
            if other != field.name:
                self._fail(f"fields {other} and {field.name} differ only in case")
        if len(spelled) != len(fields):
            self._fail("two fields have the same name")
        return fields

    def _field(self, depth: int) -> pa.Field:
        label, text, _ = self._tokens[self._at]
        if label not in ("word", "quoted"):
            self._fail("a field's name should be here")
        self._at += 1
        name = text[1:-1].replace("``", "`") if label == "quoted" else text
        self._has_sign(":")
        found = self._type(depth)
        is_required = self._has_word("not")
        if is_required and not self._has_word("null"):
            self._fail("NULL should be behind NOT")
        if self._has_word("comment"):
            if self._tokens[self._at][0] != "text":
                self._fail("a quoted comment should be here")
            self._at += 1
        return pa.field(name, found, nullable=not is_required)

    def _type(self, depth: int) -> pa.DataType:
        label, text, _ = self._tokens[self._at]
        name = text.lower()
        if depth > _DEEPEST:
            self._fail(f"types are nested deeper than {_DEEPEST}")
        if label != "word" or not (name in _SIMPLE or name in _OTHERS):
            self._fail(f"a type should be here: {', '.join([*_SIMPLE, *_OTHERS])}")
        self._at += 1
        if name in _DECIMALS:
            return self._decimal()
        if name in _LENGTHS:
            self._numbers()
            return pa.string()
        if name == "array":
            return self._bracketed(lambda: pa.list_(self._type(depth + 1)))
        if name == "map":
            return self._bracketed(lambda: self._map(depth + 1))
        if name == "struct":
            return self._bracketed(lambda: pa.struct(self._fields(depth + 1)))
        return _SIMPLE[name]

    def _bracketed(self, inner: Callable[[], pa.DataType]) -> pa.DataType:
        self._need_sign("<")
        found = inner()
        self._need_sign(">")
        return found

    def _map(self, depth: int) -> pa.DataType:
        key = self._type(depth)
        if key != pa.string():
            self._fail("a map's keys are strings: JSON has no others")
        self._need_sign(",")
        return pa.map_(key, self._type(depth))

    def _decimal(self) -> pa.DataType:
        precision, scale = (*self._numbers(), 0, 0)[:2] if self._tokens[self._at][1] == "(" else (10, 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            self._fail(f"a decimal has 1 to 38 digits, and its scale is within: ({precision}, {scale}) is not")
        return pa.decimal128(precision, scale)

    def _numbers(self) -> list[int]:
        self._need_sign("(")
        numbers = []
        while True:
            label, text, _ = self._tokens[self._at]
            if label != "word" or not (text.isascii() and text.isdigit()) or len(text) > 9:
                self._fail("a number should be here")
            self._at += 1
            numbers.append(int(text))
            if not self._has_sign(","):
                break
        self._need_sign(")")
        return numbers

    def _has_sign(self, sign: str) -> bool:
        found = self._tokens[self._at][:2] == ("sign", sign)
        self._at += found
        return found

    def _need_sign(self, sign: str) -> None:
        if not self._has_sign(sign):
            self._fail(f"{sign} should be here")

    def _has_word(self, word: str) -> bool:
        label, text, _ = self._tokens[self._at]
        found = label == "word" and text.lower() == word
        self._at += found
        return found

    def _fail(self, reason: str) -> NoReturn:
        label, text, where = self._tokens[self._at]
        place = "its end" if label == "end" else f"{text[:40]!r} (character {where})"
        raise OptionError(f"the schema cannot be read at {place}: {reason}. It is: {self._text[:300]}")


def _split(text: str) -> list[tuple[str, str, int]]:
    """(kind, text, where) of each token, and one for the end."""
    if len(text) > _LONGEST:
        raise OptionError(f"the schema has {len(text)} characters, and {_LONGEST} are the most")
    tokens = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise OptionError(f"the schema cannot be read at {text[at : at + 20].strip()!r} (character {at})")
        label = found.lastgroup or ""
        tokens.append((label, found[label], found.start(label)))
        at = found.end()
    return [*tokens, ("end", "", end)]
