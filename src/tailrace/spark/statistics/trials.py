"""Sampled batches, really packed again: by each codec, and without the records that compaction would take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.model.errors import TailraceError
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.compression import CODEC_NAMES, compress, decompress
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.spark.source.reframing import records_of_legacy
from tailrace.spark.statistics.sample import SampledBatch
from tailrace.spark.statistics.sifting import Sifter
from tailrace.spark.statistics.sizes import Numbers, add_numbers

Weights = npt.NDArray[np.float64]

_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Superseded:
    """What the sieve is told of the sampled batches of a topic."""

    offsets: Mapping[int, Numbers]
    """Partition → offsets of records that go for a newer one."""
    ends: Mapping[int, int]
    """Partition → where the clean ends: the batch before stays, if only as an empty one."""

    @cached_property
    def sorted(self) -> Mapping[int, Numbers]:
        return {partition: np.sort(offsets) for partition, offsets in self.offsets.items()}


@dataclass(frozen=True)
class TrialRules:
    whole: Superseded
    closed: Superseded | None
    last_offsets: frozenset[tuple[int, int]]
    """Partition and offset of the last batch of each active producer."""
    now_ms: int


OLD, GONE, LEFT, NEW = range(4)


@dataclass
class Sieved:
    """Of each batch there are four numbers: bytes as they are, sizes of records that go, sizes of those that stay (as
    `tally.Records` has them), and bytes that are left."""

    sums: Weights = field(default_factory=lambda: np.zeros(4))
    """Weighed, over batches."""
    products: Weights = field(default_factory=lambda: np.zeros((4, 4)))
    """Of each with each, weighed, over batches."""
    left_bytes: int = 0
    """What is left of the sampled batches themselves."""

    def take(self, other: Sieved) -> None:
        self.sums = self.sums + other.sums
        self.products = self.products + other.products
        self.left_bytes += other.left_bytes


@dataclass
class PackedBy:
    weighed_bytes: float = 0.0
    bytes: int = 0
    pack_ns: int = 0
    unpack_ns: int = 0

    def take(self, other: PackedBy) -> None:
        add_numbers(self, other)


@dataclass
class Trials:
    batches: int = 0
    failed: int = 0
    """Batches that could not be read: they were told as damaged before."""
    stored_bytes: int = 0
    plain_bytes: int = 0
    weighed_plain_bytes: float = 0.0
    codecs: dict[str, PackedBy] = field(default_factory=dict)
    whole: Sieved = field(default_factory=Sieved)
    closed: Sieved = field(default_factory=Sieved)

    def take(self, other: Trials) -> None:
        for name, packed in other.codecs.items():
            self.codecs.setdefault(name, PackedBy()).take(packed)
        add_numbers(self, other)
        self.whole.take(other.whole)
        self.closed.take(other.closed)


def try_batches(rules: TrialRules, batches: Iterable[SampledBatch]) -> Trials:
    """Runs in a task."""
    trials = Trials()
    sifter = Sifter(rules.now_ms)
    for each in batches:
        try:
            trials.take(_tried(rules, each, sifter))
        except TailraceError:
            trials.failed += 1
    return trials


def _tried(rules: TrialRules, sampled: SampledBatch, sifter: Sifter) -> Trials:
    batch = next_batch(sampled.data, 0, len(sampled.data))
    if batch is None:
        return Trials(failed=1)
    found = Trials(1, 0, len(sampled.data))
    _pack(found, sampled, batch)
    is_last = (sampled.partition, sampled.last_offset) in rules.last_offsets
    found.whole = _sieved(sampled, batch, sifter, rules.whole, is_last)
    if rules.closed is not None and sampled.is_closed:
        found.closed = _sieved(sampled, batch, sifter, rules.closed, is_last)
    return found


def _pack(found: Trials, sampled: SampledBatch, batch: ShallowBatch) -> None:
    plain = _plain(sampled.data, batch)
    found.plain_bytes = HEADER_BYTES + len(plain)
    found.weighed_plain_bytes = sampled.weight * found.plain_bytes
    for codec, name in enumerate(CODEC_NAMES):
        begun = time.thread_time_ns()
        packed = compress(codec, plain)
        is_packed = time.thread_time_ns()
        decompress(codec, packed, MAX_DECOMPRESSED_BYTES)
        unpack_ns = time.thread_time_ns() - is_packed
        size = HEADER_BYTES + len(packed)
        found.codecs[name] = PackedBy(sampled.weight * size, size, is_packed - begun, unpack_ns)


def _plain(data: bytes, batch: ShallowBatch) -> bytes:
    """The records as format v2 has them."""
    if not batch.is_v2:
        return b"".join(bytes(each.data) for each in records_of_legacy(data, batch))
    packed = memoryview(data)[HEADER_BYTES : batch.end]
    return decompress(batch.codec, packed, MAX_DECOMPRESSED_BYTES) if batch.codec else bytes(packed)


def _sieved(
    sampled: SampledBatch, batch: ShallowBatch, sifter: Sifter, superseded: Superseded, is_last: bool
) -> Sieved:
    gone = superseded.sorted.get(sampled.partition, _NONE)
    end = superseded.ends.get(sampled.partition, sampled.last_offset + 1)
    sifted = sifter.sift(sampled.data, batch, gone, keeps_empty=is_last or batch.next_offset == end)
    numbers = np.array([len(sampled.data), sifted.gone_sizes, sifted.left_sizes, sifted.bytes], np.float64)
    return Sieved(sampled.weight * numbers, sampled.weight * np.outer(numbers, numbers), sifted.bytes)
