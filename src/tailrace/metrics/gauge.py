"""One number that can be read at any time."""

from __future__ import annotations

from typing import NamedTuple


class Gauge(NamedTuple):
    """In Kafka it is the MBean `kafka.<group>:type=<type>,name=<name>,<tag>=<value>…`."""

    group: str
    type: str
    name: str
    value: float
    tags: tuple[tuple[str, str], ...] = ()
