"""Control batches against Apache Kafka's bytes and kafka-python."""

from __future__ import annotations

import pytest
from kafka.record.default_records import ControlRecord as ForeignControlRecord
from kafka.record.default_records import DefaultRecordBatch

from tailrace.model.errors import InvalidRecordError
from tailrace.record.builder import BatchBuilder, empty_batch
from tailrace.record.control import (
    ABORT,
    COMMIT,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    ControlRecord,
    control_key,
    control_of,
    end_txn_marker,
    read_control,
)
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import batches, check_integrity


def marker(control_type: int) -> bytearray:
    return end_txn_marker(
        control_type,
        producer_id=77,
        producer_epoch=2,
        coordinator_epoch=11,
        timestamp=5_000,
        base_offset=12,
        leader_epoch=3,
    )


@pytest.mark.spec("RF-06")
@pytest.mark.parametrize(("name", "control_type"), [("abort", 0), ("commit", 1)])
def test_markers_are_kafkas(kafka_batches: dict[str, bytes], name: str, control_type: int) -> None:
    assert marker(control_type) == kafka_batches[name]


@pytest.mark.spec("RF-06")
@pytest.mark.parametrize("control_type", [ABORT, COMMIT])
def test_kafka_python_understands_our_markers(control_type: int) -> None:
    judge = DefaultRecordBatch(marker(control_type))
    assert judge.validate_crc()
    assert judge.is_control_batch
    assert judge.is_transactional
    (record,) = judge
    assert isinstance(record, ForeignControlRecord)
    assert (record.version, record.abort, record.commit) == (0, control_type == ABORT, control_type == COMMIT)


@pytest.mark.spec("RF-06")
@pytest.mark.parametrize(("name", "control_type"), [("abort", ABORT), ("commit-horizon", COMMIT)])
def test_kafkas_markers_are_read(kafka_batches: dict[str, bytes], name: str, control_type: int) -> None:
    data = kafka_batches[name]
    (batch,) = batches(data)
    check_integrity(data, batch)
    assert (batch.is_control, batch.is_transactional, batch.record_count) == (True, True, 1)
    assert (batch.base_sequence, batch.last_sequence) == (-1, -1)
    control = control_of(data, batch)
    assert control == ControlRecord(control_type, 11)
    assert control.ends_transaction
    (record,) = records_of(data, batch)
    assert (record.timestamp, record.sequence) == (5_000, -1)


def test_an_emptied_control_batch_says_nothing() -> None:
    data = empty_batch(5, 5, control=True, transactional=True, producer_id=1, producer_epoch=0)
    (batch,) = batches(data)
    assert control_of(data, batch) is None


@pytest.mark.parametrize("control_type", [LEADER_CHANGE, KRAFT_VOTERS, 99, -1])
def test_other_types_are_kept_with_whatever_value(control_type: int) -> None:
    key = b"\0\0" + control_type.to_bytes(2, "big", signed=True)
    for value in (None, b"", b"anything"):
        control = read_control(Record(0, 0, 0, key, value))
        assert control == (control_type, None)
        assert not control.ends_transaction


def test_later_versions_may_add_fields() -> None:
    record = Record(0, 0, 0, b"\0\1\0\1more", b"\0\2\0\0\0\7more")
    assert read_control(record) == (COMMIT, 7)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\1"),
        (b"", b"\0\0\0\0\0\1"),
        (b"\0\0\0", b"\0\0\0\0\0\1"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\1"),
        (b"\0\0\0\0", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1"),
    ],
)
def test_broken_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError, match="offset 31"):
        read_control(Record(31, 0, 0, key, value))


def test_other_control_batches_can_be_built() -> None:
    builder = BatchBuilder(control=True)
    builder.append(1, control_key(LEADER_CHANGE), b"leader")
    data = builder.build()
    (batch,) = batches(data)
    assert control_of(data, batch) == (LEADER_CHANGE, None)


def test_unknown_types_are_not_written() -> None:
    for control_type in (-1, 7):
        with pytest.raises(InvalidRecordError):
            control_key(control_type)
    with pytest.raises(InvalidRecordError, match="does not end"):
        marker(LEADER_CHANGE)
    with pytest.raises(InvalidRecordError, match="epoch"):
        end_txn_marker(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=2**31, timestamp=0)
    with pytest.raises(InvalidRecordError):
        end_txn_marker(COMMIT, producer_id=-1, producer_epoch=-1, coordinator_epoch=0, timestamp=0)
