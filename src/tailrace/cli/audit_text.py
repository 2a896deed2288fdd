"""An audit on a terminal: what is wrong where, and what was read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from tailrace.cli.durations import shown_duration
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.tables import Cell, Column, Screen

if TYPE_CHECKING:
    from tailrace.spark.auditing.audit_report import AuditReport
    from tailrace.spark.auditing.finding import Finding
    from tailrace.spark.auditing.rules import Rule

STYLES: Final = {"error": "bold red", "warning": "bold yellow", "note": "cyan"}
MOST_FINDINGS: Final = 100
RULE_COLUMNS: Final = (Column("rule"), Column(""), Column("what it is about", is_folded=True))
COUNT_COLUMNS: Final = (Column("rule"), Column(""), Column("findings", is_number=True), Column("", is_folded=True))
TOPIC_COLUMNS: Final = (
    Column("topic", is_wide=True),
    Column("segments", is_number=True),
    Column("batches", is_number=True),
    Column("records", is_number=True),
    Column("size", is_number=True),
)
MOST_TOPICS: Final = 20


def show_audit(found: AuditReport, page: str | None) -> None:
    screen = Screen()
    show_findings(screen, found)
    show_topics(screen, found)
    show_counts(screen, found)
    screen.facts(facts(found, page))
    screen.blank()
    screen.console.print(verdict(found))


def show_findings(screen: Screen, found: AuditReport) -> None:
    for each in found.findings[:MOST_FINDINGS]:
        screen.console.print(finding_text(each), soft_wrap=True)
    left = len(found.findings) - MOST_FINDINGS
    if left > 0:
        screen.note(f"and {left:,} more: --json has them all", "yellow")
    if found.findings:
        screen.blank()


def finding_text(finding: Finding) -> Text:
    """`error crc: file at position 4711, offset 17: words`"""
    place = "" if finding.position is None else f" at position {finding.position}"
    offset = "" if finding.offset is None else f", offset {finding.offset}"
    return Text.assemble(
        (finding.severity, STYLES[finding.severity]),
        (f" {finding.rule}", "bold"),
        f": {printable(finding.file)}{place}{offset}: {printable(finding.words)}",
    )


def show_topics(screen: Screen, found: AuditReport) -> None:
    largest = sorted(found.figures.items(), key=lambda item: (-item[1].bytes, item[0]))
    rows = [
        (name, f"{each.files:,}", f"{each.batches:,}", f"{each.records:,}", shown_size(each.bytes))
        for name, each in largest[:MOST_TOPICS]
    ]
    if rows:
        screen.table(TOPIC_COLUMNS, rows)
        if len(largest) > MOST_TOPICS:
            screen.note(f"and {counted(len(largest) - MOST_TOPICS, 'topic')} more")
        screen.blank()


def show_counts(screen: Screen, found: AuditReport) -> None:
    from tailrace.spark.auditing.rules import RULES

    rows: list[Sequence[Cell]] = [
        (name, severity_text(RULES[name].severity), f"{count:,}", Text(RULES[name].meaning, style="dim"))
        for name, count in found.by_rule.items()
    ]
    if rows:
        screen.table(COUNT_COLUMNS, rows)
        screen.blank()


def facts(found: AuditReport, page: str | None) -> list[tuple[str, Cell]]:
    segments = counted(found.segments, "segment")
    if found.skipped_segments:
        segments += f", {found.skipped_segments:,} of them known from an earlier audit"
    directories = "1 directory" if found.directories == 1 else f"{found.directories:,} directories"
    rate = found.read_bytes / max(found.seconds, 1e-3)
    pairs: list[tuple[str, Cell]] = [
        ("audited", f"{counted(found.partitions, 'partition')} in {directories}"),
        ("", f"{segments}, {shown_size(found.bytes)}"),
        ("took", f"{shown_duration(found.seconds)}, {shown_size(round(rate))}/s"),
    ]
    if page is not None:
        pairs.append(("report", os.path.abspath(page)))
    return pairs


def verdict(found: AuditReport) -> Text:
    counts = found.by_severity
    notes = f", {counted(counts['note'], 'note')}" if counts["note"] else ""
    if found.is_clean:
        return Text.assemble(("✓ ", "bold green"), f"nothing is wrong{notes}")
    parts = [counted(counts[name], name) for name in ("error", "warning") if counts[name]]
    return Text.assemble(("✗ ", "bold red"), f"{', '.join(parts)}{notes}")


def severity_text(severity: str) -> Text:
    return Text(severity, style=STYLES[severity])


def show_rules(rules: Sequence[Rule]) -> None:
    screen = Screen()
    screen.table(RULE_COLUMNS, [(rule.name, severity_text(rule.severity), rule.meaning) for rule in rules])
