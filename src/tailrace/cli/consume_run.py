"""`tailrace consume`: which records, in which form, until when."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tailrace.cli.consume import EARLIEST, LATEST, Start
from tailrace.cli.lines import Item, text_or_base64
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.remote import connected, known_topic
from tailrace.cli.throughput import Throughput
from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Topic
from tailrace.client.consumer import RAISE, Consumer
from tailrace.client.errors import OFFSET_OUT_OF_RANGE
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.record.builder import encode_header_key
from tailrace.record.reader import Record

POLL_S: Final = 0.2
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")

Write = Callable[[TopicPartition, Sequence[Record]], None]
Tick = Callable[[int], None]


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    throughput = Throughput()
    with connected(args) as cluster:
        partitions = chosen(args, known_topic(cluster, args.topic, may_be_new=True))
        isolation = READ_COMMITTED if args.isolation == "committed" else READ_UNCOMMITTED
        with Consumer(cluster, isolation=isolation, out_of_range=RAISE) as consumer:
            consumer.assign(partitions)
            begin(args, consumer)
            with output(args, throughput) as (write, tick):
                read(args, consumer, throughput, write, tick)
    return 0


def chosen(args: argparse.Namespace, topic: Topic) -> list[TopicPartition]:
    for number in args.partition or ():
        if number not in topic.partitions:
            raise CommandError(f"{topic.name} has no partition {number}", f"it has 0 to {len(topic.partitions) - 1}")
    return [TopicPartition(topic.name, number) for number in args.partition or topic.partitions]


def begin(args: argparse.Namespace, consumer: Consumer) -> None:
    start: Start = args.start or Start(None, LATEST if args.follow else EARLIEST)
    if start.offset is None:
        if start.point != EARLIEST:
            consumer.seek_to(start.point)
        return
    first, ends = consumer.positions, consumer.ends()
    for partition in first:
        if not first[partition] <= start.offset <= ends[partition]:
            held = f"{partition} has offsets {first[partition]:,} to {ends[partition]:,}"
            raise CommandError(f"{held}, not {start.offset:,}", "choose another offset, or one --partition")
        consumer.seek(partition, start.offset)


def read(args: argparse.Namespace, consumer: Consumer, throughput: Throughput, write: Write, tick: Tick) -> None:
    ends = None if args.follow else consumer.ends()
    left: int | None = args.max
    while left != 0 and (ends is None or any(at < ends[each] for each, at in consumer.positions.items())):
        for polled in poll(consumer):
            records = list(wanted(polled, ends, left))
            if left is not None:
                left -= len(records)
            throughput.add(len(records), sum(len(each.key or b"") + len(each.value or b"") for each in records))
            write(polled.partition, records)
        sys.stdout.flush()
        tick(0 if ends is None else sum(max(ends[each] - at, 0) for each, at in consumer.positions.items()))


def poll(consumer: Consumer) -> list[BatchRun]:
    try:
        return consumer.poll(POLL_S)
    except TailraceError as error:
        if error.code != OFFSET_OUT_OF_RANGE:
            raise
        hint = "records were removed while they were read: begin again with --from earliest"
        raise CommandError(str(error), hint) from error


def wanted(polled: BatchRun, ends: dict[TopicPartition, int] | None, left: int | None) -> Iterator[Record]:
    """Not beyond where the partition ended when we began, and not more than asked for."""
    records: Iterator[Record] = polled.records()
    if ends is not None:
        end = ends[polled.partition]
        records = itertools.takewhile(lambda record: record.offset < end, records)
    return itertools.islice(records, left)


# In which form


@contextmanager
def output(args: argparse.Namespace, throughput: Throughput) -> Iterator[tuple[Write, Tick]]:
    as_json = args.json or args.format == "json"
    if sys.stdout.isatty() and not as_json:
        from tailrace.cli.consume_text import RecordLines

        with RecordLines(throughput) as lines:
            # The speed is shown between records only if the reading does not end.
            yield lines.write, lines.tick if args.follow else noop
        return
    write = write_json if as_json else Plain(args.key_separator, args.null).write
    if not sys.stderr.isatty():
        yield write, noop
        return
    from tailrace.cli.live import LiveLine

    with LiveLine() as line:
        yield write, lambda lag: line.show(throughput, more=f" · {lag:,} to go" if lag else "")


def write_json(partition: TopicPartition, records: Sequence[Record]) -> None:
    for record in records:
        print(json.dumps(record_item(partition, record)))


def record_item(partition: TopicPartition, record: Record) -> Item:
    kind = record.timestamp_type
    return {
        "type": "record",
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[kind] if kind in (0, 1) else None,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {**text_or_base64("key", encode_header_key(name)), **text_or_base64("value", value)}
            for name, value in record.headers
        ],
    }


class Plain:
    """The bytes as they are, a line each."""

    def __init__(self, key_separator: str | None, null: str) -> None:
        self._separator = None if key_separator is None else key_separator.encode()
        self._null = null.encode()

    def write(self, _: TopicPartition, records: Sequence[Record]) -> None:
        lines = []
        for record in records:
            value = self._null if record.value is None else record.value
            if self._separator is not None:
                value = (self._null if record.key is None else record.key) + self._separator + value
            lines.append(value + b"\n")
        sys.stdout.buffer.write(b"".join(lines))
