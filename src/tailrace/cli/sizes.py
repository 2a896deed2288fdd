"""Amounts for people: bytes in units of 1024, as they are written and as they are read; counts with their noun."""

from __future__ import annotations

import argparse
import re
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_WRITTEN: Final = re.compile(r"([0-9]{1,19})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_MAX_BYTES: Final = 2**63 - 1


def shown_size(size_bytes: int) -> str:
    """Three digits that count: `917 B`, `1.25 GiB`."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {_UNITS[unit]}"


def size_in_bytes(text: str) -> int:
    """For argparse: a number of bytes, or of `k`, `m`, `g`, `t` of them, in units of 1024; `128MiB` is fine too."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write bytes, or a unit behind them: 1048576, 512k, 1g")
    size = int(found[1]) << (10 * " kmgt".index(found[2].lower() or " "))
    if size > _MAX_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {_MAX_BYTES} bytes")
    return size


def counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
