"""What a command found, as lines for other programs: JSON, or `type key=value …`. Terminals get pictures instead."""

from __future__ import annotations

import base64
import json
from typing import Any, TypeAlias

Item: TypeAlias = dict[str, Any]
"""One thing: its `type`, and keys that stay."""


def plain_line(item: Item) -> str:
    """`type key=value …`; keys without a value are left out, and values with blanks are quoted."""
    pairs = ((key, value) for key, value in item.items() if key != "type" and value is not None)
    return " ".join((item["type"], *(f"{key}={_plain(value)}" for key, value in pairs)))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return json.dumps(value)
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    is_clear = text.isprintable() and not set(text) & set(" \"'") and (text or isinstance(value, list))
    return text if is_clear else json.dumps(text)


def print_items(items: list[Item], *, as_json: bool) -> None:
    for item in items:
        print(json.dumps(item) if as_json else plain_line(item))


def text_or_base64(name: str, data: bytes | None) -> Item:
    """Text where the bytes are UTF-8, else null with `…_base64` beside it; both are null for null bytes."""
    try:
        text = data.decode() if data is not None else None
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text, f"{name}_base64": None}


def bytes_of(item: Item, name: str) -> bytes | None:
    """The bytes that `text_or_base64` took."""
    text, encoded = item[name], item[f"{name}_base64"]
    if encoded is not None:
        return base64.b64decode(encoded)
    return None if text is None else str(text).encode()
