"""How a settings table is written: a frozen dataclass whose fields are keys with dots turned into underscores.

Each field has a default, a parser that refuses what the setting cannot be (ValueError), and a line of documentation.
`keys_of(table)` gives the rows of a table as values: what DescribeConfigs, the documentation and the checks of changes
at run time are made from.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

MAX_LONG: Final = 2**63 - 1
MIN_LONG: Final = -(2**63)
MAX_INT: Final = 2**31 - 1
MIN_INT: Final = -(2**31)
MAX_SHORT: Final = 2**15 - 1
MIN_SHORT: Final = -(2**15)

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ConfigError(ValueError):
    """A setting is unknown or has a value that it cannot have; the text names the key, the hint says what to set."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Kind(enum.IntEnum):
    """What a value is, with DescribeConfigs' numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Mode(enum.Enum):
    """Whether a broker's setting can change while it runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER = "cluster-wide"


class Effect(enum.Enum):
    """What a setting does here. Kafka's properties files name settings of parts that this broker does not have."""

    USED = "used"
    NONE = "accepted; nothing here corresponds to it"
    LATER = "accepted; the part that it is for is not built yet"
    REFUSED = "any value but the default stops the start"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of one of Java's types."""

    low: int
    high: int
    kind: Kind
    extra: int | None = None  # one more value that is allowed, outside the bounds

    def __call__(self, text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError("must be a whole number")
        value = int(text)
        if not self.low <= value <= self.high and value != self.extra:
            raise ValueError(f"must be {self.span}")
        return value

    @property
    def span(self) -> str:
        other = "" if self.extra is None else f", or {self.extra}"
        return f"from {self.low} to {self.high}{other}"


@dataclass(frozen=True, slots=True)
class Real:
    low: float = -sys.float_info.max
    high: float = sys.float_info.max
    kind: Kind = Kind.DOUBLE

    def __call__(self, text: str) -> float:
        value = real_number(text)
        if not self.low <= value <= self.high:
            raise ValueError(f"must be {self.span}")
        return value

    @property
    def span(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Choice:
    choices: tuple[str, ...]
    kind: Kind = Kind.STRING
    ignores_case: bool = False

    def __call__(self, text: str) -> str:
        if self.ignores_case:
            text = next((each for each in self.choices if each.lower() == text.strip().lower()), text)
        if text not in self.choices:
            raise ValueError(f"must be {self.span}")
        return text

    @property
    def span(self) -> str:
        return f"one of {', '.join(self.choices)}"


@dataclass(frozen=True, slots=True)
class Text:
    kind: Kind = Kind.STRING

    def __call__(self, text: str) -> str:
        return text.strip()


class _Boolean:
    kind: Final = Kind.BOOLEAN

    def __call__(self, text: str) -> bool:
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError("must be true or false")
        return lowered == "true"


class _TextList:
    kind: Final = Kind.LIST

    def __call__(self, text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())


def real_number(text: str) -> float:
    if not _REAL.fullmatch(text.strip()):
        raise ValueError("must be a number")
    return float(text)


def whole(low: int, high: int, *, extra: int | None = None) -> Whole:
    """Java's type follows from the upper bound."""
    kind = Kind.SHORT if high == MAX_SHORT else Kind.INT if high <= MAX_INT else Kind.LONG
    return Whole(low, high, kind, extra)


def choice(*choices: str, ignores_case: bool = False) -> Choice:
    return Choice(choices, ignores_case=ignores_case)


fraction: Final = Real(0, 1)
boolean: Final = _Boolean()
text_list: Final = _TextList()
plain: Final = Text()
class_name: Final = Text(Kind.CLASS)
password: Final = Text(Kind.PASSWORD)


@dataclass(frozen=True, slots=True)
class Key:
    """One row of a table."""

    name: str
    field: str
    default: Any
    parse: Callable[[str], Any]
    doc: str
    kind: Kind
    mode: Mode
    effect: Effect
    is_internal: bool

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    @property
    def default_text(self) -> str | None:
        return value_text(self.kind, self.default)

    @property
    def span(self) -> str:
        """The range of its values, in words; empty where it has none."""
        return str(getattr(self.parse, "span", ""))

    def parsed(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(f"{self.name}={self.shown(text)}: {error}") from None

    def shown(self, text: str) -> str:
        return "[hidden]" if self.is_sensitive else text

    def text_of(self, text: str) -> str:
        """A value as Kafka spells it after reading it: `TRUE` is `true`, `a, b` is `a,b`."""
        if self.kind in (Kind.STRING, Kind.CLASS, Kind.PASSWORD):
            return text.strip()
        if self.kind is Kind.LIST:
            return ",".join(text_list(text))
        return value_text(self.kind, self.parse(text)) or ""


def key(
    default: Any,
    parse: Callable[[str], Any],
    doc: str,
    *,
    kind: Kind | None = None,
    mode: Mode = Mode.READ_ONLY,
    effect: Effect = Effect.USED,
    internal: bool = False,
) -> Any:
    """A field of a table. `kind` is the parser's unless the parser is a plain function."""
    metadata = {
        "parse": parse,
        "doc": doc,
        "kind": kind or getattr(parse, "kind", Kind.STRING),
        "mode": mode,
        "effect": effect,
        "internal": internal,
    }
    return field(default=default, metadata=metadata)


_ROWS: Final[dict[type, Mapping[str, Key]]] = {}


def keys_of(table: type) -> Mapping[str, Key]:
    """The rows of a table by name."""
    if table in _ROWS:
        return _ROWS[table]
    found = dict[str, Key]()
    for each in fields(table):
        if "parse" in each.metadata:
            name, facts = each.name.replace("_", "."), each.metadata
            default = None if each.default is MISSING else each.default
            found[name] = Key(
                name,
                each.name,
                default,
                facts["parse"],
                facts["doc"],
                facts["kind"],
                facts["mode"],
                facts["effect"],
                facts["internal"],
            )
    return _ROWS.setdefault(table, MappingProxyType(found))


def value_text(kind: Kind, value: Any) -> str | None:
    if value is None:
        return None
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind is Kind.DOUBLE:
        return java_double(float(value))
    if kind is Kind.LIST:
        return ",".join(str(each) for each in value)
    return str(value)


def java_double(value: float) -> str:
    """As Java prints it: 0.5, 1.0E10, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # large, and rarely needed

    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # it is a string for what is no finite number
    text = "".join(map(str, digits)).rstrip("0")
    power = len(digits) - 1 + exponent
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def parsed(table: type, settings: Mapping[str, str], what: str) -> dict[str, Any]:
    """Field values for `table`; ConfigError for a key that it does not have or a value that is refused."""
    known = keys_of(table)
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in known:
            raise ConfigError(f"{name}: no such {what} setting")
        values[known[name].field] = known[name].parsed(text)
    return values
