"""A log written through the engine's public calls, and beside it a note of what must be found in it.

Real files, a clock of its own. The note is made from what is put in: it never looks into the log.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tailrace.config.log import MAX_LONG, LogConfig
from tailrace.env import Env, InlineJobs
from tailrace.env.real import RealFiles
from tailrace.model.ids import TopicId
from tailrace.record.batch import BatchHeader
from tailrace.record.builder import batch_of
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import batches
from tailrace.sim.clock import SimClock
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000
TOPIC_ID = TopicId(bytes(range(1, 17)))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = LogConfig(
    segment_bytes=2500,
    segment_index_bytes=960,
    index_interval_bytes=200,
    segment_ms=MAX_LONG,
    message_timestamp_after_max_ms=MAX_LONG,
)


class Sent(NamedTuple):
    """A record as it was given to the builder."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Marker(NamedTuple):
    """A control record."""

    kind: str
    coordinator_epoch: int


class Producer(NamedTuple):
    producer_id: int
    epoch: int = 0


@dataclass
class Written:
    """One batch that must be in the log: some of its fields by Kafka's names, and its records by offset."""

    first: int
    last: int
    fields: dict[str, Any]
    records: dict[int, Sent | Marker] = field(default_factory=dict)


class Scribe:
    """Leader and follower of one log, and its coordinator. Leaving nothing open is the caller's affair: `close`."""

    def __init__(self, directory: Path, config: LogConfig = CONFIG, topic_id: TopicId = TOPIC_ID) -> None:
        self.directory = directory
        self.config = config
        self.clock = SimClock(T0 + HOUR_MS)
        self.epoch = 0
        self.written: list[Written] = []
        self.next_offset = 0
        self.sequences: dict[Producer, int] = {}
        self.coordinator_epoch = 0
        self.was_interrupted = False
        """Closed, killed or cut in between: where index entries come next is then no longer a matter of bytes alone."""
        self._topic_id = topic_id
        self.log = self.open()

    def open(self, **options: Any) -> UnifiedLog:
        files = RealFiles()
        env = Env(files=files, clock=self.clock, jobs=InlineJobs(), random=random.Random(0))
        told = LoadOptions(topic_id=self._topic_id, **options)
        self.log = load(env, str(self.directory), self.config, WarmSet(8), told)
        return self.log

    def use(self, **settings: Any) -> None:
        self.config = replace(self.config, **settings)
        self.log.use_config(self.config)

    # Writing

    def send(
        self, records: Sequence[Sent], codec: int = 0, producer: Producer | None = None, transactional: bool = False
    ) -> int:
        """One batch as a client sends it; its base offset."""
        fields: dict[str, Any] = {"codec": codec}
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = (sequence + len(records)) % 2**31
            fields |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
            fields |= {"base_sequence": sequence, "transactional": transactional}
        batch = batch_of(records, **fields)
        wanted: dict[str, Any] = {
            "baseSequence": fields.get("base_sequence", -1),
            "producerId": fields.get("producer_id", -1),
            "producerEpoch": fields.get("producer_epoch", -1),
            "isTransactional": transactional,
            "isControl": False,
            "compresscodec": CODECS[codec],
            "timestampType": "CreateTime",
            "maxTimestamp": max(record.timestamp for record in records),
            # Outside of what a leader may change, so that the records are those that were sent, byte for byte.
            "crc": BatchHeader.at(batch).crc,
            "size": len(batch),
        }
        return self._append(batch, records, wanted)

    def send_set(self, message_set: bytes, records: Sequence[Sent], **fields: Any) -> int:
        """Anything else a client may send, which the leader makes into one batch of magic 2."""
        return self._append(bytearray(message_set), records, {"magic": 2, **fields})

    def _append(self, data: bytearray, records: Sequence[Sent], wanted: dict[str, Any]) -> int:
        if self.config.message_timestamp_type == "LogAppendTime":
            now_ms = self.clock.now_ms()
            records = [record._replace(timestamp=now_ms) for record in records]
            del wanted["crc"]
            wanted |= {"timestampType": "LogAppendTime", "maxTimestamp": now_ms}
        base = self.next_offset
        (result,) = self.log.append_as_leader([data], self.epoch)
        assert result.error is None, result.error
        assert (result.first_offset, result.last_offset) == (base, base + len(records) - 1)
        wanted["partitionLeaderEpoch"] = self.epoch
        self._note(base, dict(enumerate(records, base)), wanted)
        return base

    def end(self, producer: Producer, commit: bool) -> int:
        """The coordinator's marker; its offset."""
        marker = end_txn_marker(
            COMMIT if commit else ABORT,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=self.clock.now_ms(),
        )
        base = self.next_offset
        (result,) = self.log.append_as_leader([marker], self.epoch, Origin.COORDINATOR)
        assert result.error is None, result.error
        wanted = {
            "producerId": producer.producer_id,
            "producerEpoch": producer.epoch,
            "isTransactional": True,
            "isControl": True,
            "compresscodec": "none",
            "maxTimestamp": self.clock.now_ms(),
            "partitionLeaderEpoch": self.epoch,
        }
        self._note(base, {base: Marker("COMMIT" if commit else "ABORT", self.coordinator_epoch)}, wanted)
        return base

    def follow(self, data: bytes | bytearray, records: dict[int, Sent], last: int | None = None, **fields: Any) -> None:
        """One entry of a leader's log, with offsets, which must stay as it is."""
        (entry,) = batches(data)
        first = fields.get("baseOffset", min(records, default=self.next_offset))
        self.log.append_as_follower(bytearray(data))
        self._note(first, records, {"crc": entry.crc, "size": len(data), **fields}, last)

    def _note(self, first: int, records: dict[int, Any], fields: dict[str, Any], last: int | None = None) -> None:
        end = max(records, default=first) if last is None else last
        self.written.append(Written(first, end, fields, records))
        self.next_offset = end + 1
        self.clock.advance(10)

    # Ending

    def close(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.close()

    def reopen(self) -> None:
        self.close()
        self.open(was_clean=True)
        self.was_interrupted = True

    def kill(self, recovery_point: int = 0) -> None:
        """The process is gone in the middle of everything; another one takes the directory over."""
        self.log.abandon()
        self.open(recovery_point=recovery_point)
        self.was_interrupted = True

    def truncate(self, offset: int) -> None:
        """A batch that holds the offset goes as a whole; the log goes on at the offset all the same."""
        self.log.truncate_to(offset)
        self.next_offset = offset
        self.written = [written for written in self.written if written.last < offset]
        self.was_interrupted = True

    def restart_at(self, offset: int) -> None:
        self.log.restart_at(offset)
        self.next_offset = offset
        self.written = []
        self.was_interrupted = True


def texts(name: str, count: int, start_ms: int = T0, step_ms: int = 10, size: int = 40) -> list[Sent]:
    """Records with short texts, so that compression pays."""
    return [
        Sent(start_ms + n * step_ms, f"{name}-{n}".encode(), (f"{name}={n} " * size)[:size].encode())
        for n in range(count)
    ]
