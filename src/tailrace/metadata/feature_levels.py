"""Which feature levels a release of Kafka brings, and which levels require another feature.

    release   metadata.version   levels that are new defaults of a cluster formatted with it
    3.9       21                 kraft.version 1, only where the voters are records of the log
    4.0       22, 24             group.version 1; transaction.version 2
    4.1       26                 eligible.leader.replicas.version 1
    4.2       28, 29             share.version 1; streams.version 1

The figures are those of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tailrace.metadata.versions import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    NAMES,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)


class FeatureLevel(NamedTuple):
    feature: str
    level: int

    def __str__(self) -> str:
        if self.feature == METADATA_VERSION and self.level in NAMES:
            return f"{self.feature}={self.level} ({NAMES[self.level]})"
        return f"{self.feature}={self.level}"


_DEFAULTS: Final[Mapping[str, tuple[int, int]]] = {
    KRAFT_VERSION: (1, 21),
    TRANSACTION_VERSION: (2, 24),
    GROUP_VERSION: (1, 22),
    ELR_VERSION: (1, 26),
    SHARE_VERSION: (1, 28),
    STREAMS_VERSION: (1, 29),
}
"""The default level, and the metadata.version from which on it is the default; 0 below. In Kafka's order."""
_REQUIREMENTS: Final[Mapping[FeatureLevel, tuple[FeatureLevel, ...]]] = {
    FeatureLevel(ELR_VERSION, 1): (FeatureLevel(METADATA_VERSION, 23),),
}
_RELEASE: Final = re.compile(r"([0-9]+\.[0-9]+(-IV[0-9]+)?)(\..*)?", re.DOTALL)


def default_levels(metadata_version: int) -> dict[str, int]:
    """Of every feature except metadata.version itself, also those at level 0."""
    return {name: level if metadata_version >= since else 0 for name, (level, since) in _DEFAULTS.items()}


def requirements(wanted: FeatureLevel) -> tuple[FeatureLevel, ...]:
    """The levels that others must have at least."""
    return _REQUIREMENTS.get(wanted, ())


def unmet_requirements(levels: Mapping[str, int]) -> Iterator[tuple[FeatureLevel, FeatureLevel]]:
    """Pairs of a level in `levels` and the level that it requires and that `levels` does not reach."""
    for wanted in map(FeatureLevel._make, sorted(levels.items())):
        for required in requirements(wanted):
            if levels.get(required.feature, 0) < required.level:
                yield wanted, required


def metadata_version_of(release: str) -> int | None:
    """The level that `4.0-IV1`, `4.0` (its last) or `4.0.2` (as 4.0) names; None if there is no such release."""
    matched = _RELEASE.fullmatch(release)
    if matched is None:
        return None
    name = matched[1]
    return max((level for level, each in NAMES.items() if name in (each, each.partition("-")[0])), default=None)
