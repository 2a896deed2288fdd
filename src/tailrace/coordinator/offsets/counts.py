"""What has happened to the offsets of all groups that a broker coordinates, since it started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class OffsetCounts:
    commits: int = 0
    expirations: int = 0
    deletions: int = 0
