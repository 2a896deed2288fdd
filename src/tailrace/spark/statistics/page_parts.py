"""What compaction, another codec or retention would change: what is left is filled, what it would free is pale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.report.amounts import NOTHING, counted, digits, moment, share, short, size, whole
from tailrace.spark.report.page import Bar, BarChart, Facts, Section

if TYPE_CHECKING:
    from tailrace.spark.statistics.topic_stats import Compacted, SizeLimit, TopicStats

_NANOSECONDS_PER_BYTE_TO_MB_PER_S: Final = 1000.0


def change_section(stats: TopicStats) -> Section:
    return Section(
        "What a change would bring",
        [_compaction(stats), _compaction_facts(stats), _codecs(stats), _codecs_in_use(stats), *_retention(stats)],
        "Filled: what the topic would take. The whole bar is what it takes now, but for codecs.",
    )


def _compaction(stats: TopicStats) -> BarChart:
    gain = stats.compaction
    bars = [_compacted("all of it", gain.whole, stats.stored_bytes)]
    if gain.closed is not None:
        bars.append(_compacted("closed segments", gain.closed, stats.stored_bytes))
    words = "What the cleaner would leave."
    if not gain.is_exact:
        words += f" Bytes as {counted(gain.sampled_batches, 'batch', 'batches')} of a sample say."
    return BarChart("Compaction", bars, words)


def _compacted(label: str, found: Compacted, stored: int) -> Bar:
    return Bar(label, stored, size(found.stored_bytes), _freed(found.share), part=found.stored_bytes)


def _freed(part: float) -> str:
    return f"frees {share(part)}" if part >= 0 else f"takes {share(-part)} more"


def _compaction_facts(stats: TopicStats) -> Facts:
    gain = stats.compaction
    items = [
        ("Records that are left", whole(gain.whole.records)),
        ("Records that go", whole(gain.whole.removed_records)),
        ("Tombstones that go later", f"{whole(gain.tombstones)} ({size(gain.tombstone_payload_bytes)})"),
        ("Records without a key", f"{whole(gain.keyless_records)}{' would be lost' if gain.keyless_records else ''}"),
    ]
    return Facts("Compaction in numbers", items)


def _codecs(stats: TopicStats) -> BarChart:
    bars = [
        Bar(
            trial.codec,
            trial.estimated_bytes,
            size(trial.estimated_bytes),
            _saved(trial.saved_bytes / stats.stored_bytes),
            hint=f"packs {_speed(trial.pack_ns_per_byte)}, unpacks {_speed(trial.unpack_ns_per_byte)} on one core",
            tone="good" if trial.saved_bytes > 0 else "plain",
        )
        for trial in stats.codec_trials.trials
    ]
    sampled = counted(stats.codec_trials.sampled_batches, "batch", "batches")
    words = f"Measured on {sampled} of it, at default levels. Green: less than now."
    return BarChart("With another codec", bars, words, top=float(stats.stored_bytes))


def _saved(part: float) -> str:
    return f"saves {share(part)}" if part > 0 else f"takes {share(-part)} more" if part < 0 else "the same"


def _speed(ns_per_byte: float) -> str:
    """A byte a nanosecond is 1000 MB a second."""
    if ns_per_byte <= 0:
        return NOTHING
    return f"{digits(_NANOSECONDS_PER_BYTE_TO_MB_PER_S / ns_per_byte)} MB/s"


def _codecs_in_use(stats: TopicStats) -> BarChart:
    bars = [
        Bar(
            each.codec,
            each.plain_bytes,
            size(each.stored_bytes),
            f"of {size(each.plain_bytes)}, {counted(each.batches, 'batch', 'batches')}",
            part=each.stored_bytes,
        )
        for each in stats.codecs
    ]
    return BarChart("Codecs in use", bars, "Filled: as stored. Pale: the same batches without compression.")


def _retention(stats: TopicStats) -> list[BarChart]:
    stored = stats.stored_bytes
    times = [
        Bar(each.name, stored, size(each.kept_bytes), f"keeps {share(each.share)}", part=each.kept_bytes)
        for each in stats.retention.times
    ]
    sizes = [
        Bar(f"{short(each.limit_bytes)}B", stored, size(each.kept_bytes), _kept(each), part=each.kept_bytes)
        for each in stats.retention.sizes
    ]
    return [
        BarChart(
            "Retention by time", times, "retention.ms, back from the newest record.", empty="No record has a time."
        ),
        BarChart("Retention by size", sizes, "retention.bytes, of each partition."),
    ]


def _kept(limit: SizeLimit) -> str:
    """From when on; its part where that is no time, as of records that all have the same."""
    return f"keeps {share(limit.share)}" if limit.oldest_ms is None else f"since {moment(limit.oldest_ms / 1000)[:16]}"
