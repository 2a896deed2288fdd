"""The quorum's members as settings name them: `1@controller-1:9093`, and addresses to find them by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tailrace.config.table import text_list

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    """Without brackets."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Voter:
    id: int
    address: Address

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


def address(text: str) -> Address:
    matched = _ADDRESS.fullmatch(text.strip())
    if matched is None or int(matched[2]) > 65_535:
        raise ValueError(f"{text} is not of the form HOST:PORT")
    return Address(matched[1].strip("[]"), int(matched[2]))


def addresses(text: str) -> tuple[Address, ...]:
    return tuple(address(part) for part in text_list(text))


def voters(text: str) -> tuple[Voter, ...]:
    found = []
    for part in text_list(text):
        number, at, rest = part.partition("@")
        if not at or not number.isascii() or not number.isdecimal():
            raise ValueError(f"{part} is not of the form ID@HOST:PORT")
        found.append(Voter(int(number), address(rest)))
    if len({voter.id for voter in found}) < len(found):
        raise ValueError("each voter must have an id of its own")
    return tuple(found)


def host_port(text: str) -> str | None:
    return str(address(text)) if text.strip() else None


def roles(text: str) -> tuple[str, ...]:
    found = text_list(text)
    if not found or not set(found) <= {"broker", "controller"} or len(set(found)) < len(found):
        raise ValueError("must be broker, controller or both")
    return found


def names(text: str) -> tuple[str, ...]:
    return tuple(name.upper() for name in text_list(text))
