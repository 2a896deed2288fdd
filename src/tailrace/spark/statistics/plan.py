"""Which topic, which offsets, and how they are cut into pieces: what the driver decides before anything is read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError, PipelineError
from tailrace.spark.options.one_topic import options_for_one_topic
from tailrace.spark.options.source import SourceOptions, source_options
from tailrace.spark.source.files.folders import LogFolders
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.files.segments import list_segments
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.origin import OpenOrigin
from tailrace.spark.source.planning import pieces, task_count
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.source.starting import checked_ranges
from tailrace.spark.statistics.piece_task import Reading, StatsPiece

MOST_OFFSETS: Final = 2_000_000
KEYS_PER_BUCKET: Final = 250_000
"""With keys of 256 bytes the rows of a bucket take some 300 MB in the task that counts them."""
MOST_BUCKETS: Final = 4096
LEAST_SAMPLE_BYTES: Final = 256 << 10
"""Of a piece that has a sample. Where there is not so much for each, some pieces have none."""


@dataclass(frozen=True)
class Plan:
    topic: str
    source: str
    ranges: Sequence[OffsetRange]
    """All partitions, also those without records."""
    pieces: Sequence[StatsPiece]
    reading: Reading
    closed_to: Mapping[int, int] | None
    """Partition → where the segment begins that is being written; None for brokers."""


def options_of(
    topic: str | None, brokers: str | None, path: str | None, options: Mapping[str, object]
) -> tuple[str, SourceOptions]:
    """The topic and what is told to the source. OptionError for what cannot be."""
    if topic is not None and not is_legal_topic_name(topic):
        raise OptionError(f"topic {topic[:60]!r} is no name of a topic: statistics are of one")
    taken = options_for_one_topic(
        options,
        brokers=brokers,
        path=path,
        isolation="read_committed",
        refusal="statistics: they are of one whole topic",
    )
    # The options say where; only then it can be looked which topic is there.
    chosen = (
        topic
        if topic is not None
        else _only_topic(source_options({**taken, "subscribePattern": ".*"}, streaming=False))
    )
    return chosen, source_options({**taken, "subscribe": chosen}, streaming=False)


def _only_topic(options: SourceOptions) -> str:
    if options.path is None:
        raise OptionError("no topic is given: brokers have many, name one")
    topics = sorted({each.topic for each in LogFolders(ReadOnlyFiles(None), options.path).all()})
    if len(topics) != 1:
        some = ", ".join(topics[:10]) + (", …" if len(topics) > 10 else "")
        held = f"{len(topics)} topics ({some})" if topics else "no topic"
        raise OptionError(f"path {options.path!r} holds {held}: name one")
    return topics[0]


def planned(topic: str, options: SourceOptions, cores: int, sample_bytes: int, now_ms: int | None = None) -> Plan:
    with OpenOrigin(options) as origin:
        ids = origin.partitions(options.subscription)
        ranges = checked_ranges(options, origin, ids, LossPolicy(options.fail_on_data_loss))
    offsets = sum(each.size for each in ranges)
    wanted = max(task_count(offsets, cores), options.min_partitions or 1)
    most = min(MOST_OFFSETS, options.max_records_per_partition or MOST_OFFSETS)
    cut = pieces(ranges, min_partitions=wanted, max_records_per_partition=most)
    closed_to = None if options.path is None else closed_bounds(options.path, ranges)
    budgets = sample_budgets([each.size for each in cut], sample_bytes)
    sampled = sum(each > 0 for each in budgets)
    starts = {each.partition: each.start for each in ranges}
    stats_pieces = [
        StatsPiece(
            each,
            each.start == starts[each.partition],
            None if closed_to is None else closed_to.get(each.partition.partition),
            budget,
        )
        for each, budget in zip(cut, budgets, strict=True)
    ]
    reading = Reading(
        options=options,
        buckets=max(min(max(offsets // KEYS_PER_BUCKET, min(task_count(offsets, cores), cores)), MOST_BUCKETS), 1),
        trials=max(min(sampled, cores), 1),
        share=sampled / len(cut) if cut else 1.0,
        now_ms=int(time.time() * 1000) if now_ms is None else now_ms,
    )
    return Plan(topic, options.path or options.brokers or "", ranges, stats_pieces, reading, closed_to)


def sample_budgets(sizes: Sequence[int], sample_bytes: int) -> list[int]:
    """How many bytes of each piece are sampled: by its size; of some pieces, evenly chosen, where it is too little."""
    total, count = sum(sizes), len(sizes)
    chosen = min(count, -(-sample_bytes // LEAST_SAMPLE_BYTES)) if sample_bytes > 0 else 0
    if chosen < count:
        each = sample_bytes // chosen if chosen else 0
        return [each if (place + 1) * chosen // count > place * chosen // count else 0 for place in range(count)]
    return [max(sample_bytes * size // total, LEAST_SAMPLE_BYTES) for size in sizes]


def closed_bounds(path: str, ranges: Sequence[OffsetRange]) -> dict[int, int]:
    """Where the first segment begins that a cleaner would not take. Without what went away meanwhile."""
    files = ReadOnlyFiles(None)
    folders = LogFolders(files, path)
    found: dict[int, int] = {}
    for each in ranges:
        base = _closed_to(files, folders, each.partition, each.end)
        if base is not None:
            found[each.partition.partition] = base
    return found


def _closed_to(files: ReadOnlyFiles, folders: LogFolders, partition: TopicPartition, end: int) -> int | None:
    try:
        folder = folders.one(partition)
        segment = None if folder is None else list_segments(files, folder.path).at(end)
    except (OSError, PipelineError):
        return None
    return None if segment is None else segment.base_offset
