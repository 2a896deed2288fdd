"""Figures of a piece, from its blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from tailrace.record.batch import CODEC_MASK, CONTROL_BIT, HEADER_BYTES, MAGIC_V2
from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.auditing.figures import BINS, MINUTE_MS, MOST_KEYS, CodecFigures, TopicFigures
from tailrace.spark.auditing.task.block import Block, Numbers

SMALL_PIECE_BYTES: Final = 4 << 20
ONE_OF: Final = 64
DIGEST_BYTES: Final = 8


class Counting:
    """`sampled_of`: of how many records one is taken to see which keys are frequent."""

    def __init__(self, piece_bytes: int, *, is_first: bool) -> None:
        self.figures = TopicFigures(files=1 if is_first else 0)
        self.sampled_of = 1 if piece_bytes <= SMALL_PIECE_BYTES else ONE_OF
        self._keys: Counter[bytes | None] = Counter()
        self._sampled = 0
        self._batch_bytes = np.zeros(BINS, np.int64)
        self._batch_records = np.zeros(BINS, np.int64)

    def sample(self, keys: Sequence[bytes | None]) -> None:
        """Keys of some records, each of which was taken as one of `sampled_of`. Long ones may be cut."""
        self._keys.update(keys)
        self._sampled += len(keys)
        if len(self._keys) > 2 * MOST_KEYS:
            self._digest_keys()

    def _digest_keys(self) -> None:
        figures, weight = self.figures, self.sampled_of
        figures.sampled_records += self._sampled * weight
        figures.sampled_keyless += self._keys.pop(None, 0) * weight
        for key, count in self._keys.items():
            figures.key_sample[blake2b(key or b"", digest_size=DIGEST_BYTES).digest()] += count * weight
        figures.trim_keys(MOST_KEYS)
        self._keys.clear()
        self._sampled = 0

    def block(self, block: Block, plain_bytes: Numbers) -> None:
        """`plain_bytes` of each batch: its records without compression."""
        figures, sizes = self.figures, block.size
        records = np.maximum(block.record_count, 0)
        is_control = (block.attributes & CONTROL_BIT != 0) & (block.magic == MAGIC_V2)
        figures.batches += len(block)
        figures.bytes += int(sizes.sum())
        figures.records += int(records.sum())
        figures.control_batches += int(np.count_nonzero(is_control))
        self._batch_bytes += _histogram(sizes)
        self._batch_records += _histogram(records)
        self._count_codecs(block, records, plain_bytes)
        self._count_minutes(block, records)

    def done(self) -> TopicFigures:
        figures = self.figures
        figures.batch_bytes = self._batch_bytes.tolist()
        figures.batch_records = self._batch_records.tolist()
        self._digest_keys()
        return figures

    def _count_codecs(self, block: Block, records: Numbers, plain_bytes: Numbers) -> None:
        codecs = block.attributes & CODEC_MASK
        stored = np.maximum(block.size - HEADER_BYTES, 0)
        numbers = [int(codecs[0])] if codecs.min() == codecs.max() else np.unique(codecs).tolist()
        for number in numbers:
            chosen = codecs == number
            name = CODEC_NAMES[number] if number < len(CODEC_NAMES) else str(number)
            self.figures.codecs.setdefault(name, CodecFigures()).add(
                CodecFigures(
                    batches=int(np.count_nonzero(chosen)),
                    records=int(records[chosen].sum()),
                    bytes=int(stored[chosen].sum()),
                    plain_bytes=int(plain_bytes[chosen].sum()),
                )
            )

    def _count_minutes(self, block: Block, records: Numbers) -> None:
        minutes = block.max_timestamp // MINUTE_MS
        if (minutes < 0).any():
            is_timed = minutes >= 0
            self.figures.dropped_minutes += int(np.count_nonzero(~is_timed))
            minutes, sizes, records = minutes[is_timed], block.size[is_timed], records[is_timed]
            if not len(minutes):
                return
        else:
            sizes = block.size
        if minutes.min() == minutes.max():
            self.figures.add_minute(int(minutes[0]), int(sizes.sum()), int(records.sum()), len(minutes))
            return
        found, places = np.unique(minutes, return_inverse=True)
        bytes_of = np.bincount(places, sizes).astype(np.int64).tolist()
        counts = np.bincount(places, records).astype(np.int64).tolist()
        batches = np.bincount(places).tolist()
        for each in zip(found.tolist(), bytes_of, counts, batches, strict=True):
            self.figures.add_minute(*each)


def _histogram(numbers: Numbers) -> Numbers:
    """How many are in each bin; see BINS."""
    exponents = np.frexp(numbers.astype(np.float64))[1]
    return np.bincount(np.minimum(exponents, BINS - 1), minlength=BINS).astype(np.int64)
