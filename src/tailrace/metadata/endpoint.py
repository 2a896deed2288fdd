"""Where a broker or controller can be reached on one of its listeners."""

from __future__ import annotations

from typing import Final, NamedTuple

PLAINTEXT: Final = 0
"""The only security protocol so far, by its number in registrations."""


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int = PLAINTEXT
