"""Metadata records in their frames: those that a broker of Kafka wrote, and those that nobody should write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.model.errors import CorruptMessageError, UnsupportedVersionError
from tailrace.protocol.codec import encode
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import (
    METADATA_RECORDS,
    VersionedRecord,
    decode_control_value,
    decode_metadata_record,
    encode_metadata_record,
)
from tailrace.protocol.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tailrace.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotHeaderRecord,
)
from tailrace.protocol.records.ledger import BeginTransactionRecord, EndTransactionRecord, NoOpRecord, ProducerIdsRecord
from tailrace.protocol.records.settings import ConfigRecord, FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord

LINES = Path(__file__).with_name("kafka_metadata_records.txt").read_text().splitlines()
WRITTEN = {
    f"{name} v{version}": (int(version), bytes.fromhex(data))
    for name, version, data in (line.split() for line in LINES if not line.startswith("#"))
}
METADATA = {name: data for name, (_, data) in WRITTEN.items() if "Message" not in name}
DIRECTORY = bytes.fromhex("531a5f9659a600c19dc2df6c8d721eef")

EXPECTED: dict[str, Record] = {
    "BeginTransactionRecord v0": BeginTransactionRecord(name="Bootstrap records"),
    "EndTransactionRecord v0": EndTransactionRecord(),
    "NoOpRecord v0": NoOpRecord(),
    "FeatureLevelRecord v0": FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    "ConfigRecord v0": ConfigRecord(
        resource_type=2, resource_name="__consumer_offsets", name="compression.type", value="producer"
    ),
    "TopicRecord v0": TopicRecord(
        name="__consumer_offsets", topic_id=bytes.fromhex("b7f6dc58023c4e7b90148afeade374c3")
    ),
    "PartitionRecord v2": PartitionRecord(
        partition_id=0,
        topic_id=bytes.fromhex("331dad8be684474ebc313ea364f1fef0"),
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY],
    ),
    "PartitionChangeRecord v2": PartitionChangeRecord(
        partition_id=0,
        topic_id=bytes.fromhex("54d7501fd8b4448ca63f9481253ce714"),
        isr=[],
        leader=-1,
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    ),
    "ProducerIdsRecord v0": ProducerIdsRecord(broker_id=1, broker_epoch=14, next_producer_id=1000),
    "BrokerRegistrationChangeRecord v1": BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=14, in_controlled_shutdown=1
    ),
}


@pytest.mark.parametrize("name", METADATA)
def test_what_kafka_wrote_is_read_and_written_the_same(name: str) -> None:
    record, version = decode_metadata_record(METADATA[name])
    assert f"{type(record).__name__} v{version}" == name
    assert encode_metadata_record(record, version) == METADATA[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_kafka_wrote_means_what_it_should(name: str) -> None:
    assert decode_metadata_record(METADATA[name]).record == EXPECTED[name]


def test_the_registration_of_a_broker() -> None:
    record = decode_metadata_record(METADATA["RegisterBrokerRecord v4"]).record
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_id, record.broker_epoch, record.rack, record.fenced) == (1, 14, None, True)
    assert [(point.name, point.host, point.port) for point in record.end_points] == [("PLAINTEXT", "127.0.0.1", 19392)]
    assert {feature.name: feature.max_supported_version for feature in record.features}["metadata.version"] == 30
    assert record.log_dirs == [DIRECTORY]


def test_a_leader_change() -> None:
    version, data = WRITTEN["LeaderChangeMessage v0"]
    message = decode_control_value(LeaderChangeMessage, data)
    voter = LeaderChangeVoter(voter_id=1)
    assert message == LeaderChangeMessage(leader_id=1, voters=[voter], granting_voters=[voter])
    assert encode(message, version) == data


def test_a_control_value_names_its_version() -> None:
    later = LeaderChangeMessage(version=1, leader_id=1, voters=[LeaderChangeVoter(voter_directory_id=DIRECTORY)])
    assert decode_control_value(LeaderChangeMessage, encode(later, 1)) == later
    with pytest.raises(UnsupportedVersionError):
        decode_control_value(KRaftVersionRecord, b"\0\x01\0\0\0")
    with pytest.raises(CorruptMessageError, match="has no version"):
        decode_control_value(SnapshotHeaderRecord, b"\0")


def test_every_type_has_a_number_of_its_own() -> None:
    assert sorted(METADATA_RECORDS) == [*range(6), *range(7, 13), 14, 15, *range(17, 29)]


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", CorruptMessageError, "no whole frame"),
        (b"\x01\x02", CorruptMessageError, "no whole frame"),
        (b"\x01\xff\xff\xff\xff\xff\xff\0", CorruptMessageError, "no whole frame"),
        (b"\x00\x14\x00\x00", UnsupportedVersionError, "frame version 0"),
        (b"\x02\x14\x00\x00", UnsupportedVersionError, "frame version 2"),
        (b"\x01\x06\x00\x00", UnsupportedVersionError, "no metadata record of type 6"),
        (b"\x01\x14\x01\x00", UnsupportedVersionError, "NoOpRecord has versions 0 to 0, not 1"),
        (b"\x01\x14\x00\x00\x00", CorruptMessageError, "1 bytes follow it"),
        (b"\x01\x14\x00", CorruptMessageError, "does not end"),
    ],
)
def test_what_is_no_metadata_record(data: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        decode_metadata_record(data)


def test_frames_hold_numbers_beyond_one_byte() -> None:
    """Frame, type and version are variable-length numbers, of which Kafka takes longer forms than needed."""
    record = TopicRecord(name="a")
    data = encode_metadata_record(record, 0)
    assert data[:3] == b"\x01\x02\x00"
    assert decode_metadata_record(b"\x81\x00\x82\x00\x80\x00" + data[3:]) == VersionedRecord(record, 0)


def test_a_version_that_a_record_lacks_cannot_be_written() -> None:
    with pytest.raises(UnsupportedVersionError):
        encode_metadata_record(NoOpRecord(), 1)
