"""What the crash demo does to a log, step by step; each step gives back what it found. Nothing is printed here.

The log stands for the partition of a topic `orders`. There is no broker: the story plays the parts of producers,
transaction coordinator, a follower that lags, and the crash.
"""

from __future__ import annotations

import json
import random
import time
from typing import Final, NamedTuple

from tailrace.config.log import LogConfig
from tailrace.env import Env, Mode, write_fully
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.storage import names
from tailrace.storage.append import AppendResult
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.fetch import Isolation
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.origin import Origin
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import DirectoryCheck, Finding
from tailrace.storage.warm import WarmSet

PARTITION: Final = TopicPartition("orders", 0)
CONFIG: Final = LogConfig.of({"segment.bytes": "1048576", "index.interval.bytes": "4096"})
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BATCHES_PER_ROUND: Final = (5, 2, 2, 2, 2)  # of each codec
RECORDS_PER_BATCH: Final = 500
MILLISECONDS_BETWEEN_RECORDS: Final = 40
ROUNDS_BEFORE: Final = 7
ROUNDS_AFTER: Final = 3
LEADER_EPOCH: Final = 0
IDEMPOTENT, COMMITTING, ABORTING, UNDECIDED = 4001, 4002, 4003, 4004
FETCH_BYTES: Final = 1 << 20
ITEMS: Final = ("teapot", "lamp", "chair", "kettle", "mirror", "clock")


class CodecFacts(NamedTuple):
    name: str
    records: int
    stored_bytes: int


class Written(NamedTuple):
    records: int
    stored_bytes: int
    building_s: float
    appending_s: float
    codecs: tuple[CodecFacts, ...]


class Idempotence(NamedTuple):
    first: AppendResult
    resent: AppendResult
    gap: TailraceError | None


class Offsets(NamedTuple):
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    recovery_point: int


class SegmentFacts(NamedTuple):
    name: str
    first_offset: int
    next_offset: int
    bytes: int
    index_entries: int
    time_entries: int
    aborted: int


class ReadBack(NamedTuple):
    isolation: Isolation
    up_to: int
    records: int
    hidden: int  # records of aborted transactions
    bytes: int
    took_s: float


class Lookup(NamedTuple):
    timestamp: int
    found: FoundOffset | None
    took_s: float


class Recovery(NamedTuple):
    torn_bytes: int
    end_before: int
    end_after: int
    took_s: float
    proven_from: int
    resent: AppendResult


class Verified(NamedTuple):
    check: DirectoryCheck
    findings: list[Finding]
    took_s: float


class Story:
    """Call the steps in the order in which they stand here."""

    def __init__(self, env: Env, directory: str) -> None:
        self._env = env
        self._parent = directory
        self.directory = f"{directory}/{names.partition_dir_name(PARTITION)}"
        self._random = random.Random(20)
        self._warm = WarmSet(16)
        self._topic_id = TopicId(self._random.randbytes(16))
        self._records_made = 0
        self._start_ms = env.clock.now_ms() - 3_600_000
        self._last_idempotent = b""
        self._codecs = [CodecFacts(name, 0, 0) for name in CODECS]
        self._building_s = self._appending_s = 0.0
        self.log = self._load(LoadOptions(topic_id=self._topic_id))

    def _load(self, options: LoadOptions) -> UnifiedLog:
        return load(self._env, self.directory, CONFIG, self._warm, options)

    # Producers

    def write_orders(self, rounds: int) -> Written:
        """Batches of every codec."""
        for _ in range(rounds):
            for codec, count in enumerate(BATCHES_PER_ROUND):
                sets = [self._batch(codec=codec) for _ in range(count)]
                stored = sum(map(len, sets))
                self._append(sets)
                facts = self._codecs[codec]
                self._codecs[codec] = facts._replace(
                    records=facts.records + count * RECORDS_PER_BATCH, stored_bytes=facts.stored_bytes + stored
                )
        return self.written()

    def written(self) -> Written:
        stored = sum(each.stored_bytes for each in self._codecs)
        records = sum(each.records for each in self._codecs)
        return Written(records, stored, self._building_s, self._appending_s, tuple(self._codecs))

    def write_idempotently(self) -> Idempotence:
        """A batch, the same batch again as after a lost answer, and one that comes after a hole in the sequence."""
        batch = self._batch(producer_id=IDEMPOTENT, base_sequence=0)
        first = self._append([bytearray(batch)])[0]
        resent = self._append([bytearray(batch)])[0]
        skipping = self._batch(producer_id=IDEMPOTENT, base_sequence=2 * RECORDS_PER_BATCH)
        self._last_idempotent = bytes(batch)
        return Idempotence(first, resent, self._append([skipping])[0].error)

    def write_transactions(self) -> None:
        """Three at once: one commits, one aborts, one never says."""
        for sequence in (0, RECORDS_PER_BATCH):
            for producer_id in (COMMITTING, ABORTING):
                self._append([self._batch(producer_id=producer_id, base_sequence=sequence, transactional=True)])
        self._end_transaction(COMMITTING, COMMIT)
        self._end_transaction(ABORTING, ABORT)
        self._append([self._batch(producer_id=UNDECIDED, base_sequence=0, transactional=True)])

    def _end_transaction(self, producer_id: int, outcome: int) -> None:
        marker = end_txn_marker(
            outcome,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self._start_ms + self._records_made * MILLISECONDS_BETWEEN_RECORDS,
        )
        self._append([marker], Origin.COORDINATOR)

    def _batch(
        self, codec: int = 0, producer_id: int = -1, base_sequence: int = -1, transactional: bool = False
    ) -> bytearray:
        began = time.perf_counter()
        builder = BatchBuilder(
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        for _ in range(RECORDS_PER_BATCH):
            number = self._records_made
            self._records_made += 1
            value = {
                "order": number,
                "item": self._random.choice(ITEMS),
                "amount": self._random.randrange(100, 20_000) / 100,
                "paid": self._random.random() < 0.9,
            }
            builder.append(
                self._start_ms + number * MILLISECONDS_BETWEEN_RECORDS,
                b"customer-%d" % self._random.randrange(5000),
                json.dumps(value).encode(),
            )
        built = builder.build()
        self._building_s += time.perf_counter() - began
        return built

    def _append(self, sets: list[bytearray], origin: Origin = Origin.CLIENT) -> list[AppendResult]:
        began = time.perf_counter()
        results = self.log.append_as_leader(sets, LEADER_EPOCH, origin)
        self._appending_s += time.perf_counter() - began
        return results

    # Readers

    def follow(self) -> None:
        """The follower has everything but the last batches, so the high watermark stays behind the log end."""
        self.log.update_high_watermark(self.log.log_end_offset - sum(BATCHES_PER_ROUND) // 2 * RECORDS_PER_BATCH)

    def offsets(self) -> Offsets:
        log = self.log
        return Offsets(
            log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset, log.recovery_point
        )

    def segments(self) -> list[SegmentFacts]:
        segments = list(self.log.local.segments)
        bases = [segment.base_offset for segment in segments]
        return [
            SegmentFacts(
                names.log_name(segment.base_offset),
                segment.base_offset,
                next_offset,
                segment.size,
                segment.offset_index.entries,
                segment.time_index.entries,
                segment.txn_index.entries,
            )
            for segment, next_offset in zip(segments, [*bases[1:], self.log.log_end_offset], strict=True)
        ]

    def read_back(self, isolation: Isolation) -> ReadBack:
        """As a consumer does: fetch, skip markers, skip what was aborted."""
        began = time.perf_counter()
        offset = self.log.log_start_offset
        records = hidden = size = 0
        while True:
            fetched = self.log.read(offset, FETCH_BYTES, isolation)
            data = fetched.read()
            size += len(data)
            aborted = {each.producer_id: each for each in fetched.aborted or ()}
            before = offset
            for batch in batches(data):
                offset = batch.next_offset
                if batch.is_control:
                    continue
                if _is_aborted(batch, aborted.get(batch.producer_id)):
                    hidden += batch.record_count
                else:
                    records += batch.record_count
            if offset == before:
                return ReadBack(isolation, offset, records, hidden, size, time.perf_counter() - began)

    def look_up(self, minutes_after_start: int) -> Lookup:
        timestamp = self._start_ms + minutes_after_start * 60_000
        began = time.perf_counter()
        found = self.log.offset_by_time(timestamp)
        return Lookup(timestamp, found, time.perf_counter() - began)

    # The end, and after it

    def crash_and_recover(self) -> Recovery:
        """The process dies in the middle of a write: half a batch stands at the end, nothing was closed."""
        end_before = self.log.log_end_offset
        points = OffsetCheckpoint(self._env.files, f"{self._parent}/recovery-point-offset-checkpoint")
        points.write({PARTITION: self.log.recovery_point})
        half = self._batch()[:20_000]
        path, size = self.log.local.active.records.path, self.log.local.active.size
        self.log.abandon()
        file = self._env.files.open(path, Mode.WRITE)
        write_fully(file, (half,), size)
        file.close()
        began = time.perf_counter()
        proven_from = points.read()[PARTITION]
        self.log = self._load(LoadOptions(recovery_point=proven_from, topic_id=self._topic_id))
        took_s = time.perf_counter() - began
        end_after = self.log.log_end_offset
        resent = self._append([bytearray(self._last_idempotent)])[0]
        return Recovery(len(half), end_before, end_after, took_s, proven_from, resent)

    def close_and_verify(self) -> Verified:
        self.log.close()
        began = time.perf_counter()
        check = DirectoryCheck(self._env.files, self.directory)
        findings = list(check.run())
        return Verified(check, findings, time.perf_counter() - began)


def _is_aborted(batch: ShallowBatch, aborted: AbortedTxn | None) -> bool:
    """Enough for this story, in which no producer has a transaction after an aborted one."""
    return batch.is_transactional and aborted is not None and batch.base_offset >= aborted.first_offset
