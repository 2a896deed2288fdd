"""When the committed image is written as a snapshot; leadership does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from support.metadata.quorum import QuorumWorld, names_of, topic
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import BeginTransactionRecord, EndTransactionRecord
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.raft.snapshot_generator import SnapshotGenerator
from tailrace.sim.clock import SimClock


class ScriptedLog:
    def __init__(self) -> None:
        self.is_due = False
        self.written: list[tuple[list[str], int | None]] = []
        self.done: list[Callable[[], None]] = []

    def snapshot_is_due(self, now_ms: int) -> bool:
        return self.is_due

    def snapshot(
        self, records: Iterator[VersionedRecord], done: Callable[[], None], last_offset: int | None = None
    ) -> None:
        self.written.append((names_of(records), last_offset))
        self.done.append(done)


def rig() -> tuple[ScriptedLog, MetadataLoader, SnapshotGenerator]:
    log, loader = ScriptedLog(), MetadataLoader(lambda error: None)
    return log, loader, SnapshotGenerator(log, loader.image, SimClock())


def test_a_snapshot_that_is_due_is_of_the_committed_image() -> None:
    log, loader, generator = rig()
    loader.committed([topic("t")], 7, 1, 0)
    generator.tick()
    assert log.written == []
    log.is_due = True
    generator.tick()
    assert log.written == [(["t"], 7)]


def test_one_snapshot_is_written_at_a_time() -> None:
    log, _, generator = rig()
    log.is_due = True
    generator.tick()
    generator.tick()
    assert len(log.written) == 1
    log.done[0]()
    generator.tick()
    assert len(log.written) == 2


def test_an_open_transaction_delays_the_snapshot() -> None:
    log, loader, generator = rig()
    log.is_due = True
    loader.committed([VersionedRecord(BeginTransactionRecord(name="x"), 0), topic("t")], 1, 1, 0)
    generator.tick()
    assert log.written == []
    loader.committed([VersionedRecord(EndTransactionRecord(), 0)], 2, 1, 0)
    generator.tick()
    assert log.written == [(["t"], 2)]


def test_the_snapshot_of_a_quorum_loads_into_the_next_process() -> None:
    world = QuorumWorld(metadata_log_max_record_bytes_between_snapshots=1)
    quorum = world.start()
    image = MetadataImage()
    quorum.append([topic("t")], lambda _: None)
    world.jobs.run_all()
    image.offset = quorum.log_end_offset - 1
    SnapshotGenerator(quorum, image, world.world.clock).tick()
    world.jobs.run_all()
    assert len(world.files(".checkpoint")) == 1
