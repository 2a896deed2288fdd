"""Statistics of a topic on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from tailrace.cli.demo_view import sparkline
from tailrace.cli.durations import shown_duration
from tailrace.cli.group_text import bar
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.table_text import moment
from tailrace.cli.tables import NOTHING, Cell, Column, Screen

if TYPE_CHECKING:
    from tailrace.spark.statistics.topic_stats import Compacted, Histogram, TopicStats

BAR_WIDTH: Final = 16
LINE_WIDTH: Final = 60
MOST_PARTITIONS: Final = 16
MOST_NAMES: Final = 10
LATEST_MS: Final = 253_402_300_799_999
PARTITION_COLUMNS: Final = (
    Column("partition", is_number=True),
    Column("from", is_number=True),
    Column("to", is_number=True),
    Column("records", is_number=True),
    Column("size", is_number=True),
    Column(""),
)
SIZE_COLUMNS: Final = (
    Column(""),
    *(Column(name, is_number=True) for name in ("least", "mean", "p50", "p90", "p99", "greatest")),
)
KEY_COLUMNS: Final = (
    Column("hot keys", is_wide=True),
    Column("records", is_number=True),
    Column("share", is_number=True),
    Column("size", is_number=True),
    Column(""),
)
PRODUCER_COLUMNS: Final = (
    Column("producer", is_number=True),
    Column("records", is_number=True),
    Column("batches", is_number=True),
    Column("in transactions", is_number=True),
    Column("last"),
)
HEADER_COLUMNS: Final = (
    Column("header", is_wide=True),
    Column("records", is_number=True),
    Column("size", is_number=True),
)
TRIAL_COLUMNS: Final = (
    Column("codec"),
    Column("in use", is_number=True),
    Column("whole topic", is_number=True),
    Column("saves", is_number=True),
    Column("to pack", is_number=True),
    Column("to unpack", is_number=True),
)
RETENTION_COLUMNS: Final = (
    Column("retention"),
    Column("keeps", is_number=True),
    Column("of it", is_number=True),
    Column(""),
)


def show_stats(found: TopicStats, page: str | None) -> None:
    screen = Screen()
    screen.heading(found.topic, found.source)
    screen.facts(facts(found))
    for columns, rows in tables(found):
        if rows:
            screen.blank()
            screen.table(columns, rows)
    screen.blank()
    for sentence in found.skipped:
        screen.note(f"passed over: {sentence}", "yellow")
    screen.done(f"{counted(found.records, 'record')} in {shown_duration(found.seconds)}")
    if page is not None:
        screen.facts([("report", os.path.abspath(page))])


def facts(found: TopicStats) -> list[tuple[str, Cell]]:
    keys = found.keys
    stored = f"{shown_size(found.stored_bytes)} in {counted(found.batches, 'batch', 'es')}"
    if found.compression_ratio > 1.005:
        stored += f", compressed by {found.compression_ratio:.2f}"
    pairs: list[tuple[str, Cell]] = [
        ("records", f"{found.records:,}, {shown_size(found.payload_bytes)} of keys, values and headers"),
        ("stored", stored),
        ("time", f"{shown_moment(found.first_ms)} to {shown_moment(found.last_ms)}"),
        ("rate", rate_text(found)),
        ("keys", f"{keys.distinct:,}, {keys.once:,} of them once; skew {keys.gini:.2f} (0 even, 1 one has all)"),
    ]
    if keys.null_records:
        pairs.append(("without a key", counted(keys.null_records, "record")))
    if keys.several_partitions:
        text = f"{counted(keys.several_partitions, 'key')}: their order is that of no single partition"
        pairs.append(("in several partitions", Text(text, style="yellow")))
    if found.null_values:
        pairs.append(("null values", f"{found.null_values:,}, {found.tombstones:,} of them tombstones"))
    if found.aborted_records:
        pairs.append(("aborted", counted(found.aborted_records, "record")))
    if found.headers.records:
        shown = f"{found.headers.count:,} in {counted(found.headers.records, 'record')}"
        pairs.append(("headers", f"{shown}, {shown_size(found.headers.bytes)}"))
    return [*pairs, ("compaction", "\n".join(compaction_lines(found)))]


def rate_text(found: TopicStats) -> Text:
    rates = found.rates
    text = Text(f"{rates.mean_records_per_s:,.1f} records/s, {rates.busiest_records_per_s:,.1f} at the busiest")
    if len(rates.buckets) > 1:
        text.append("\n")
        text.append(sparkline(spread([(each.start_ms, each.records) for each in rates.buckets]), LINE_WIDTH), "cyan")
    return text


def spread(buckets: Sequence[tuple[int, int]]) -> list[float]:
    """As many sums as a line has room for, over the whole time."""
    first, last = buckets[0][0], buckets[-1][0]
    sums = [0.0] * LINE_WIDTH
    for start_ms, records in buckets:
        sums[min((start_ms - first) * LINE_WIDTH // max(last - first, 1), LINE_WIDTH - 1)] += records
    return sums


def compaction_lines(found: TopicStats) -> list[str]:
    gain = found.compaction
    about = "" if gain.is_exact else "about "
    lines = [f"would gain {about}{gained(gain.whole)}, if all of it were cleaned"]
    if gain.closed is not None:
        lines.append(f"would gain {about}{gained(gain.closed)} now, without the segments that are written")
    if gain.tombstones:
        lines.append(f"{counted(gain.tombstones, 'tombstone')} would go later")
    if gain.keyless_records:
        lines.append(f"{counted(gain.keyless_records, 'record')} without a key would be lost")
    return lines


def gained(compacted: Compacted) -> str:
    return f"{shown_size(compacted.gained_bytes)} ({compacted.share:.0%}), {compacted.removed_records:,} records"


def tables(found: TopicStats) -> list[tuple[Sequence[Column], list[Sequence[Cell]]]]:
    return [
        (PARTITION_COLUMNS, partition_rows(found)),
        (SIZE_COLUMNS, size_rows(found)),
        (KEY_COLUMNS, key_rows(found)),
        (HEADER_COLUMNS, header_rows(found)),
        (PRODUCER_COLUMNS, producer_rows(found)),
        (TRIAL_COLUMNS, trial_rows(found)),
        (RETENTION_COLUMNS, retention_rows(found)),
    ]


def partition_rows(found: TopicStats) -> list[Sequence[Cell]]:
    most = max((each.stored_bytes for each in found.partitions), default=0)
    rows: list[Sequence[Cell]] = [
        (
            str(each.partition),
            f"{each.start:,}",
            f"{each.end:,}",
            f"{each.records:,}",
            shown_size(each.stored_bytes),
            bar(each.stored_bytes, most, BAR_WIDTH),
        )
        for each in found.partitions[:MOST_PARTITIONS]
    ]
    left = len(found.partitions) - MOST_PARTITIONS
    return [*rows, (f"+{left}", "", "", "", "", "")] if left > 0 else rows


def size_rows(found: TopicStats) -> list[Sequence[Cell]]:
    named = (
        ("key, bytes", found.key_sizes),
        ("value, bytes", found.value_sizes),
        ("batch, bytes", found.batch_sizes),
        ("batch, records", found.batch_records),
    )
    return [size_row(name, sizes) for name, sizes in named if sizes.count]


def size_row(name: str, sizes: Histogram) -> Sequence[Cell]:
    quantiles = [f"{sizes.quantiles[each]:,}" if each in sizes.quantiles else "" for each in ("p50", "p90", "p99")]
    return (name, f"{sizes.least:,}", f"{sizes.mean:,.1f}", *quantiles, f"{sizes.greatest:,}")


def key_rows(found: TopicStats) -> list[Sequence[Cell]]:
    most = max((each.records for each in found.keys.hot), default=0)
    return [
        (
            each.text,
            f"{each.records:,}",
            f"{each.share:.1%}",
            shown_size(each.payload_bytes),
            bar(each.records, most, BAR_WIDTH),
        )
        for each in found.keys.hot
    ]


def header_rows(found: TopicStats) -> list[Sequence[Cell]]:
    return [(each.name, f"{each.records:,}", shown_size(each.bytes)) for each in found.headers.names[:MOST_NAMES]]


def producer_rows(found: TopicStats) -> list[Sequence[Cell]]:
    return [
        (
            "not idempotent" if each.producer_id is None else str(each.producer_id),
            f"{each.records:,}",
            f"{each.batches:,}",
            f"{each.transactional_records:,}" if each.transactional_records else "",
            shown_moment(each.last_ms),
        )
        for each in found.producers.listed[:MOST_NAMES]
    ]


def trial_rows(found: TopicStats) -> list[Sequence[Cell]]:
    used = {each.codec: each.stored_bytes for each in found.codecs}
    return [
        (
            each.codec,
            shown_size(used[each.codec]) if each.codec in used else "",
            shown_size(each.estimated_bytes),
            saved_text(each.saved_bytes, found.stored_bytes),
            speed(each.pack_ns_per_byte),
            speed(each.unpack_ns_per_byte),
        )
        for each in found.codec_trials.trials
    ]


def saved_text(saved: int, whole: int) -> Text:
    share = saved / whole if whole else 0.0
    return Text(f"{share:+.0%}", style="green" if share > 0.005 else "red" if share < -0.005 else "dim")


def speed(ns_per_byte: float) -> str:
    """Of one core."""
    return f"{1e3 / ns_per_byte:,.0f} MB/s" if ns_per_byte > 0 else NOTHING


def retention_rows(found: TopicStats) -> list[Sequence[Cell]]:
    whole = found.stored_bytes
    times: list[Sequence[Cell]] = [
        (each.name, shown_size(each.kept_bytes), f"{each.share:.0%}", bar(each.kept_bytes, whole, BAR_WIDTH))
        for each in found.retention.times
    ]
    sizes: list[Sequence[Cell]] = [
        (
            f"{decimal_size(each.limit_bytes)} a partition",
            shown_size(each.kept_bytes),
            f"{each.share:.0%}",
            bar(each.kept_bytes, whole, BAR_WIDTH),
        )
        for each in found.retention.sizes
    ]
    return [*times, *sizes]


def decimal_size(limit_bytes: int) -> str:
    """Limits are round numbers of megabytes and gigabytes."""
    gigabytes, rest = divmod(limit_bytes, 10**9)
    return f"{gigabytes:,} GB" if gigabytes and not rest else f"{limit_bytes / 10**6:,g} MB"


def shown_moment(at_ms: int | None) -> str:
    return NOTHING if at_ms is None or not 0 <= at_ms <= LATEST_MS else moment(at_ms)
