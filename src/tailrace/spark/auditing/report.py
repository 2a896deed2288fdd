"""The page of an audit: what was found, and what the logs look like.

`page_parts` has what can be drawn of figures alone; here is what is said, and in which order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.page_parts import batch_section, key_section, time_section, topic_section
from tailrace.spark.auditing.rules import ERROR, NOTE, RULES, WARNING
from tailrace.spark.report.amounts import NOTHING, counted, moment, short, shown, size, span, whole
from tailrace.spark.report.page import (
    Bar,
    BarChart,
    Cell,
    Column,
    Facts,
    Folded,
    Page,
    Section,
    Table,
    Tile,
    Tone,
    Verdict,
)

if TYPE_CHECKING:
    from tailrace.spark.auditing.audit_report import AuditReport

MOST_ROWS: Final = 1500
_LEAST_OF_A_RULE: Final = 25
_SHORT_NAME: Final = 24
"""So many characters of a partition's name stay on one line."""
_TONES: Final[dict[str, Tone]] = {ERROR: "error", WARNING: "warning", NOTE: "note"}
_RANKS: Final = {ERROR: 0, WARNING: 1, NOTE: 2}
_STEPS: Final = {
    "list": "Listing folders",
    "read": "Reading segments",
    "confirm": "Looking again",
    "superseded": "Superseded keys",
    "replicas": "Comparing replicas",
}


def audit_page(report: AuditReport) -> Page:
    figures = report.figures
    sections = [_findings(report)]
    if any(each.batches for each in figures.values()):
        sections += [time_section(figures), batch_section(figures), key_section(figures), topic_section(figures)]
    sections.append(_audited(report))
    paths = ", ".join(report.paths[:3]) + (f" and {len(report.paths) - 3} more" if len(report.paths) > 3 else "")
    many = len(report.paths) != 1
    return Page(
        title=f"Audit of {counted(len(report.paths), 'place')}" if many else f"Audit of {paths}",
        kind="Tailrace · log audit",
        subtitle=f"{moment(report.started_ms / 1000)} UTC" + (f" · {paths}" if many and paths else ""),
        verdict=_verdict(report),
        tiles=_tiles(report),
        sections=sections,
        footer="Made by tailrace pipeline audit. Times are UTC. Nothing in the log directories was changed.",
    )


def _verdict(report: AuditReport) -> Verdict:
    errors, warnings = report.by_severity[ERROR], report.by_severity[WARNING]
    if report.is_clean and not report.segments:
        return Verdict("note", "There was nothing to audit", "No segment of a log was found in these places.")
    if report.is_clean:
        batches = sum(each.batches for each in report.figures.values())
        what = f"{counted(batches, 'batch', 'batches')} in {counted(report.segments, 'segment')}"
        held = f"all {len(RULES)} rules hold" if len(report.rules) >= len(RULES) else f"{_rules_held(report)} hold"
        return Verdict("good", "Nothing is wrong with these logs", f"{what}: {held}.")
    found = [counted(errors, "error")] if errors else []
    found += [counted(warnings, "warning")] if warnings else []
    places = {finding.partition for finding in report.findings if finding.severity != NOTE and finding.partition}
    where = f" in {counted(len(places), 'partition')}" if places else ""
    worst = ERROR if errors else WARNING
    return Verdict(_TONES[worst], " and ".join(found) + where, _most_often(report, worst))


def _most_often(report: AuditReport, severity: str) -> str:
    counts = [(rule, count) for rule, count in report.by_rule.items() if RULES[rule].severity == severity]
    rule, most = counts[0]
    if len(counts) == 1:
        return f"{rule}: {RULES[rule].meaning}."
    if most == counts[1][1]:
        first = ", ".join(each for each, _ in counts[:4])
        return f"By {len(counts)} rules: {first}{', …' if len(counts) > 4 else '.'}"
    return f"Most often {rule}: {RULES[rule].meaning}."


def _tiles(report: AuditReport) -> list[Tile]:
    figures = report.figures.values()
    batches, records = sum(each.batches for each in figures), sum(each.records for each in figures)
    errors, warnings, notes = (report.by_severity[each] for each in (ERROR, WARNING, NOTE))
    worst: Tone = "error" if errors else "warning" if warnings else "good"
    earlier = f", {whole(report.skipped_segments)} audited before" if report.skipped_segments else ""
    speed = report.read_bytes / report.seconds if report.seconds > 0 else 0.0
    detail = counted(errors, "error") + ", " + counted(warnings, "warning")
    return [
        Tile("Findings", whole(errors + warnings), detail + (f", {counted(notes, 'note')}" if notes else ""), worst),
        Tile("Log", size(report.bytes), f"{size(report.read_bytes)} read now"),
        Tile("Records", short(records), f"in {counted(batches, 'batch', 'batches')}"),
        Tile("Partitions", whole(report.partitions), f"of {counted(len(report.figures), 'topic')}"),
        Tile("Segments", whole(report.segments), f"in {_directories(report)}{earlier}"),
        Tile("Speed", shown(speed, "bytes/s"), f"{span(report.seconds)} in all"),
    ]


def _directories(report: AuditReport) -> str:
    return counted(report.directories, "directory", "directories")


def _findings(report: AuditReport) -> Section:
    if not report.findings:
        return Section("Findings", [_rules(report)], "None. These are the rules that were held against every byte.")
    bars = [
        Bar(rule, count, whole(count), hint=RULES[rule].meaning, tone=_TONES[RULES[rule].severity])
        for rule, count in sorted(report.by_rule.items(), key=lambda item: _RANKS[RULES[item[0]].severity])
    ]
    partitions = Counter(finding.partition or "log directory" for finding in report.findings).most_common(12)
    others = len({finding.partition for finding in report.findings}) - len(partitions)
    where = [Bar(partition, count, whole(count)) for partition, count in partitions]
    return Section(
        "Findings",
        [
            BarChart("By rule", bars, "Red: damaged or missing. Yellow: somebody should look. Grey: worth knowing."),
            BarChart("By partition", where, f"And {counted(others, 'other')}." if others > 0 else ""),
            _table(report.findings),
            _rules(report),
        ],
    )


def _table(findings: tuple[Finding, ...]) -> Table:
    kept = _chosen(findings)
    columns = [
        Column("Severity", "tone"),
        Column("Rule"),
        Column("Partition"),
        Column("Offset", "number"),
        Column("What"),
        Column("File", "code"),
    ]
    words = "" if len(kept) == len(findings) else f"{len(kept):,} of {len(findings):,}; --json has them all."
    return Table("All findings" if not words else "Findings", columns, [_row(each) for each in kept], words, True)


def _chosen(findings: tuple[Finding, ...]) -> list[Finding]:
    """As many as a page can bear, of each rule some."""
    if len(findings) <= MOST_ROWS:
        return list(findings)
    rules = len({finding.rule for finding in findings})
    quota = max(MOST_ROWS // rules, _LEAST_OF_A_RULE)
    seen: Counter[str] = Counter()
    kept = []
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= quota:
            kept.append(finding)
    return kept


def _row(finding: Finding) -> list[Cell]:
    folder, _, name = finding.file.rpartition("/")
    place = "" if finding.position is None else f"byte {finding.position:,}"
    severity = finding.severity
    return [
        Cell(severity, sort=_RANKS[severity], tone=_TONES[severity]),
        Cell(finding.rule, is_whole=True),
        Cell(finding.partition or NOTHING, is_whole=len(finding.partition or "") <= _SHORT_NAME),
        Cell(NOTHING if finding.offset is None else whole(finding.offset), sort=_number(finding.offset)),
        Cell(finding.words),
        Cell(name, detail=" · ".join(each for each in (place, folder) if each)),
    ]


def _number(value: int | None) -> float:
    return -1.0 if value is None else float(value)


def _rules(report: AuditReport) -> Folded:
    """Which there are, and what each says: for readers who meet a name for the first time."""
    counts = report.by_rule
    rows = [
        [
            Cell(RULES[name].severity, tone=_TONES[RULES[name].severity]),
            Cell(name),
            Cell(RULES[name].meaning),
            Cell(whole(counts.get(name, 0)), sort=float(counts.get(name, 0))),
        ]
        for name in report.rules
        if name in RULES
    ]
    columns = [Column("Severity", "tone"), Column("Rule"), Column("Meaning"), Column("Findings", "number")]
    return Folded(Table(f"The {len(rows)} rules", columns, rows))


def _rules_held(report: AuditReport) -> str:
    return f"{len(report.rules)} of {len(RULES)} rules"


def _audited(report: AuditReport) -> Section:
    skipped = f" ({whole(report.skipped_segments)} of them audited before)" if report.skipped_segments else ""
    items = [
        ("Paths", "\n".join(report.paths) or NOTHING),
        ("Started", f"{moment(report.started_ms / 1000)} UTC"),
        ("Took", span(report.seconds)),
        ("Log directories", whole(report.directories)),
        ("Partitions", f"{whole(report.partitions)} (each replica counts)"),
        ("Segments", whole(report.segments) + skipped),
        ("Size", f"{size(report.bytes)}; {size(report.read_bytes)} were read now"),
        ("Rules", _rules_held(report)),
    ]
    steps = [
        Bar(_STEPS.get(step, step), seconds, span(seconds)) for step, seconds in report.step_seconds.items() if seconds
    ]
    return Section("What was audited", [Facts("The audit", items), BarChart("Where the time went", steps)])
