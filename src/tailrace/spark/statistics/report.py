"""The page of a topic's statistics. `page_parts` draws what compaction, codecs and retention would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.report.amounts import NOTHING, counted, moment, ratio, share, short, shown, size, span, whole
from tailrace.spark.report.bins import merged
from tailrace.spark.report.page import (
    Bar,
    BarChart,
    Cell,
    Column,
    Facts,
    Histogram,
    LineChart,
    Page,
    Section,
    Series,
    Table,
    Tile,
    Unit,
)
from tailrace.spark.statistics.page_parts import change_section

if TYPE_CHECKING:
    from tailrace.spark.statistics.topic_stats import Histogram as Sizes
    from tailrace.spark.statistics.topic_stats import PartitionStats, TimeBucket, TopicStats

MOST_SLOTS: Final = 480
"""Time in which nothing was written is drawn as zeros, unless it would be more of them than this."""
MOST_BARS: Final = 24
MOST_ROWS: Final = 2_000
"""Of partitions, the largest: a page with many more opens slowly."""


def stats_page(stats: TopicStats) -> Page:
    sections = [_over_time(stats), _keys(stats), _sizes(stats)] if stats.records else []
    if stats.stored_bytes:
        sections.append(change_section(stats))
    sections += [_partitions(stats), _writers(stats)]
    if stats.skipped:
        rows = [[Cell(words)] for words in stats.skipped]
        sections.append(Section("Passed over", [Table("What could not be read", [Column("What")], rows)]))
    return Page(
        title=stats.topic,
        kind="Tailrace · topic statistics",
        subtitle=f"{stats.source} · {_when(stats.first_ms)} to {_when(stats.last_ms)} UTC",
        tiles=_tiles(stats),
        sections=sections,
        footer=f"Made by tailrace pipeline stats in {span(stats.seconds)}. Times are UTC.",
    )


def _tiles(stats: TopicStats) -> list[Tile]:
    aborted = f", and {whole(stats.aborted_records)} aborted" if stats.aborted_records else ""
    packed = f"{ratio(stats.compression_ratio)} compressed, {size(stats.plain_bytes)} plain"
    keys = f"{share(stats.keys.null_records / stats.records)} of records have none" if stats.records else ""
    rate = f"{shown(stats.rates.busiest_records_per_s, 'count/s')} in the busiest {_width(stats)}"
    return [
        Tile("Records", short(stats.records), f"in {counted(stats.batches, 'batch', 'batches')}{aborted}"),
        Tile("Stored", size(stats.stored_bytes), packed),
        Tile("Keys", short(stats.keys.distinct), keys),
        Tile("Mean rate", shown(stats.rates.mean_records_per_s, "count/s"), rate),
        Tile("Without a value", short(stats.null_values), f"{counted(stats.tombstones, 'tombstone')} among them"),
        Tile("Partitions", whole(len(stats.partitions)), f"{counted(stats.producers.distinct, 'producer id')}"),
    ]


def _when(at_ms: int | None) -> str:
    return NOTHING if at_ms is None else moment(at_ms / 1000)


def _width(stats: TopicStats) -> str:
    return span(stats.rates.bucket_ms / 1000)


def _over_time(stats: TopicStats) -> Section:
    rates = stats.rates
    width = rates.bucket_ms / 1000
    buckets = _filled(rates.buckets, rates.bucket_ms)
    records = [(start / 1000, found.records / width if found else 0.0) for start, found in buckets]
    payload = [(start / 1000, found.payload_bytes / width if found else 0.0) for start, found in buckets]
    words = f"Mean of each {_width(stats)}."
    nothing = "No record has a timestamp."
    undated = f" {counted(rates.undated, 'record')} without one are left out." if rates.undated else ""
    return Section(
        "Over time",
        [
            LineChart(
                "Records a second", [Series("records", records)], words, y_unit="count/s", x_width=width, empty=nothing
            ),
            LineChart(
                "Payload a second", [Series("bytes", payload)], words, y_unit="bytes/s", x_width=width, empty=nothing
            ),
        ],
        "By the timestamps of records. Payload is keys, values and headers." + undated,
    )


def _filled(buckets: tuple[TimeBucket, ...], width_ms: int) -> list[tuple[int, TimeBucket | None]]:
    if not buckets:
        return []
    known = {bucket.start_ms: bucket for bucket in buckets}
    first, last = min(known), max(known)
    if (last - first) // width_ms >= MOST_SLOTS or any((start - first) % width_ms for start in known):
        return sorted(known.items())
    return [(start, known.get(start)) for start in range(first, last + 1, width_ms)]


def _keys(stats: TopicStats) -> Section:
    keys = stats.keys
    curve = [(1 - x, 1 - y) for x, y in reversed(keys.lorenz)]
    hot = [
        Bar(each.text, each.share, share(each.share), f"{counted(each.records, 'record')}, {size(each.payload_bytes)}")
        for each in keys.hot
    ]
    facts = [
        ("Distinct keys", whole(keys.distinct)),
        ("With a single record", whole(keys.once)),
        ("In several partitions", whole(keys.several_partitions)),
        ("Records without a key", whole(keys.null_records)),
        ("Gini", f"{keys.gini:.3f} (0: all keys the same; near 1: one has almost all)"),
    ]
    return Section(
        "Keys",
        [
            BarChart("Hot keys", hot, "Part of all records with a key.", empty="No record has a key.", is_wide=True),
            LineChart(
                "Key skew",
                [Series(stats.topic, curve)] if keys.distinct else [],
                "Which part of the records the most frequent keys have.",
                x_unit="share",
                y_unit="share",
                y_top=1.0,
                reference=Series("all keys the same", [(0.0, 0.0), (1.0, 1.0)]),
                empty="No record has a key.",
            ),
            Facts("Keys in numbers", facts),
        ],
    )


def _sizes(stats: TopicStats) -> Section:
    return Section(
        "Sizes",
        [
            _histogram("Keys", stats.key_sizes, "bytes", "keys"),
            _histogram("Values", stats.value_sizes, "bytes", "values"),
            _histogram("Batches as stored", stats.batch_sizes, "bytes", "batches"),
            _histogram("Records in a batch", stats.batch_records, "count", "batches"),
        ],
    )


def _histogram(title: str, sizes: Sizes, unit: Unit, noun: str) -> Histogram:
    middle, late = sizes.quantiles.get("p50"), sizes.quantiles.get("p99")
    words = f"Mean {shown(sizes.mean, unit)}"
    words += f", median {shown(middle, unit)}" if middle is not None else ""
    words += f", 99 % below {shown(late, unit)}" if late is not None else ""
    words += f", greatest {shown(sizes.greatest, unit)}."
    return Histogram(title, merged(sizes.bins), words if sizes.count else "", x_unit=unit, noun=noun)


def _partitions(stats: TopicStats) -> Section:
    bars = [
        Bar(f"partition {each.partition}", each.stored_bytes, size(each.stored_bytes), counted(each.records, "record"))
        for each in stats.partitions[:MOST_BARS]
    ]
    titles = ("Partition", "Records", "Stored", "Batches", "First offset", "End offset")
    columns = [*(Column(title, "number") for title in titles), Column("From"), Column("To")]
    largest = sorted(stats.partitions, key=lambda each: each.stored_bytes, reverse=True)[:MOST_ROWS]
    rows = [_partition(each) for each in sorted(largest, key=lambda each: each.partition)]
    left = len(stats.partitions) - len(rows)
    title, words = (
        ("All partitions", "") if not left else ("The largest partitions", f"{whole(left)} more are in --json.")
    )
    parts: list[BarChart | Table] = [Table(title, columns, rows, words, empty="There are none.")]
    if 1 < len(stats.partitions) <= MOST_BARS:
        parts.insert(0, BarChart("How even they are", bars, "Stored bytes.", is_wide=True))
    return Section("Partitions", parts)


def _partition(each: PartitionStats) -> list[Cell]:
    numbers = (each.partition, each.records, each.stored_bytes, each.batches, each.start, each.end)
    texts = (str(each.partition), whole(each.records), size(each.stored_bytes), *map(whole, numbers[3:]))
    cells = [Cell(text, sort=float(number)) for text, number in zip(texts, numbers, strict=True)]
    times = [Cell(_when(at), sort=float(at or 0), is_whole=True) for at in (each.first_ms, each.last_ms)]
    return [*cells, *times]


def _writers(stats: TopicStats) -> Section:
    headers = stats.headers
    names = [
        [
            Cell(each.name),
            *(Cell(whole(number), sort=float(number)) for number in (each.records, each.count)),
            Cell(size(each.bytes), sort=float(each.bytes)),
        ]
        for each in headers.names
    ]
    columns = [Column("Header"), *(Column(title, "number") for title in ("Records", "Headers", "Bytes"))]
    words = f"And {counted(headers.other_names, 'other name')}." if headers.other_names else ""
    producers = [
        [
            Cell(_producer(each.producer_id), sort=-1.0 if each.producer_id is None else float(each.producer_id)),
            Cell(NOTHING if each.epochs is None else f"{each.epochs[0]} – {each.epochs[1]}"),
            *(Cell(whole(count), sort=float(count)) for count in (each.records, each.batches)),
            Cell(size(each.stored_bytes), sort=float(each.stored_bytes)),
            Cell(whole(each.transactional_records), sort=float(each.transactional_records)),
            Cell(_when(each.last_ms), sort=float(each.last_ms), is_whole=True),
        ]
        for each in stats.producers.listed
    ]
    titles = ("Epochs", "Records", "Batches", "Stored", "In transactions")
    heads = [Column("Producer id"), *(Column(title, "number") for title in titles), Column("Last")]
    return Section(
        "Producers and headers",
        [
            Table("Producers", heads, producers, empty="No batch has been written."),
            Table("Headers", columns, names, words, empty="No record has a header."),
        ],
    )


def _producer(producer_id: int | None) -> str:
    return "without an id" if producer_id is None else str(producer_id)
