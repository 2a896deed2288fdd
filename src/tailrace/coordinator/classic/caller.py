"""Who sends a request to the group coordinator."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    client_id: str
    client_host: str
    """As Kafka shows it, with a slash before the address."""
    api_version: int
