"""Where a broker or controller can be reached on one of its listeners."""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.errors import InvalidRegistrationError

PLAINTEXT: Final = 0
"""The only security protocol so far, by its number in registrations."""
_PROTOCOLS: Final = 4
"""How many security protocols Kafka has: a Kafka controller cannot read a record with another number."""


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int = PLAINTEXT

    def check(self) -> None:
        """Raise InvalidRegistrationError if no node can have registered this endpoint."""
        if not self.name or not self.host or not self.port:
            raise InvalidRegistrationError(
                f"listener {self.name!r} at {self.host!r}:{self.port}: it must have a name, a host and a port"
            )
        if not 0 <= self.security_protocol < _PROTOCOLS:
            raise InvalidRegistrationError(
                f"listener {self.name!r} has an unknown security protocol: {self.security_protocol}"
            )
