"""Who is to own which partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tailrace.coordinator.consumer.assignors.range import assign_ranges
from tailrace.coordinator.consumer.assignors.spec import Assignor
from tailrace.coordinator.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that group.consumer.assignors lists and members ask for."""

_CLASSES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Kafka's names for them, which may stand in its settings, too."""


def configured_assignors(settings: Iterable[str]) -> tuple[str, ...]:
    """The names of those that group.consumer.assignors asks for, the default first; of what is not here, none."""
    named = (_CLASSES.get(name, name) for name in settings)
    return tuple(dict.fromkeys(name for name in named if name in ASSIGNORS)) or tuple(ASSIGNORS)
