"""Rows of Arrow batches into record batches, and these to a producer. No Python object is made of a row.

Each partition that rows go to has an open batch, which goes out when it is full and at the end. A row that no open
batch has room for, however empty, gets a batch of its own. Open batches take `OPEN_BYTES` at most: where there are so
many partitions that batches of the size asked for would not fit, all of them are smaller. So are they where a topic
takes only smaller ones.

Rows without a key stay with one partition of their topic until its batch is full, and go on with another one.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from tailrace.client.partitioner import Sticky
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.record import kernels
from tailrace.record.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2
from tailrace.record.builder import BatchBuilder
from tailrace.record.compression import CODEC_NAMES, compress
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink import row_columns
from tailrace.spark.sink.row_columns import NO_COLUMN, NO_INTS, NO_PARTITIONS, NO_TIMES

OPEN_BYTES: Final = 32 << 20
SMALLEST_SLOT_BYTES: Final = 4096
MOST_SLOTS: Final = OPEN_BYTES // SMALLEST_SLOT_BYTES
FIRST_SLOTS: Final = 4

COLUMNS: Final = ("topic", "key", "value", "headers", "partition", "timestamp")


class EncodedBatch(NamedTuple):
    """A batch of format v2 without its producer and its CRC, which `Producer.send_encoded` sets."""

    partition: TopicPartition
    data: bytearray
    record_count: int


class Written(NamedTuple):
    rows: int
    bytes: int
    """Of batches, as they were sent."""


class RowEncoder:
    """Of one task. `encode` what comes, then take the `rest`. One thread."""

    def __init__(
        self,
        arrow_schema: pa.Schema,
        options: SinkOptions,
        partitions_of: Callable[[str], int],
        *,
        limit_of: Callable[[str], int | None] = lambda _: None,
        choose: Callable[[Sequence[int]], int] = random.choice,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`partitions_of` a topic, and the most bytes it takes in a batch, are asked once for each."""
        self._places = {name: at for at, name in enumerate(arrow_schema.names) if name in COLUMNS}
        if options.topic is not None:
            self._places.pop("topic", None)
        self._options = options
        self._codec = CODEC_NAMES.index(options.codec)
        self._partitions_of = partitions_of
        self._limit_of = limit_of
        self._batch_bytes = max(options.batch_bytes, HEADER_BYTES)
        self._choose = choose
        self._now_ms = now_ms
        self._run = kernels.RowRun()
        self._topic_numbers: dict[str, int] = {}
        self._limits: dict[str, int | None] = {}
        self._partitions: list[TopicPartition] = []  # by lane
        self._sticky: list[Sticky] = []
        self._topics, self._lanes, self._slots = array("q"), array("q"), array("q")
        self._free: list[int] = []
        self._slot_bytes = 0
        self._room = bytearray()

    def encode(self, batch: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Batches that are full; what is not stays until more comes."""
        if not batch.num_rows:
            return
        names, places = self._topics_of(batch)
        yield from self._learn(names)
        self._attach(batch, names, places)
        run = self._run
        while True:
            reason = run.go()
            if reason == kernels.SLOT_FULL:
                taken = self._take(run.lane)
                if taken is None:
                    yield self._single(batch, run.row, self._partitions[run.lane])
                    run.row += 1
                else:
                    yield taken
                self._move_on(run.lane)
            elif reason == kernels.NEEDS_SLOT:
                if len(self._slots) == MOST_SLOTS * kernels.SLOT_NUMBERS and not self._free:
                    yield from self.rest()
                self._give_slot(run.lane)
            elif reason == kernels.ROWS_TAKEN:
                return
            else:
                raise self._refusal(reason, batch, run.row)

    def rest(self) -> Iterator[EncodedBatch]:
        """What is not given out yet."""
        for lane, slot in enumerate(self._lanes):
            if slot >= 0:
                taken = self._take(lane)
                self._lanes[lane] = -1
                self._free.append(slot)
                if taken is not None:
                    yield taken

    # Topics

    def _topics_of(self, batch: pa.RecordBatch) -> tuple[list[str], pa.Array | None]:
        if self._options.topic is not None:
            return [self._options.topic], None
        return row_columns.topic_names(self._column(batch, "topic"))

    def _learn(self, names: Iterable[str]) -> Iterator[EncodedBatch]:
        """Lanes for topics that are new; all open batches where there is less room for each then."""
        added = [name for name in names if name not in self._topic_numbers]
        if not added:
            return
        for name in added:
            self._add_topic(name, range(self._partitions_of(name)))
            limit = self._limits[name] = self._limit_of(name)
            if limit is not None:
                self._batch_bytes = min(self._batch_bytes, max(limit, HEADER_BYTES))
        fair_bytes = max(OPEN_BYTES // max(len(self._lanes), 1), SMALLEST_SLOT_BYTES)
        slot_bytes = min(self._batch_bytes, fair_bytes)
        if slot_bytes != self._slot_bytes:
            yield from self.rest()
            self._slot_bytes = slot_bytes
            self._slots, self._free, self._room = array("q"), [], bytearray()
        self._lay_out()

    def _add_topic(self, name: str, numbers: range) -> None:
        sticky = Sticky(self._choose)
        self._topic_numbers[name] = len(self._topic_numbers)
        self._topics = self._topics + array("q", (len(self._lanes), len(numbers), sticky.partition(lambda: numbers)))
        self._lanes = self._lanes + array("q", [-1]) * len(numbers)
        self._sticky.append(sticky)
        self._partitions += [TopicPartition(name, number) for number in numbers]

    def _move_on(self, lane: int) -> None:
        """Rows without a key, when it was them who filled the batch: they are with the partition it is of."""
        partition = self._partitions[lane]
        number = self._topic_numbers[partition.topic]
        at = number * kernels.TOPIC_NUMBERS
        if self._topics[at + kernels.TOPIC_STICKY] == partition.partition:
            everywhere = range(self._topics[at + kernels.TOPIC_PARTITIONS])
            self._sticky[number].move_on(lambda: everywhere)
            self._topics[at + kernels.TOPIC_STICKY] = self._sticky[number].partition(lambda: everywhere)

    # Slots

    def _lay_out(self) -> None:
        self._run.lay_out(self._room, self._slot_bytes, self._slots, self._lanes, self._topics)

    def _give_slot(self, lane: int) -> None:
        if not self._free:
            count = len(self._slots) // kernels.SLOT_NUMBERS
            more = min(max(count, FIRST_SLOTS), MOST_SLOTS - count, len(self._lanes))
            self._slots = self._slots + array("q", (HEADER_BYTES, 0, 0, 0)) * more
            self._room = self._room + bytearray(more * self._slot_bytes)
            self._free = list(range(count + more - 1, count - 1, -1))
            self._lay_out()
        self._lanes[lane] = self._free.pop()

    def _take(self, lane: int) -> EncodedBatch | None:
        """The open batch of a lane, which begins anew; None when it is empty."""
        slot = self._lanes[lane]
        numbers = slot * kernels.SLOT_NUMBERS
        used, count, base_timestamp, max_timestamp = self._slots[numbers : numbers + kernels.SLOT_NUMBERS]
        if not count:
            return None
        self._slots[numbers + kernels.SLOT_USED] = HEADER_BYTES
        self._slots[numbers + kernels.SLOT_COUNT] = 0
        begin, codec = slot * self._slot_bytes, self._codec
        if codec:
            with memoryview(self._room)[begin + HEADER_BYTES : begin + used] as records:
                data = bytearray(HEADER_BYTES) + compress(codec, records, self._options.level)
        if not codec or len(data) > self._slot_bytes:  # what cannot be compressed grows, beyond what the topic takes
            data, codec = self._room[begin : begin + used], 0
        HEADER.pack_into(
            data,
            0,
            *(0, len(data) - LOG_OVERHEAD, -1, MAGIC_V2, 0, codec),
            *(count - 1, base_timestamp, max_timestamp, -1, -1, -1, count),
        )
        return EncodedBatch(self._partitions[lane], data, count)

    # Columns

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return batch.column(self._places[name])

    def _attach(self, batch: pa.RecordBatch, names: Sequence[str], places: pa.Array | None) -> None:
        has = self._places
        topic_of = NO_INTS
        if places is not None:
            topic_of = row_columns.index_column(places, [self._topic_numbers[name] for name in names])
        self._run.attach(
            batch.num_rows,
            self._now_ms(),
            topic_of,
            row_columns.bytes_column(self._column(batch, "key")) if "key" in has else NO_COLUMN,
            row_columns.bytes_column(self._column(batch, "value")),
            row_columns.partition_column(self._column(batch, "partition")) if "partition" in has else NO_PARTITIONS,
            row_columns.time_column(self._column(batch, "timestamp")) if "timestamp" in has else NO_TIMES,
        )
        if "headers" in has:
            self._run.attach_headers(*row_columns.header_columns(self._column(batch, "headers")))

    def _single(self, batch: pa.RecordBatch, row: int, partition: TopicPartition) -> EncodedBatch:
        """A row that is larger than a batch should be."""
        key = value = timestamp_us = None
        headers: list[tuple[str, bytes | None]] = []
        one = batch.slice(row, 1)
        if "key" in self._places:
            key = row_columns.bytes_at(row_columns.bytes_column(self._column(one, "key")), 0)
        value = row_columns.bytes_at(row_columns.bytes_column(self._column(one, "value")), 0)
        if "headers" in self._places:
            headers = row_columns.headers_at(self._column(one, "headers"), 0)
        if "timestamp" in self._places:
            timestamp_us = row_columns.time_at(self._column(one, "timestamp"), 0)
        timestamp = self._now_ms() if timestamp_us is None else timestamp_us // 1000
        limit = self._limits[partition.topic]
        for codec in dict.fromkeys((self._codec, 0)):  # where compressed it is too large, it may not be without
            builder = BatchBuilder(codec=codec, level=self._options.level)
            builder.append(timestamp, key, value, headers)
            data = builder.build()
            if limit is None or len(data) <= limit:
                break
        else:
            # The broker would say so too, but not of what is larger than any request that it reads.
            raise PipelineError(
                f"cannot deliver 1 records of {len(data)} bytes to {partition}: "
                f"the topic takes no batch of more than {limit} bytes (raise its max.message.bytes)"
            )
        return EncodedBatch(partition, data, 1)

    def _refusal(self, reason: int, batch: pa.RecordBatch, row: int) -> PipelineError:
        if reason == kernels.NULL_TOPIC:
            return PipelineError("null topic present in the data. Use the topic option for setting a default topic.")
        (topic,), _ = self._topics_of(batch.slice(row, 1))
        if reason == kernels.BAD_PARTITION:
            number = self._column(batch, "partition")[row]
            count = self._topics[self._topic_numbers[topic] * kernels.TOPIC_NUMBERS + kernels.TOPIC_PARTITIONS]
            there = "partition 0 only" if count == 1 else f"partitions 0 to {count - 1}"
            return PipelineError(f"a row names partition {number} of topic {topic}, which has {there}")
        if reason == kernels.BAD_TIMESTAMP:
            when = self._column(batch, "timestamp")[row]
            return PipelineError(f"a row for topic {topic} has the timestamp {when}: none is before 1970")
        if reason == kernels.BAD_HEADER:
            return PipelineError(f"a row for topic {topic} has a header without a key")
        return PipelineError(f"a row for topic {topic} is not where its column says it is")


def write_rows(producer: Producer, encoder: RowEncoder, batches: Iterable[pa.RecordBatch]) -> Written:
    """Everything is acknowledged when it returns. A transaction is neither begun nor ended."""
    rows = sent_bytes = 0

    def send(encoded: EncodedBatch) -> int:
        producer.send_encoded(*encoded)
        return len(encoded.data)

    for batch in batches:
        rows += batch.num_rows
        for encoded in encoder.encode(batch):
            sent_bytes += send(encoded)
    for encoded in encoder.rest():
        sent_bytes += send(encoded)
    producer.flush()
    return Written(rows, sent_bytes)
