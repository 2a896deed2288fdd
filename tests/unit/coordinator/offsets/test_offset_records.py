"""Records of offsets, byte for byte as a Kafka 4.3.1 has written them."""

from __future__ import annotations

import pytest

from tailrace.coordinator.offsets.entry import UNKNOWN_TOPIC_ID
from tailrace.coordinator.offsets.offset_records import commit_record, entry_of, tombstone
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.records import GROUP_RECORDS, decode_record, encode_batch
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches

TOPIC_ID = bytes.fromhex("a9d51e95c3dd40998ade8c530d88ef5c")
COMMIT = (
    "000100087236353830302d6700026475 00000001".replace(" ", ""),
    "0004 000000000000000b ffffffff 02 6e 000001a1e060c7d9 01 00 10 a9d51e95c3dd40998ade8c530d88ef5c",
    commit_record("r65800-g", "du", 1, 11, -1, "n", 0x01A1E060C7D9, -1, TOPIC_ID),
)
WITH_EXPIRY = (
    "000100097236353830302d72320002647400000000",
    "0001 000000000000000a 0001 6e 000001a1e060c874 000001a1e060c86f",
    commit_record("r65800-r2", "dt", 0, 10, -1, "n", 0x01A1E060C874, 0x01A1E060C86F, TOPIC_ID),
)
IN_A_TRANSACTION = (
    "00010007783637303337670002647400000000",
    "0004 0000000000000064 ffffffff 01 000001a1e073ba62 00",
    commit_record("x67037g", "dt", 0, 100, -1, None, 0x01A1E073BA62, -1, UNKNOWN_TOPIC_ID),
)


def written(record: CoordinatorRecord) -> tuple[bytes | None, bytes | None]:
    data = bytes(encode_batch([record], 1, 0, None))
    (each,) = (each for found in batches(data) for each in records_of(data, found))
    return each.key, each.value


@pytest.mark.parametrize(("key", "value", "record"), [COMMIT, WITH_EXPIRY, IN_A_TRANSACTION])
def test_bytes_are_those_of_kafka(key: str, value: str, record: CoordinatorRecord) -> None:
    assert written(record) == (bytes.fromhex(key), bytes.fromhex(value))
    decoded = decode_record(GROUP_RECORDS, bytes.fromhex(key), bytes.fromhex(value))
    assert decoded is not None
    assert decoded.value is not None
    assert record.value is not None
    entry = entry_of(decoded.value, 5)
    assert entry.offset == entry_of(record.value, 5).offset
    assert entry.has_own_expiry is (record.value_version == 1)
    assert entry.record_offset == 5


def test_a_tombstone_has_the_key_of_the_commit() -> None:
    assert written(tombstone("r65800-g", "du", 1)) == (bytes.fromhex(COMMIT[0]), None)
