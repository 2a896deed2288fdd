"""What the pages of audits and statistics say: everything that was found, in an order that helps."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.sample_reports import audit_report, findings, topic_figures, topic_stats
from tailrace.spark.auditing import rules
from tailrace.spark.auditing.audit_report import AuditReport, ordered
from tailrace.spark.auditing.figures import CodecFigures, TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.report import MOST_ROWS, audit_page
from tailrace.spark.report.html import render
from tailrace.spark.report.page import BarChart, Histogram, LineChart, Page, Section, Table
from tailrace.spark.statistics import report as stats_report
from tailrace.spark.statistics.report import stats_page
from tailrace.spark.statistics.topic_stats import Rates, SizeLimit, TimeBucket


def section(page: Page, title: str) -> Section:
    (found,) = [each for each in page.sections if each.title == title]
    return found


def chart(page: Page, title: str) -> LineChart | BarChart | Histogram | Table:
    (found,) = [
        part
        for each in page.sections
        for part in each.parts
        if isinstance(part, LineChart | BarChart | Histogram | Table) and part.title == title
    ]
    return found


def bars(page: Page, title: str) -> list[tuple[str, str]]:
    found = chart(page, title)
    assert isinstance(found, BarChart)
    return [(bar.label, bar.shown) for bar in found.bars]


def lines(page: Page, title: str) -> LineChart:
    found = chart(page, title)
    assert isinstance(found, LineChart)
    return found


def test_every_finding_is_on_the_page() -> None:
    page = audit_page(audit_report())
    table = chart(page, "All findings")
    assert isinstance(table, Table)
    assert table.has_filter
    assert len(table.rows) == len(findings())
    row = next(row for row in table.rows if row[1].text == rules.HANGING_TRANSACTION)
    assert (row[0].text, row[0].tone) == ("warning", "warning")
    assert row[5].text.endswith(".log")
    assert re.fullmatch(r"byte [\d,]+ · /var/lib/kafka/broker-\d/[a-z-]+-\d", row[5].detail)
    html = render(page)
    assert "&lt;/script&gt;&lt;script&gt;" in html
    assert html.count("<script>") == 1


def test_rules_stand_in_the_order_of_their_weight() -> None:
    page = audit_page(audit_report())
    shown = bars(page, "By rule")
    severities = [rules.RULES[rule].severity for rule, _ in shown]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert shown[0] == ("offset-index", "7")
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.title) == ("error", "31 errors and 11 warnings in 21 partitions")
    assert page.verdict.words == f"Most often offset-index: {rules.RULES['offset-index'].meaning}."


@pytest.mark.parametrize(
    ("rule", "tone", "title"),
    [
        (rules.CRC, "error", "1 error in 1 partition"),
        (rules.SUPERSEDED_KEY, "warning", "1 warning in 1 partition"),
        (rules.GONE, "good", "Nothing is wrong with these logs"),
    ],
)
def test_the_verdict_follows_the_worst_finding(rule: str, tone: str, title: str) -> None:
    page = audit_page(audit_report([Finding("/logs/a-0/x.log", "a-0", 5, rule, "words")]))
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.title) == (tone, title)


def test_a_clean_audit_says_so() -> None:
    page = audit_page(audit_report([]))
    assert page.verdict is not None
    assert page.verdict.words == f"3,009,904 batches in 1,151 segments: all {len(rules.RULES)} rules hold."
    some = dataclasses.replace(audit_report([]), rules=(rules.CRC,))
    few = audit_page(some).verdict
    assert few is not None
    assert few.words.endswith(f"1 of {len(rules.RULES)} rules hold.")


def test_an_audit_of_nothing_says_so() -> None:
    page = audit_page(AuditReport((), (), {}))
    assert page.verdict is not None
    assert page.verdict.title == "There was nothing to audit"
    assert [each.title for each in page.sections] == ["Findings", "What was audited"]
    render(page)


def test_too_many_findings_leave_some_of_each_rule() -> None:
    many = [Finding(f"/logs/a-0/{at}.log", "a-0", at, rules.CRC, "words") for at in range(3 * MOST_ROWS)]
    few = [Finding("/logs/a-0/9.index", "a-0", 1, rules.OFFSET_INDEX, "words")]
    table = chart(audit_page(audit_report(many + few)), "Findings")
    assert isinstance(table, Table)
    assert len(table.rows) <= MOST_ROWS
    assert {row[1].text for row in table.rows} == {rules.CRC, rules.OFFSET_INDEX}
    assert table.words == f"{len(table.rows):,} of {3 * MOST_ROWS + 1:,}; --json has them all."


def test_charts_hold_what_was_counted() -> None:
    report = audit_report()
    page = audit_page(report)
    total = sum(figures.bytes for figures in report.figures.values())
    size = lines(page, "Size over time")
    assert [series.name for series in size.series] == [
        *("page-views", "orders", "audit-trail", "payments", "sessions"),
        "3 other topics",
    ]
    assert sum(series.points[-1][1] for series in size.series) == total
    rate = lines(page, "Bytes a second")
    assert sum(y for _, y in rate.series[0].points) * rate.x_width == pytest.approx(total)
    batches = chart(page, "Batch sizes")
    assert isinstance(batches, Histogram)
    assert sum(each.count for each in batches.bins) == sum(sum(each.batch_bytes) for each in report.figures.values())
    assert ("zstd", "4.10×") in bars(page, "Compression")
    assert bars(page, "Records of the 10 most frequent keys")[0][0] == "page-views"
    colors = {series.name: series.color for series in lines(page, "Key skew").series}
    assert colors == {series.name: at for at, series in enumerate(size.series[:5])}


def test_one_topic_of_one_batch() -> None:
    figures = TopicFigures(files=1, bytes=70, batches=1, records=1)
    figures.codecs["none"] = CodecFigures(1, 1, 9, 9)
    figures.minutes[29_900_000] = (70, 1)
    figures.batch_bytes[7] = figures.batch_records[1] = 1
    page = audit_page(AuditReport(("/logs",), (), {"a": figures}, 1, 1, 1))
    assert page.title == "Audit of /logs"
    assert len(lines(page, "Bytes a second").series[0].points) == 1
    assert lines(page, "Key skew").series == []
    render(page)


NUMBERS = st.integers(-(2**63), 2**63)
COUNTS = st.integers(0, 2**63)


@given(
    st.dictionaries(NUMBERS, st.tuples(COUNTS, COUNTS), max_size=20),
    st.lists(COUNTS, min_size=40, max_size=40),
    st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
    st.lists(st.tuples(st.text(max_size=9), st.none() | NUMBERS, st.sampled_from(sorted(rules.RULES))), max_size=9),
)
@settings(max_examples=examples(60))
def test_whatever_was_counted_becomes_a_page(
    minutes: dict[int, tuple[int, int]],
    bins: list[int],
    codec: tuple[int, int, int, int],
    found: list[tuple[str, int | None, str]],
) -> None:
    figures = TopicFigures(batches=1, minutes=minutes, batch_bytes=bins, batch_records=bins, dropped_minutes=3)
    figures.codecs["lz4"] = CodecFigures(*codec)
    told = [Finding(text, text, at, rule, text, at) for text, at, rule in found]
    render(audit_page(AuditReport(("",), ordered(told), {"a": figures, "b": TopicFigures()}, started_ms=codec[0])))


def test_the_page_of_a_topic_holds_its_statistics() -> None:
    stats = topic_stats()
    page = stats_page(stats)
    assert page.title == "orders"
    assert [each.title for each in page.sections] == [
        *("Over time", "Keys", "Sizes", "What a change would bring", "Partitions", "Producers and headers"),
    ]
    assert bars(page, "Hot keys")[0] == (stats.keys.hot[0].text, "2.4 %")
    assert [name for name, _ in bars(page, "With another codec")] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [name for name, _ in bars(page, "Retention by time")] == ["1h", "6h", "1d", "3d", "7d", "30d"]
    assert bars(page, "Retention by size")[0][0] == "1 MB"
    compaction = chart(page, "Compaction")
    assert isinstance(compaction, BarChart)
    assert [bar.part for bar in compaction.bars] == [stats.stored_bytes // 9, stats.stored_bytes // 4]
    curve = lines(page, "Key skew").series[0].points
    assert curve[0] == (0, 0)
    assert all(x <= y + 1e-9 for x, y in curve)
    render(page)


def test_a_page_shows_the_largest_of_very_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_report, "MOST_ROWS", 2)
    stats = topic_stats()
    partitions = tuple(
        dataclasses.replace(stats.partitions[n], stored_bytes=size) for n, size in enumerate((5, 7, 1, 6))
    )
    table = chart(stats_page(dataclasses.replace(stats, partitions=partitions)), "The largest partitions")
    assert isinstance(table, Table)
    assert table.words == "2 more are in --json."
    assert [row[0].text for row in table.rows] == ["1", "3"]


def test_time_in_which_nothing_was_written_is_drawn_as_zero() -> None:
    buckets = (TimeBucket(60_000, 30, 300, 0), TimeBucket(240_000, 60, 600, 0))
    stats = dataclasses.replace(topic_stats(), rates=Rates(60_000, buckets, 0, 1.0, 1.0, 1.0))
    points = lines(stats_page(stats), "Records a second").series[0].points
    assert points == [(60.0, 0.5), (120.0, 0.0), (180.0, 0.0), (240.0, 1.0)]
    far = dataclasses.replace(stats, rates=Rates(1, (buckets[0], TimeBucket(10**14, 1, 1, 0)), 0, 1.0, 1.0, 1.0))
    assert len(lines(stats_page(far), "Records a second").series[0].points) == 2


def test_what_a_limit_of_size_keeps_of_records_that_all_have_one_time() -> None:
    stats = topic_stats()
    limits = (SizeLimit(10**6, 10**6, 0.25, None),)
    page = stats_page(dataclasses.replace(stats, retention=dataclasses.replace(stats.retention, sizes=limits)))
    parts = [part for section in page.sections for part in section.parts]
    (chart,) = [part for part in parts if isinstance(part, BarChart) and part.title == "Retention by size"]
    assert [bar.detail for bar in chart.bars] == ["keeps 25 %"]


def test_an_empty_topic_has_a_page() -> None:
    stats = topic_stats()
    nothing = dataclasses.replace(stats, partitions=(), records=0, batches=0, stored_bytes=0, skipped=("one <file>",))
    page = stats_page(nothing)
    assert [each.title for each in page.sections] == ["Partitions", "Producers and headers", "Passed over"]
    assert "one &lt;file&gt;" in render(page)


def test_figures_of_samples_are_themselves() -> None:
    """The topic that everything above is about has what its name promises."""
    figures = topic_figures("orders")
    assert figures.records == sum(records for _, records in figures.minutes.values())
    assert figures.bytes == sum(stored for stored, _ in figures.minutes.values())
    assert len(section(audit_page(audit_report()), "Topics").parts) == 1
