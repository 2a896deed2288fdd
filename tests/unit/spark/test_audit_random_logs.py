"""Logs that the storage engine wrote, compacted, cut and recovered, through the tasks of an audit: nothing is found."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from support.compaction.compacted_logs import CompactedLog
from support.logs.builders import DIRECTORY
from tailrace.env import Mode
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import batches
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer, check_snapshot
from tailrace.spark.auditing.job.stitching import stitch
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.task.piece_audit import audit_piece
from tailrace.storage import names
from tailrace.storage.origin import Origin

PARTITION = TopicPartition("orders", 2)
HOUR_MS = 3_600_000
LAST_SEQUENCE = 2**31 - 1


class Writing:
    """Clients, a coordinator, a cleaner and a broker that restarts, all at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = CompactedLog(seed=seed)
        self.is_compacted = self.random.random() < 0.5
        self.is_deleted = self.random.random() < 0.4
        self.coordinator_epoch = 0

    def run(self, steps: int) -> None:
        acts = [self.write] * 12 + [self.end] * 5 + [self.roll, self.wait, self.fail_over, self.restart]
        acts += [self.clean, self.delete]
        for _ in range(steps):
            self.random.choice(acts)()
        self.log.all_moved_to_end()
        self.log.flushed()

    def write(self) -> None:
        random = self.random
        producer_id = random.choice([-1, 1, 2, 3, 4])
        fields: dict[str, Any] = {"codec": random.choice([0, 0, 0, 3])}
        count = random.randint(1, 4)
        if producer_id >= 0:
            known = self.log.log.producers.producers.get(producer_id)
            sequence, epoch = random.choice([0, LAST_SEQUENCE - 3]), 0
            if known is not None and known.producer_epoch >= 0:
                epoch, sequence = known.producer_epoch, (known.last_seq + 1) & LAST_SEQUENCE
                if known.txn_first_offset is None and random.random() < 0.05:
                    epoch, sequence = epoch + 1, 0
            fields |= {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        builder = BatchBuilder(transactional=producer_id >= 3, **fields)
        for _ in range(count):
            value = None if random.random() < 0.1 else b"value" * random.randint(1, 9)
            builder.append(self.log.now_ms, b"key %d" % random.randint(0, 12), value)
        self.append(builder.build(), Origin.CLIENT)

    def end(self) -> None:
        producer_id = self.random.choice([3, 4])
        known = self.log.log.producers.producers.get(producer_id)
        if known is None:
            return
        is_commit = known.txn_first_offset is not None and self.random.random() < 0.6
        marker = end_txn_marker(
            COMMIT if is_commit else ABORT,
            producer_id=producer_id,
            producer_epoch=known.producer_epoch + self.random.randint(0, 1),
            coordinator_epoch=self.coordinator_epoch,
            timestamp=self.log.now_ms,
        )
        self.append(marker, Origin.COORDINATOR)

    def append(self, data: bytearray, origin: Origin) -> None:
        self.log.append(data, origin=origin)
        self.log.all_moved_to_end()

    def roll(self) -> None:
        self.log.roll()

    def wait(self) -> None:
        self.log.wait(self.random.choice([1000, 20_000, HOUR_MS, 25 * HOUR_MS]))
        self.log.log.producers.remove_expired(self.log.now_ms)

    def fail_over(self) -> None:
        self.coordinator_epoch += 1

    def restart(self) -> None:
        self.log.reopen()
        self.log.all_moved_to_end()

    def clean(self) -> None:
        if self.is_compacted:
            self.log.settle()
            self.log.flushed()
            self.log.clean()

    def delete(self) -> None:
        """Records, up to an offset in the middle of a segment, and the segments before it."""
        log = self.log.log
        if self.is_deleted and self.random.random() < 0.3:
            log.increment_log_start(self.random.randint(log.log_start_offset, log.log_end_offset))
            log.delete_old_segments(lambda offset: None)
            self.log.flushed()

    @property
    def cleaned_to(self) -> int:
        return self.log.cleaner_point or 0


def audited(writing: Writing, batches_per_piece: int | None) -> tuple[list[Finding], int]:
    """Findings, and how many producers at snapshots the log was a witness of."""
    log, disk = writing.log, writing.log.disk
    listed = [entry.name for entry in disk.list(DIRECTORY)]
    bases = sorted(names.offset_of(name) for name in listed if name.endswith(names.LOG_SUFFIX))
    snapshots = tuple(sorted(names.offset_of(name) for name in listed if name.endswith(names.SNAPSHOT_SUFFIX)))
    results: list[PieceResult] = []
    for base, next_base in zip(bases, [*bases[1:], None], strict=True):
        path = names.join(DIRECTORY, names.log_name(base))
        starts = [0]
        if batches_per_piece is not None:
            file = disk.open(path, Mode.READ)
            starts = [each.position for each in batches(file.read_at(file.size(), 0))][::batches_per_piece] or [0]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            piece = AuditPiece(
                PARTITION,
                DIRECTORY,
                base,
                next_base,
                start=start,
                end=end,
                judged_to=log.log.high_watermark,
                cleaned_to=writing.cleaned_to,
                indexes=frozenset(
                    name for name in listed if name.startswith(names.prefix_of(base)) and name.endswith("index")
                ),
                snapshot_offsets=snapshots,
            )
            results.append(audit_piece(piece, disk))
    folder = Folder(PARTITION, DIRECTORY, "/data", snapshots=snapshots)
    found = [finding for result in results for finding in result.findings]
    told: list[int] = []

    def take_states(offset: int, producers: Mapping[int, LoggedProducer]) -> None:
        told.append(len(producers))
        found.extend(check_snapshot(disk, folder, offset, producers))

    return [*stitch(folder, results, take_states=take_states), *found], sum(told)


@pytest.mark.parametrize("seed", range(8))
def test_what_the_engine_wrote_is_silent_in_any_pieces(seed: int) -> None:
    writing = Writing(seed)
    writing.run(150)
    findings, witnessed = audited(writing, None)
    assert findings == []
    assert audited(writing, 1) == audited(writing, 5) == ([], witnessed)


def test_producers_are_held_against_snapshots() -> None:
    writings = [Writing(seed) for seed in range(4)]
    for writing in writings:
        writing.run(100)
    assert sum(audited(writing, None)[1] for writing in writings) > 20
