"""What an audit says: one sentence about one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from tailrace.spark.auditing.rules import RULES

COLUMNS: Final = ("file", "partition", "offset", "rule", "severity", "words", "position")


@dataclass(frozen=True)
class Finding:
    """Of a rule of `rules.RULES`."""

    file: str
    """Its path; the folder's where it is about no single file."""
    partition: str | None
    """topic-number; None where it is about a log directory."""
    offset: int | None
    """Of the first record that it is about; None where it is about none, or nobody can say."""
    rule: str
    words: str
    """What was found and what should be there, in one line, without the file's name."""
    position: int | None = None
    """In the file, in bytes."""

    @property
    def severity(self) -> str:
        return RULES[self.rule].severity

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"severity": self.severity}


Report = Callable[[Finding], None]
