"""Tags and their text. Nothing gets into a page unescaped: strings are text, and only `tag` makes markup."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import Final


class Markup(str):
    """Already escaped. Only this package's functions make it."""

    __slots__ = ()


NONE: Final = Markup("")
_VOID: Final = frozenset({"meta", "input", "link", "br"})
_DRAWN_EMPTY: Final = frozenset({"rect", "line", "circle", "path"})
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that cannot be seen, turn lines around, or are no characters at all."""


def text(value: str) -> Markup:
    """Escaped. What cannot be seen or be written as UTF-8 is shown as its number: a file's name may hold anything."""
    if isinstance(value, Markup):
        return value
    if not value.isprintable():
        value = "".join(_visible(each) for each in value)
    return Markup(escape(value))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """`class_` and the like lose their `_`, others become `-`. None and False leave an attribute out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID or (name in _DRAWN_EMPTY and not children):
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{''.join(text(child) for child in children)}</{name}>")


def joined(parts: list[Markup]) -> Markup:
    return Markup("".join(parts))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        value = ""
    elif isinstance(value, float):
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    name = key if key in _CAMEL else key.rstrip("_").replace("_", "-")
    return f' {name}="{text(str(value))}"'


_CAMEL: Final = frozenset({"viewBox", "preserveAspectRatio"})


def _visible(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in _HIDDEN:
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
