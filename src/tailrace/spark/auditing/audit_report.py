"""What an audit found, counted and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import COLUMNS, Finding
from tailrace.spark.auditing.rules import ERROR, NOTE, RULES, WARNING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "file string, partition string, offset bigint, rule string, severity string, words string, position bigint"
_SEVERITIES = (ERROR, WARNING, NOTE)


@dataclass(frozen=True)
class AuditReport:
    paths: tuple[str, ...]
    """As they were given."""
    findings: tuple[Finding, ...]
    """Errors first, then by file and position. Notes only where they were asked for."""
    figures: Mapping[str, TopicFigures]
    """By topic."""
    directories: int = 0
    partitions: int = 0
    """Folders: each replica of a partition counts."""
    segments: int = 0
    """All that there were."""
    skipped_segments: int = 0
    """Of these, those whose results of an earlier audit still hold."""
    bytes: int = 0
    """Of all segments."""
    read_bytes: int = 0
    """Of those that were read now."""
    started_ms: int = 0
    seconds: float = 0.0
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    """By step of `progress.STEPS`."""
    rules: tuple[str, ...] = tuple(RULES)
    """That were held against the logs."""

    @property
    def by_rule(self) -> dict[str, int]:
        """How many findings each rule has; only those that have any, most first."""
        return dict(Counter(finding.rule for finding in self.findings).most_common())

    @property
    def by_severity(self) -> dict[str, int]:
        found = Counter(finding.severity for finding in self.findings)
        return {severity: found[severity] for severity in _SEVERITIES}

    @property
    def is_clean(self) -> bool:
        """Nothing but notes."""
        return all(finding.severity == NOTE for finding in self.findings)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The findings as rows (file, partition, offset, rule, severity, words, position)."""
        rows = [tuple(finding.to_dict()[column] for column in COLUMNS) for finding in self.findings]
        return spark.createDataFrame(rows, _SCHEMA)

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Figures are not in it but for their sums."""
        return {
            "paths": list(self.paths),
            "directories": self.directories,
            "partitions": self.partitions,
            "segments": self.segments,
            "skipped_segments": self.skipped_segments,
            "bytes": self.bytes,
            "read_bytes": self.read_bytes,
            "started_ms": self.started_ms,
            "seconds": round(self.seconds, 3),
            "step_seconds": {step: round(seconds, 3) for step, seconds in self.step_seconds.items()},
            "is_clean": self.is_clean,
            "by_severity": self.by_severity,
            "by_rule": self.by_rule,
            "topics": {topic: _sums(figures) for topic, figures in sorted(self.figures.items())},
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def write_html(self, path: str) -> None:
        """One file that needs no other, and no network. ReportError where it cannot be written."""
        from tailrace.spark.auditing.report import audit_page
        from tailrace.spark.report.html import write

        write(audit_page(self), path)


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """As a report has them, each once."""
    return tuple(sorted(dict.fromkeys(findings), key=_place))


def _place(finding: Finding) -> tuple[int, str, int, int, str, str]:
    severity = _SEVERITIES.index(finding.severity)
    position = -1 if finding.position is None else finding.position
    offset = -1 if finding.offset is None else finding.offset
    return severity, finding.file, position, offset, finding.rule, finding.words


def _sums(figures: TopicFigures) -> dict[str, int]:
    return {
        "segments": figures.files,
        "bytes": figures.bytes,
        "batches": figures.batches,
        "records": figures.records,
    }
