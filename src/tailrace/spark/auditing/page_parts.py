"""What an audit's figures look like: sizes and rates over time, batches, codecs, keys, topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tailrace.spark.auditing.figures import BINS, MOST_KEYS, CodecFigures, TopicFigures
from tailrace.spark.report.amounts import NOTHING, counted, moment, ratio, share, shown, size, whole
from tailrace.spark.report.bins import doubling
from tailrace.spark.report.page import (
    Bar,
    BarChart,
    Cell,
    Column,
    Histogram,
    LineChart,
    Section,
    Series,
    Table,
)
from tailrace.spark.report.scale import MINUTE
from tailrace.spark.report.skew import concentration, gini, held_by_top
from tailrace.spark.report.timeline import Timeline, timeline

MOST_SERIES: Final = 5
"""A sixth is for all the others."""
MOST_TOPICS: Final = 500
HOT_KEYS: Final = 10
_NO_TIMES: Final = "No batch has a timestamp that can be shown."

Figures = Mapping[str, TopicFigures]


def time_section(figures: Figures) -> Section:
    amounts = {
        topic: {minute: each[0] for minute, each in figures[topic].minutes.items()} for topic in by_size(figures)
    }
    in_all: Counter[int] = Counter()
    records: Counter[int] = Counter()
    for found in figures.values():
        for minute, (bytes_, count) in found.minutes.items():
            in_all[minute] += bytes_
            records[minute] += count
    axis = timeline(in_all)
    if axis is None:
        return Section("Over time", [LineChart("Size over time", [], empty=_NO_TIMES, is_wide=True)])
    chosen = _series(amounts)
    grown = [Series(name, axis.growth(each)) for name, each in chosen]
    rates = [Series("bytes", axis.rates(in_all))]
    counts = [Series("records", axis.rates(records))]
    width = axis.width_seconds
    dropped = sum(each.dropped_minutes for each in figures.values())
    each_bin = f"Mean of each {shown(width, 'seconds')}."
    return Section(
        "Over time",
        [
            LineChart("Size over time", grown, "Bytes of batches up to then, by topic.", is_stacked=True, is_wide=True),
            LineChart("Bytes a second", rates, each_bin, y_unit="bytes/s", x_width=width),
            LineChart("Records a second", counts, each_bin, y_unit="count/s", x_width=width),
        ],
        "By the greatest timestamp of each batch." + _left_out(axis, dropped),
    )


def _left_out(axis: Timeline, dropped: int) -> str:
    words = f" {share(axis.left_out)} of all bytes lie far outside and are left out." if axis.left_out else ""
    return words + (f" {counted(dropped, 'batch', 'batches')} have times too far apart to count." if dropped else "")


def by_size(figures: Figures) -> list[str]:
    """Topics, the largest first. A topic's place is its color in all charts."""
    return sorted(figures, key=lambda topic: (-figures[topic].bytes, topic))


def _series(amounts: Mapping[str, Mapping[int, int]]) -> list[tuple[str, Mapping[int, int]]]:
    """Those of the first topics, and of all others together."""
    ordered = list(amounts)
    kept = ordered[: MOST_SERIES + (len(ordered) == MOST_SERIES + 1)]
    found: list[tuple[str, Mapping[int, int]]] = [(topic, amounts[topic]) for topic in kept]
    others: Counter[int] = Counter()
    for topic in ordered[len(kept) :]:
        others.update(amounts[topic])
    if others:
        found.append((f"{len(ordered) - len(kept)} other topics", others))
    return found


def batch_section(figures: Figures) -> Section:
    sizes, records = [0] * BINS, [0] * BINS
    for found in figures.values():
        sizes = [a + b for a, b in zip(sizes, found.batch_bytes, strict=True)]
        records = [a + b for a, b in zip(records, found.batch_records, strict=True)]
    codecs = _codecs(figures)
    used = [Bar(codec, each.batches, *_part_of(each.batches, codecs)) for codec, each in codecs.items()]
    packed = [_packed(codec, each) for codec, each in codecs.items() if each.plain_bytes]
    return Section(
        "Batches",
        [
            Histogram("Batch sizes", doubling(sizes), "Stored bytes of a batch.", noun="batches"),
            Histogram("Records in a batch", doubling(records), "How many a batch has.", x_unit="count", noun="batches"),
            BarChart("Compression", packed, "Filled: as stored. Pale: the same records without compression."),
            BarChart(
                "Codecs in use", used, "Batches by codec.", top=float(sum(each.batches for each in codecs.values()))
            ),
        ],
    )


def _codecs(figures: Figures) -> dict[str, CodecFigures]:
    found: dict[str, CodecFigures] = {}
    for topic in figures.values():
        for codec, each in topic.codecs.items():
            found.setdefault(codec, CodecFigures()).add(each)
    return dict(sorted(found.items(), key=lambda item: -item[1].batches))


def _part_of(batches: int, codecs: Mapping[str, CodecFigures]) -> tuple[str, str]:
    return share(batches / max(sum(each.batches for each in codecs.values()), 1)), whole(batches)


def _packed(codec: str, each: CodecFigures) -> Bar:
    detail = f"{size(each.plain_bytes)} → {size(each.bytes)}"
    return Bar(codec, each.plain_bytes, ratio(_ratio(each)), detail, part=each.bytes)


def _ratio(each: CodecFigures) -> float:
    return each.plain_bytes / each.bytes if each.bytes else 1.0


def key_section(figures: Figures) -> Section:
    keyed = {topic: list(found.key_sample.values()) for topic, found in figures.items() if found.key_sample}
    curves = [
        Series(topic, concentration(keyed[topic]), place)
        for place, topic in enumerate(by_size(figures)[:MOST_SERIES])
        if topic in keyed
    ]
    parts = {topic: held_by_top(counts, HOT_KEYS, _keyed_records(figures[topic])) for topic, counts in keyed.items()}
    hot = [
        Bar(topic, part, share(part), f"of {_sampled_keys(figures[topic])} keys")
        for topic, part in sorted(parts.items(), key=lambda item: -item[1])[: 2 * MOST_SERIES]
    ]
    nothing = "No record that was sampled has a key."
    even = Series("all keys the same", [(0.0, 0.0), (1.0, 1.0)])
    return Section(
        "Keys",
        [
            LineChart(
                "Key skew",
                curves,
                "Which part of the records the most frequent keys have.",
                x_unit="share",
                y_unit="share",
                y_top=1.0,
                reference=even,
                empty=nothing,
            ),
            BarChart(f"Records of the {HOT_KEYS} most frequent keys", hot, "Of the sample.", top=1.0, empty=nothing),
        ],
        f"From a sample that stands for {counted(sum(each.sampled_records for each in figures.values()), 'record')}.",
    )


def _keyed_records(found: TopicFigures) -> int:
    return found.sampled_records - found.sampled_keyless


def _sampled_keys(found: TopicFigures) -> str:
    """A sample lets go of the rarest keys."""
    return whole(len(found.key_sample)) + (" and more" if len(found.key_sample) >= MOST_KEYS else "")


def topic_section(figures: Figures) -> Section:
    ordered = by_size(figures)
    columns = [
        Column("Topic"),
        *(Column(title, "number") for title in ("Stored", "Records", "Batches", "Bytes a record", "Compression")),
        Column("Codecs"),
        *(Column(title, "number") for title in ("Keys in sample", "Gini")),
        Column("From, to"),
    ]
    rows = [_topic(topic, figures[topic]) for topic in ordered[:MOST_TOPICS]]
    left = len(ordered) - len(rows)
    words = f"The {MOST_TOPICS} largest; {left:,} are not shown." if left else ""
    return Section("Topics", [Table("By size", columns, rows, words, has_filter=len(rows) > 10)])


def _topic(topic: str, found: TopicFigures) -> list[Cell]:
    stored = sum(each.bytes for each in found.codecs.values())
    plain = sum(each.plain_bytes for each in found.codecs.values())
    packed = plain / stored if stored else 1.0
    each_record = found.bytes / found.records if found.records else 0.0
    uneven = gini(found.key_sample.values())
    first, last = min(found.minutes, default=None), max(found.minutes, default=None)
    return [
        Cell(topic),
        Cell(size(found.bytes), sort=float(found.bytes)),
        Cell(whole(found.records), sort=float(found.records)),
        Cell(whole(found.batches), sort=float(found.batches), detail=_controls(found)),
        Cell(size(each_record) if found.records else NOTHING, sort=each_record),
        Cell(ratio(packed) if stored else NOTHING, sort=packed),
        Cell(", ".join(sorted(found.codecs)) or NOTHING),
        Cell(_sampled_keys(found) if found.key_sample else NOTHING, sort=float(len(found.key_sample))),
        Cell(f"{uneven:.2f}" if found.key_sample else NOTHING, sort=uneven),
        Cell(_minute(first), sort=float(first or 0), detail=_minute(last), is_whole=True),
    ]


def _minute(minute: int | None) -> str:
    return NOTHING if minute is None else moment(minute * MINUTE)


def _controls(found: TopicFigures) -> str:
    return f"{whole(found.control_batches)} control" if found.control_batches else ""
