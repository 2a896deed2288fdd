"""A decoder that shows batches beside their rows, the same for files and brokers.

A batch is seen before its rows come, and counted when it is known whether its transaction was aborted, and whether it
could be read. One that two pieces share is counted by the one that it begins in; an old one with messages in it, which
does not say where it begins, by the one that it ends in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.client.fetcher import AbortedTransaction
from tailrace.env.files import Buffer
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.source.aborted import AbortedTransactions, EndedTransaction
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.source.reframing import Records
from tailrace.spark.statistics.producers import PieceProducers
from tailrace.spark.statistics.sample import BatchSample
from tailrace.spark.statistics.seen import Marks, Numbers, Seen, batches_in, is_wrapper
from tailrace.spark.statistics.tally import MOST_SKIPPED, Tally


class BatchWatch:
    """What the batches of one piece come to: in the tally, the sample, and the producers."""

    def __init__(
        self,
        piece: OffsetRange,
        tally: Tally,
        sample: BatchSample,
        *,
        is_first: bool,
        closed_to: int | None,
        now_ms: int,
    ) -> None:
        """`is_first`: no piece comes before this one, and a batch that begins before it is its own."""
        self._piece = piece
        self._tally = tally
        self._sample = sample
        self._is_first = is_first
        self._closed_to = closed_to
        self._now_ms = now_ms
        self._seen_to = max(piece.start, 0)
        self._aborted: set[int] = set()
        self._damaged: list[tuple[int, int]] = []
        self._wrapped: dict[int, int] = {}  # last offset of a wrapper → records that are in it
        self._expired: list[tuple[int, int]] = []
        self.producers = PieceProducers(sample)

    def see(self, buffer: Buffer, *, skips_corrupt: bool) -> list[Seen]:
        """The batches of a buffer that were not seen yet, and are this piece's."""
        found = []
        for seen in batches_in(buffer, self._seen_to, self._piece.end, skips_corrupt=skips_corrupt):
            self._seen_to = int(seen.last_offset[-1]) + 1 if len(seen) else self._seen_to
            has_passed = seen.where(seen.has_passed(self._now_ms) & ~seen.is_control)
            self._expired += zip(has_passed.base_offset.tolist(), has_passed.last_offset.tolist(), strict=True)
            if not self._is_first:
                seen = seen.where(seen.base_offset >= self._piece.start)
            if len(seen):
                self._choose(buffer, seen)
                found.append(seen)
        return found

    def _choose(self, buffer: Buffer, seen: Seen) -> None:
        is_inside = (seen.base_offset >= self._piece.start) & (seen.last_offset < self._piece.end)
        may_be_chosen = ~seen.is_control & ~seen.is_wrapper
        self._sample.passed_over += int((~is_inside & may_be_chosen).sum())
        numbers = self._sample.numbers(seen.base_offset)
        view = memoryview(buffer)
        for row in np.flatnonzero(is_inside & may_be_chosen & self._sample.wants(numbers)).tolist():
            if self._sample.wants(numbers[row]):  # there may be less room than a moment ago
                start = int(seen.start[row])
                data = bytes(view[start : start + int(seen.size[row])])
                base, last = int(seen.base_offset[row]), int(seen.last_offset[row])
                self._sample.add(int(numbers[row]), base, last, data, int(seen.record_count[row]))

    def _choose_wrapper(self, buffer: Buffer, batch: ShallowBatch, base_offset: int, records: int) -> None:
        if base_offset < self._piece.start or batch.last_offset >= self._piece.end:
            self._sample.passed_over += 1
            return
        (number,) = self._sample.numbers(np.array([base_offset], np.int64))
        if self._sample.wants(number):
            data = bytes(memoryview(buffer)[batch.position : batch.end])
            self._sample.add(int(number), base_offset, batch.last_offset, data, records)

    def aborted(self, batch: ShallowBatch) -> None:
        self._aborted.add(batch.base_offset)
        self._sample.remove(batch.base_offset)

    def opened(self, buffer: Buffer, batch: ShallowBatch, groups: Sequence[Records]) -> None:
        begins = batch.last_offset if is_wrapper(batch) else batch.base_offset
        if begins >= self._piece.end or (begins < self._piece.start and not self._is_first):
            return
        if is_wrapper(batch):
            self._wrapped[batch.last_offset] = sum(each.record_count for each in groups)
            self._choose_wrapper(buffer, batch, groups[0].base_offset, self._wrapped[batch.last_offset])
        if batch.codec:
            plain = HEADER_BYTES + sum(len(each.data) for each in groups)
            self._tally.add_plain(batch.codec, plain - batch.size)

    def count(self, found: Sequence[Seen]) -> None:
        partition = self._piece.partition.partition
        aborted = np.fromiter(self._aborted, np.int64, len(self._aborted))
        damaged = np.array(sorted(self._damaged), np.int64).reshape(-1, 2)
        for seen in map(self._unwrapped, found):
            is_aborted = np.isin(seen.base_offset, aborted) & ~seen.is_control
            is_damaged = _overlap(seen, damaged) & ~seen.is_control
            for base_offset in seen.base_offset[is_damaged].tolist():
                self._sample.remove(base_offset)
            data = self._tally.add_batches(partition, seen, is_aborted, is_damaged, self._closed_to, self._now_ms)
            self.producers.add(data, data.record_count)
            lost = seen.where(is_aborted)
            self.producers.add(lost, np.zeros(len(lost), np.int64))
        self._aborted.clear()
        self._damaged.clear()
        self._wrapped.clear()

    def _unwrapped(self, seen: Seen) -> Seen:
        if not self._wrapped or not seen.is_wrapper.any():
            return seen
        inside = [self._wrapped.get(last, 0) for last in seen.last_offset.tolist()]
        return replace(seen, record_count=np.where(seen.is_wrapper, inside, seen.record_count))

    def expired(self, offset: int) -> tuple[Numbers, Numbers]:
        """First and last offsets of batches whose tombstones may go now, ascending, from `offset` on."""
        self._expired = [each for each in self._expired if each[1] >= offset]
        pairs = np.array(self._expired, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def skipped(self, first: int, behind: int, why: str) -> None:
        self._damaged.append((first, behind))
        if len(self._tally.skipped) < MOST_SKIPPED:
            self._tally.skipped.append(f"{self._piece.partition}: offsets {first} to {behind - 1}: {why}")


def _overlap(seen: Seen, ranges: Numbers) -> Marks:
    """Which batches have offsets in one of the ranges [first, behind), which ascend and do not overlap themselves."""
    begun = np.searchsorted(ranges[:, 0], seen.last_offset, side="right")
    ended = np.searchsorted(ranges[:, 1], seen.base_offset, side="right")
    marks: Marks = begun > ended
    return marks


class WatchedDecoder(Decoder):
    def __init__(self, watch: BatchWatch, columns: Columns, piece: OffsetRange, **more: Any) -> None:
        on_corrupt = more.pop("on_corrupt", None)

        def corrupt(first: int, behind: int, why: str) -> None:
            watch.skipped(first, behind, why)
            if on_corrupt is not None:
                on_corrupt(first, behind, why)

        super().__init__(columns, piece, on_corrupt=corrupt, **more)
        self._watch = watch
        self._aborted = _WatchedTransactions(watch)

    def decode(
        self, buffer: Buffer, aborted: Sequence[AbortedTransaction | EndedTransaction] = ()
    ) -> Iterator[pa.RecordBatch]:
        found = self._watch.see(buffer, skips_corrupt=self._skips_corrupt)
        try:
            yield from super().decode(buffer, aborted)
        finally:
            self._watch.count(found)

    def _opened(self, buffer: Buffer, batch: ShallowBatch) -> list[Records]:
        groups = super()._opened(buffer, batch)
        if groups:
            self._watch.opened(buffer, batch, groups)
        return groups


class _WatchedTransactions(AbortedTransactions):
    def __init__(self, watch: BatchWatch) -> None:
        super().__init__()
        self._watch = watch

    def has(self, buffer: Buffer, batch: ShallowBatch) -> bool:
        is_aborted = super().has(buffer, batch)
        if is_aborted:
            self._watch.aborted(batch)
        return is_aborted
