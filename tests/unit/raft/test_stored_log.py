"""The end and the voters of a metadata log that is not opened: with snapshots, voter changes, and after crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMetadataError, StorageError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.record_frame import VersionedRecord, encode_metadata_record
from tailrace.protocol.records.control import KRaftVersionRecord, SnapshotHeaderRecord
from tailrace.protocol.records.topics import TopicRecord
from tailrace.raft.control_batch import control_batch
from tailrace.raft.stored_log import StoredLog, read_stored_log
from tailrace.raft.voters import Voter, voters_record
from tailrace.record.builder import BatchBuilder

FILES = RealFiles()
ONE, TWO, THREE = (Voter(number, DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
FIRST_SEGMENT = "00000000000000000000.log"


def voters_batch(offset: int, epoch: int, *voters: Voter) -> bytes:
    records = [KRaftVersionRecord(version=0, kraft_version=1), voters_record(voters)]
    return bytes(control_batch(records, offset, epoch, 0))


def topics_batch(offset: int, epoch: int, count: int) -> bytes:
    builder = BatchBuilder(offset, leader_epoch=epoch)
    for number in range(count):
        record = TopicRecord(name=f"t{number}", topic_id=bytes(16))
        builder.append(0, None, encode_metadata_record(*VersionedRecord(record, 0)))
    return bytes(builder.build())


def read(directory: Path) -> StoredLog | None:
    return read_stored_log(FILES, str(directory))


def test_the_last_record_of_voters_counts(tmp_path: Path) -> None:
    first = tmp_path / FIRST_SEGMENT
    first.write_bytes(topics_batch(0, 1, 3))
    assert read(tmp_path) == StoredLog(3, 1, None)
    first.write_bytes(first.read_bytes() + voters_batch(3, 1, ONE, TWO) + topics_batch(5, 2, 700))
    (tmp_path / f"{705:020d}.log").write_bytes(voters_batch(705, 4, ONE, TWO, THREE))
    assert read(tmp_path) == StoredLog(707, 4, (ONE, TWO, THREE))


def test_a_torn_end_is_left_out(tmp_path: Path) -> None:
    whole = voters_batch(0, 1, ONE) + topics_batch(2, 1, 2)
    for tail in (voters_batch(4, 1, ONE, TWO)[:-1], b"\xff" * 200, bytes(100)):
        (tmp_path / FIRST_SEGMENT).write_bytes(whole + tail)
        assert read(tmp_path) == StoredLog(4, 1, (ONE,))


def test_a_directory_without_log_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert read(tmp_path / "missing") is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        read(tmp_path / "file")


def test_a_damaged_record_of_voters_is_an_error(tmp_path: Path) -> None:
    data = bytearray(voters_batch(0, 1, ONE))
    data[70] ^= 0xFF
    (tmp_path / FIRST_SEGMENT).write_bytes(data)
    with pytest.raises(CorruptMetadataError, match=FIRST_SEGMENT):
        read(tmp_path)


def test_the_voters_of_the_newest_snapshot_count_without_a_later_record(tmp_path: Path) -> None:
    for offset, voters in ((10, (ONE,)), (20, (ONE, THREE))):
        name = f"{offset:020d}-{5:010d}.checkpoint"
        (tmp_path / name).write_bytes(snapshot_of(*voters))
    (tmp_path / f"{10:020d}.log").write_bytes(voters_batch(10, 5, ONE, TWO))
    assert read(tmp_path) == StoredLog(20, 5, (ONE, THREE))
    (tmp_path / f"{20:020d}.log").write_bytes(voters_batch(20, 6, TWO, THREE))
    assert read(tmp_path) == StoredLog(22, 6, (TWO, THREE))


def snapshot_of(*voters: Voter) -> bytes:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0)
    records = [header, KRaftVersionRecord(version=0, kraft_version=1), voters_record(voters)]
    return bytes(control_batch(records, 0, 5, 0))
