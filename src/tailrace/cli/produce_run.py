"""`tailrace produce`: lines in, records out, as fast as asked; what was acknowledged is counted and told."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tailrace.cli.line_source import LineSource
from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, known_topic
from tailrace.cli.throughput import Throughput
from tailrace.client.cluster import Topic
from tailrace.client.producer import ACKS_ALL, Delivered, Producer
from tailrace.model.errors import StorageError

INTERRUPTED: Final = 130
LEAST_PAUSE_S: Final = 0.005  # a rate is kept over so long; less is not worth a nap
LINES_PER_TICK: Final = 256


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None


class Delivery:
    """What has been acknowledged so far."""

    def __init__(self) -> None:
        self.throughput = Throughput()
        self.offsets: dict[int, tuple[int, int]] = {}

    def __call__(self, delivered: Delivered) -> None:
        self.throughput.add(delivered.record_count, delivered.size_bytes)
        if delivered.base_offset >= 0:
            number, last = delivered.partition.partition, delivered.base_offset + delivered.record_count - 1
            first = self.offsets.get(number, (delivered.base_offset, 0))[0]
            self.offsets[number] = (first, last)

    def item(self, topic: str) -> Item:
        records_per_s, bytes_per_s = self.throughput.overall()
        return {
            "type": "summary",
            "topic": topic,
            "records": self.throughput.records,
            "bytes": self.throughput.bytes,
            "seconds": round(self.throughput.seconds, 3),
            "records_per_s": round(records_per_s),
            "bytes_per_s": round(bytes_per_s),
            "offsets": {str(number): list(span) for number, span in sorted(self.offsets.items())},
        }


def run(args: argparse.Namespace) -> int:
    delivery = Delivery()
    exit_code = 0
    with connected(args) as cluster:
        check_partition(args, known_topic(cluster, args.topic, may_be_new=True))
        producer = Producer(
            cluster,
            acks=ACKS_ALL if args.acks == "all" else int(args.acks),
            codec=args.codec,
            batch_bytes=args.batch_size,
            delivery_timeout_s=args.timeout,
            may_create_topics=False,
            on_delivery=delivery,
        )
        with source_of(args.file) as source, producer, progress(source, delivery) as tick:
            try:
                send(args, producer, source, tick)
            except KeyboardInterrupt:  # what was read is still sent
                exit_code = INTERRUPTED
            producer.flush()
    summarise(args, delivery)
    return exit_code


def send(args: argparse.Namespace, producer: Producer, source: LineSource, tick: Tick) -> None:
    headers = tuple((key, value.encode()) for key, value in args.header)
    pace = Pace(args.rate, producer) if args.rate else None
    sent = 0
    for line in source:
        if line is None:
            producer.flush()
            tick()
            continue
        key, value = split(line, args, sent + 1)
        if pace is not None:
            pace.wait(sent)
        producer.send(args.topic, value, key, headers=headers, partition=args.partition)
        sent += 1
        if sent == args.max:
            return
        if not sent % LINES_PER_TICK or pace is not None:
            tick()


def split(line: bytes, args: argparse.Namespace, number: int) -> Line:
    key: bytes | None = None
    value: bytes | None = line
    if args.key_separator is not None:
        key, separator, value = line.partition(args.key_separator.encode())
        if not separator:
            hint = "give every line a key, or leave --key-separator away"
            raise CommandError(f"line {number} has no {args.key_separator!r} behind a key", hint)
    null = None if args.null is None else args.null.encode()
    return Line(None if key == null else key, None if value == null else value)


class Pace:
    """So many records a second: what is ahead of its time waits, with what came before it sent."""

    def __init__(self, records_per_s: float, producer: Producer) -> None:
        self._records_per_s = records_per_s
        self._producer = producer
        self._began_s = time.monotonic()

    def wait(self, sent: int) -> None:
        if self._ahead_s(sent) > LEAST_PAUSE_S:
            self._producer.flush()
            time.sleep(max(self._ahead_s(sent), 0))

    def _ahead_s(self, sent: int) -> float:
        return self._began_s + sent / self._records_per_s - time.monotonic()


class Tick:
    """Called now and then while it goes on; shows nothing unless there is a terminal to show it on."""

    def __call__(self) -> None:
        pass


@contextmanager
def progress(source: LineSource, delivery: Delivery) -> Iterator[Tick]:
    if not sys.stderr.isatty() or sys.stdin is None or os.isatty(source.descriptor):
        yield Tick()
        return
    from tailrace.cli.live import LiveLine

    with LiveLine() as line:

        class Shown(Tick):
            def __call__(self) -> None:
                line.show(delivery.throughput, source.bytes_read, source.total_bytes)

        yield Shown()


@contextmanager
def source_of(path: str | None) -> Iterator[LineSource]:
    if path is None:
        if sys.stdin is None:
            raise CommandError("standard input is closed", "name a file with --file")
        yield LineSource(sys.stdin.fileno())
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as cause:
        raise StorageError(f"read {path}", cause) from cause
    try:
        yield LineSource(descriptor)
    finally:
        os.close(descriptor)


def check_partition(args: argparse.Namespace, topic: Topic) -> None:
    if args.partition is not None and args.partition not in topic.partitions:
        last = len(topic.partitions) - 1
        raise CommandError(f"{topic.name} has no partition {args.partition}", f"it has 0 to {last}")


def summarise(args: argparse.Namespace, delivery: Delivery) -> None:
    item = delivery.item(args.topic)
    if args.json or not sys.stdout.isatty():
        print_items([item], as_json=args.json)
        return
    from tailrace.cli.live import show_produced

    show_produced(item)
