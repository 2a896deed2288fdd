"""What an audit counts on the way, for its report. Sums only: figures of pieces add up to those of a topic."""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

BINS: Final = 40
"""Of histograms: bin b has what is in [2^(b−1), 2^b); bin 0 has zeros."""
MINUTE_MS: Final = 60_000
MOST_MINUTES: Final = 20_000
MOST_KEYS: Final = 20_000


@dataclass
class CodecFigures:
    batches: int = 0
    records: int = 0
    bytes: int = 0
    """Of records as they are stored: compressed, without headers of batches."""
    plain_bytes: int = 0
    """Of the same records without compression."""

    def add(self, other: CodecFigures) -> None:
        self.batches += other.batches
        self.records += other.records
        self.bytes += other.bytes
        self.plain_bytes += other.plain_bytes


@dataclass
class TopicFigures:
    files: int = 0
    bytes: int = 0
    """Of batches, whole."""
    batches: int = 0
    control_batches: int = 0
    records: int = 0
    codecs: dict[str, CodecFigures] = field(default_factory=dict)
    """By name: none, gzip, snappy, lz4, zstd."""
    minutes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Minute since 1970 of a batch's greatest timestamp → bytes and records. Minutes in hostile numbers are left out:
    at most MOST_MINUTES are kept, and `dropped_minutes` counts the batches of others."""
    dropped_minutes: int = 0
    batch_bytes: list[int] = field(default_factory=lambda: [0] * BINS)
    batch_records: list[int] = field(default_factory=lambda: [0] * BINS)
    key_sample: Counter[builtins.bytes] = field(default_factory=Counter)
    """Digests of the keys of sampled records → how many records they stand for; the MOST_KEYS most frequent ones. Of a
    small piece every record is taken, of a large one each record taken stands for many."""
    sampled_records: int = 0
    """That the sample stands for."""
    sampled_keyless: int = 0

    def add(self, other: TopicFigures) -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.batches += other.batches
        self.control_batches += other.control_batches
        self.records += other.records
        for name, codec in other.codecs.items():
            self.codecs.setdefault(name, CodecFigures()).add(codec)
        for minute, (size, records) in other.minutes.items():
            self.add_minute(minute, size, records, 1)
        self.dropped_minutes += other.dropped_minutes
        self.batch_bytes = [a + b for a, b in zip(self.batch_bytes, other.batch_bytes, strict=True)]
        self.batch_records = [a + b for a, b in zip(self.batch_records, other.batch_records, strict=True)]
        self.key_sample.update(other.key_sample)
        self.trim_keys(MOST_KEYS)
        self.sampled_records += other.sampled_records
        self.sampled_keyless += other.sampled_keyless

    def add_minute(self, minute: int, size: int, records: int, batches: int) -> None:
        before = self.minutes.get(minute)
        if before is None and len(self.minutes) >= MOST_MINUTES:
            self.dropped_minutes += batches
            return
        had_bytes, had_records = before or (0, 0)
        self.minutes[minute] = had_bytes + size, had_records + records

    def trim_keys(self, most: int) -> None:
        """Let go of the rarest keys of the sample beyond `most`; of equally rare ones, the same everywhere."""
        if len(self.key_sample) > most:
            kept = sorted(self.key_sample.items(), key=lambda item: (-item[1], item[0]))[:most]
            self.key_sample = Counter(dict(kept))
