"""What `stats` found out of a topic. Plain numbers: for JSON (`to_dict`), a terminal, or the page of a report.

Bytes are of three kinds. *Stored* bytes are whole batches as they lie in the log, compressed as they are. *Plain* bytes
are records as batches hold them before compression. *Payload* is keys, values, and names and values of headers alone.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class PartitionStats:
    partition: int
    start: int
    """The first offset that was looked at."""
    end: int
    """Behind the last one."""
    records: int
    stored_bytes: int
    batches: int
    first_ms: int | None
    """The least timestamp of its records; None without any."""
    last_ms: int | None


@dataclass(frozen=True)
class Histogram:
    """Of sizes in bytes. Bins are a power of two cut in eight: a quantile is never off by more than one part in eight
    of itself, and exact below 16. Least, mean and greatest are exact."""

    count: int
    total: int
    least: int
    greatest: int
    bins: tuple[tuple[int, int, int], ...]
    """(from, to, count), `to` exclusive, ascending; those that are empty are left out."""
    quantiles: Mapping[str, int]
    """p50, p90, p99, p999: none is greater than `greatest`."""

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True)
class HotKey:
    key: bytes
    """Its first 256 bytes, if it is longer."""
    key_bytes: int
    """How long it is."""
    records: int
    payload_bytes: int
    share: float
    """Of all records that have a key."""

    @property
    def text(self) -> str:
        """For people: UTF-8 where it is such and can be printed, else hexadecimal."""
        try:
            # The last character of a long key may have been cut.
            text, _ = utf_8_decode(self.key, "strict", len(self.key) == self.key_bytes)
        except UnicodeDecodeError:
            text = ""
        shown = text if text.isprintable() and text else "0x" + self.key.hex() if self.key else "''"
        return shown if len(self.key) == self.key_bytes else shown + "…"


@dataclass(frozen=True)
class KeyStats:
    """Keys of the whole topic: the same key in two partitions is one."""

    distinct: int
    keyed_records: int
    null_records: int
    """Records without a key."""
    several_partitions: int
    """Keys that are in more than one partition: whoever counts on their order looks here."""
    once: int
    """Keys that have a single record."""
    hot: tuple[HotKey, ...]
    """Those with the most records, most first; among equals the key that comes first in the order of bytes."""
    gini: float
    """Of records by key: 0 where each key has as many as any other, near 1 where one has almost all."""
    lorenz: tuple[tuple[float, float], ...]
    """(share of keys, share of records), keys with the fewest records first: from (0, 0) to (1, 1), at most 101."""


@dataclass(frozen=True)
class TimeBucket:
    start_ms: int
    records: int
    payload_bytes: int
    tombstones: int


@dataclass(frozen=True)
class Rates:
    """Records by their timestamps. Buckets are as wide as it takes for at most 240 of them from the first to the last,
    and never empty: time in which nothing was written has none."""

    bucket_ms: int
    buckets: tuple[TimeBucket, ...]
    undated: int
    """Records without a timestamp, or with one before 1970 or beyond the year 9999."""
    busiest_records_per_s: float
    """In the bucket with the most."""
    mean_records_per_s: float
    """From the first timestamp to the last; 0 where they are the same."""
    mean_payload_bytes_per_s: float


@dataclass(frozen=True)
class HeaderName:
    name: str
    records: int
    """That have at least one of this name."""
    count: int
    bytes: int
    """Of names and values."""


@dataclass(frozen=True)
class HeaderStats:
    records: int
    """That have any."""
    count: int
    bytes: int
    names: tuple[HeaderName, ...]
    """Most bytes first; at most 100 of them."""
    other_names: int
    """How many names are not listed."""
    has_more_names: bool = False
    """There are even more: of those behind the first thousand or so only the sums above were kept."""


@dataclass(frozen=True)
class ProducerStats:
    producer_id: int | None
    """None for those that are not idempotent, together."""
    epochs: tuple[int, int] | None
    """The least and the greatest."""
    records: int
    batches: int
    stored_bytes: int
    transactional_records: int
    last_ms: int
    """The greatest timestamp of its batches, −1 without any."""


@dataclass(frozen=True)
class Producers:
    distinct: int
    """Producer ids."""
    listed: tuple[ProducerStats, ...]
    """Most records first; at most 100 of them."""


@dataclass(frozen=True)
class CodecStats:
    """A codec in use."""

    codec: str
    """none, gzip, snappy, lz4 or zstd."""
    batches: int
    records: int
    stored_bytes: int
    plain_bytes: int
    """Of the same batches without compression, their headers included."""

    @property
    def ratio(self) -> float:
        """How many plain bytes one that is stored stands for."""
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0


@dataclass(frozen=True)
class CodecTrial:
    """What the topic would be with a codec, as the sample says."""

    codec: str
    sampled_bytes: int
    """What the sampled batches take with it."""
    estimated_bytes: int
    """What the whole topic would."""
    saved_bytes: int
    """Of what it takes now; below 0 where it would take more."""
    pack_ns_per_byte: float
    """Measured on one core of an executor, by plain byte."""
    unpack_ns_per_byte: float


@dataclass(frozen=True)
class CodecTrials:
    sampled_batches: int
    sampled_stored_bytes: int
    """As they are stored now."""
    trials: tuple[CodecTrial, ...]
    """none, gzip, snappy, lz4, zstd; at their default levels. Empty where the topic is."""


@dataclass(frozen=True)
class Compacted:
    """What is left after compaction up to some offset of each partition, and what that gains."""

    records: int
    """That are left."""
    removed_records: int
    stored_bytes: int
    """That are left."""
    gained_bytes: int
    share: float
    """Gained, of all stored bytes."""


@dataclass(frozen=True)
class CompactionGain:
    """What a run of the cleaner would do: the newest record of each key is left, and keyless and aborted ones are not.

    Tombstones stay through it: a run only notes when they may go. `tombstones` counts those that are left by it and
    would go in a later one, `delete.retention.ms` after. A batch that keeps some gets that time as the base of its
    timestamps, and may become longer by it: where little else goes, a gain may be below 0.
    """

    whole: Compacted
    """If all that was looked at were cleaned: the segment that is being written, too."""
    closed: Compacted | None
    """What a run that comes now does: closed segments only. None for brokers, who do not tell where segments end."""
    tombstones: int
    tombstone_payload_bytes: int
    """About what they take before compression: keys and headers, and a few bytes each."""
    keyless_records: int
    """They would be lost: a topic that has them is none to compact."""
    sampled_batches: int
    """Batches whose records were really filtered and packed again. Bytes are exact where these are all of them."""
    is_exact: bool


@dataclass(frozen=True)
class TimeLimit:
    """retention.ms, counted back from the newest timestamp."""

    name: str
    """1h, 6h, 1d, 3d, 7d or 30d."""
    limit_ms: int
    kept_records: int
    kept_bytes: int
    """Stored, of batches that have a record as young as that, or no timestamp at all. Where there are thousands, some
    may be older than the limit by one part in 48. Brokers delete whole segments: of each partition they keep up to one
    more."""
    share: float


@dataclass(frozen=True)
class SizeLimit:
    """retention.bytes, which holds for each partition by itself."""

    limit_bytes: int
    kept_bytes: int
    share: float
    oldest_ms: int | None
    """The timestamp down to which every partition keeps everything; None where nothing is kept, or dated."""


@dataclass(frozen=True)
class Retention:
    newest_ms: int | None
    times: tuple[TimeLimit, ...]
    sizes: tuple[SizeLimit, ...]
    """1, 10, 100 and 1000 GB, and below that as many powers of ten from 1 MB on as the topic is larger than."""


@dataclass(frozen=True)
class TopicStats:
    topic: str
    source: str
    """Brokers or path, as they were given."""
    partitions: tuple[PartitionStats, ...]
    records: int
    batches: int
    """With data; markers of transactions are counted apart."""
    control_batches: int
    aborted_records: int
    """In batches of aborted transactions: none of the figures of records counts them."""
    stored_bytes: int
    """Of all batches, also of markers and aborted ones."""
    plain_bytes: int
    payload_bytes: int
    tombstones: int
    """Records with a key and no value."""
    null_values: int
    """Records without a value, with or without a key."""
    keys: KeyStats
    key_sizes: Histogram
    """Of keys that are there."""
    value_sizes: Histogram
    """Of values that are there."""
    batch_sizes: Histogram
    """Stored bytes of whole batches with data."""
    batch_records: Histogram
    """How many records each has: the unit is records, not bytes."""
    rates: Rates
    headers: HeaderStats
    producers: Producers
    codecs: tuple[CodecStats, ...]
    """Those in use, most stored bytes first."""
    codec_trials: CodecTrials
    compaction: CompactionGain
    retention: Retention
    skipped: tuple[str, ...] = ()
    """What could not be read and was passed over (option skipCorrupt), one sentence each; at most 100."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def first_ms(self) -> int | None:
        return min((each.first_ms for each in self.partitions if each.first_ms is not None), default=None)

    @property
    def last_ms(self) -> int | None:
        return max((each.last_ms for each in self.partitions if each.last_ms is not None), default=None)

    @property
    def compression_ratio(self) -> float:
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON: keys of records are text, or hexadecimal behind 0x."""
        found = asdict(self)
        found["keys"]["hot"] = [{**asdict(each), "key": each.text, "hex": each.key.hex()} for each in self.keys.hot]
        found |= {"first_ms": self.first_ms, "last_ms": self.last_ms, "compression_ratio": self.compression_ratio}
        for name in ("key_sizes", "value_sizes", "batch_sizes", "batch_records"):
            histogram: Histogram = getattr(self, name)
            found[name] = {**found[name], "quantiles": dict(histogram.quantiles), "mean": histogram.mean}
        return found
