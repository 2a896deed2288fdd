"""How far an audit is, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LIST: Final = "list"
READ: Final = "read"
CONFIRM: Final = "confirm"
SUPERSEDED: Final = "superseded"
REPLICAS: Final = "replicas"
STEPS: Final = (LIST, READ, CONFIRM, SUPERSEDED, REPLICAS)


@dataclass(frozen=True)
class AuditProgress:
    step: str
    """One of `STEPS`, in that order."""
    done: int = 0
    """Of `whole`: bytes of segments in the step `read`, folders or tasks in the others. Never falls within a step."""
    whole: int = 0
    findings: int = 0
    """So far; some may turn out to be nothing."""


AuditTold = Callable[[AuditProgress], None]
