"""Where a broker listens: `HOST:PORT`, an IPv6 host in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.client.errors import BadAddressError

_WRITTEN: Final = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]\s]+)):([0-9]{1,5})")
_GREATEST_PORT: Final = 65535


class Address(NamedTuple):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        found = _WRITTEN.fullmatch(text.strip())
        if found is None or not 0 < int(found[3]) <= _GREATEST_PORT:
            raise BadAddressError(f"{text!r} is no address of a broker")
        return cls(found[1] or found[2], int(found[3]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(bootstrap: str | Sequence[str]) -> list[Address]:
    """Of `host:port,host:port`, or of several such texts. At least one."""
    texts = [bootstrap] if isinstance(bootstrap, str) else list(bootstrap)
    found = [Address.parse(part) for text in texts for part in text.split(",") if part.strip()]
    if not found:
        raise BadAddressError("no address of a broker is given")
    return found
