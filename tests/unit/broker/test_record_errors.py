"""Record errors of Produce responses. The expected texts are those of Apache Kafka 4.3.1 for the same batches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient, produce_request
from support.requests.records import changed, with_crc
from tailrace.broker.record_errors import MAX_PER_BATCH, MAX_UNANSWERED
from tailrace.model.errors import InvalidRecordError, InvalidTimestampError
from tailrace.protocol.messages.produce import PartitionProduceData
from tailrace.record.builder import BatchBuilder

COMPACT = {"cleanup.policy": "compact"}
BAD = (1, 4, 7)
NO_KEY = "Compacted topic cannot accept message without key in topic partition t-0"
INVALID_TIMESTAMP = "One or more records have been rejected due to invalid timestamp"


class Rig:
    """A broker with one topic."""

    def __init__(self, partitions: int = 1, **configs: str) -> None:
        self.broker = SimBroker().start()
        self.client: SimClient = self.broker.client()
        self.client.create_topic("t", partitions, {name.replace("_", "."): text for name, text in configs.items()})

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def batch(self, *, keyless: Collection[int] = (), early: Collection[int] = (), **fields: Any) -> bytes:
        """Ten records of which some have no key, or a timestamp of more than an hour ago."""
        builder = BatchBuilder(**fields)
        for n in range(10):
            timestamp = self.now_ms - (7_200_000 if n in early else 0)
            builder.append(timestamp, None if n in keyless else b"key", b"v%d" % n)
        return bytes(builder.build())

    def partition_response(self, records: bytes, version: int = 9) -> Any:
        response = self.client.ask(produce_request("t", records), version)
        return response.responses[0].partition_responses[0]


def errors_in(response: Any) -> list[tuple[int, str]]:
    return [(each.batch_index, each.batch_index_error_message) for each in response.record_errors]


@pytest.mark.parametrize("target", ["producer", "uncompressed", "lz4"])
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.spec("LM-22")
def test_each_record_without_a_key_is_listed(codec: int, target: str) -> None:
    rig = Rig(cleanup_policy="compact", compression_type=target)

    response = rig.partition_response(rig.batch(keyless=BAD, codec=codec))

    assert response.error_code == InvalidRecordError.code
    assert errors_in(response) == [(index, NO_KEY) for index in BAD]
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{NO_KEY}')" for index in BAD)
    assert response.error_message == (
        "One or more records have been rejected due to 3 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    assert (response.base_offset, response.log_append_time_ms, response.log_start_offset) == (-1, -1, 0)


def test_three_of_many_records_are_in_the_message() -> None:
    rig = Rig(**COMPACT)

    response = rig.partition_response(rig.batch(keyless=range(10)))

    assert [index for index, _ in errors_in(response)] == list(range(10))
    assert "due to 10 record errors in total" in response.error_message
    assert response.error_message.count("RecordError(") == 3


@pytest.mark.parametrize("codec", [0, 4])
def test_each_record_with_a_timestamp_out_of_range_is_listed(codec: int) -> None:
    rig = Rig(message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="1000")
    records = rig.batch(early=BAD, codec=codec)

    response = rig.partition_response(records)

    early, earliest, latest = rig.now_ms - 7_200_000, rig.now_ms - 3_600_000, rig.now_ms + 1000
    assert response.error_code == InvalidTimestampError.code
    assert response.error_message == INVALID_TIMESTAMP
    assert errors_in(response) == [
        (
            index,
            f"Timestamp {early} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        )
        for index in BAD
    ]


def test_one_bad_timestamp_among_missing_keys_decides_on_the_error_code() -> None:
    rig = Rig(cleanup_policy="compact", message_timestamp_before_max_ms="3600000")

    response = rig.partition_response(rig.batch(keyless=(1, 4), early=(4, 5)))

    assert (response.error_code, response.error_message) == (InvalidTimestampError.code, INVALID_TIMESTAMP)
    assert [(index, text[:13]) for index, text in errors_in(response)] == [
        (1, NO_KEY[:13]),
        (4, NO_KEY[:13]),
        (5, "Timestamp 169"),
    ]


@pytest.mark.parametrize(("codec", "kind"), [(0, "DefaultRecord"), (1, "PartialDefaultRecord")])
def test_each_record_of_a_batch_that_claims_append_time_is_listed(codec: int, kind: str) -> None:
    rig = Rig(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    records = with_crc(changed(rig.batch(keyless=(1,), codec=codec), 22, bytes([0x08 | codec])))

    response = rig.partition_response(records)

    assert (response.error_code, response.error_message) == (InvalidTimestampError.code, INVALID_TIMESTAMP)
    errors = errors_in(response)
    assert [index for index, _ in errors] == list(range(10))
    assert errors[1] == (1, NO_KEY)
    assert errors[2] == (
        2,
        f"Invalid timestamp type in message {kind}(offset=2, timestamp={rig.now_ms}, key=3 bytes, value=2 bytes). "
        "Producer should not set timestamp type to LogAppendTime.",
    )


@pytest.mark.parametrize("codec", [0, 4])
def test_a_malformed_record_is_the_only_reason(codec: int) -> None:
    """The batch states one record more than it has: missing keys before it are not listed."""
    rig = Rig(**COMPACT)
    good = rig.batch(keyless=BAD, codec=codec)
    records = with_crc(changed(changed(good, 23, b"\0\0\0\x0a"), 57, b"\0\0\0\x0b"))

    response = rig.partition_response(records)

    assert response.error_code == InvalidRecordError.code
    assert response.error_message.startswith("record 10 of the batch: the batch ends before it")
    assert response.record_errors == []


def test_versions_below_8_have_the_error_code_alone() -> None:
    rig = Rig(cleanup_policy="compact", message_timestamp_before_max_ms="3600000")
    response = rig.partition_response(rig.batch(keyless=(1,), early=(5,)), version=7)
    assert response.error_code == InvalidTimestampError.code
    assert response.record_errors == []


@pytest.mark.spec("LM-22")
def test_pipelined_requests_list_their_own_records() -> None:
    """Requests alike in one read are appended together; those without a fault are written."""
    rig = Rig(**COMPACT)
    bad = [(), (2,), (), (3, 4)]
    batches = [rig.batch(keyless=keyless) for keyless in bad]
    rig.partition_response(batches[0])

    ids = [rig.client.post(produce_request("t", records), 9) for records in batches]
    rig.broker.run()
    responses = rig.client.read()

    parts = [responses[each].responses[0].partition_responses[0] for each in ids]
    assert [[index for index, _ in errors_in(part)] for part in parts] == [list(keyless) for keyless in bad]
    assert [part.base_offset for part in parts] == [10, -1, 20, -1]


def test_missing_keys_are_counted() -> None:
    rig = Rig(**COMPACT)
    rig.partition_response(rig.batch(keyless=BAD))
    topic = rig.broker.node.counters.topic("t")
    assert (topic.no_key_records, topic.failed_produce_requests, topic.messages_in) == (3, 1, 0)


def test_without_a_response_the_connection_is_closed() -> None:
    rig = Rig(**COMPACT)
    rig.client.post(produce_request("t", rig.batch(keyless=BAD), acks=0), 9)
    rig.broker.run()
    assert rig.client.is_closed


def keyless_batch(count: int, codec: int = 0) -> bytes:
    builder = BatchBuilder(codec=codec)
    for _ in range(count):
        builder.append(-1, None, b"")
    return bytes(builder.build())


def test_the_list_of_a_batch_is_limited() -> None:
    rig = Rig(**COMPACT)
    response = rig.partition_response(keyless_batch(MAX_PER_BATCH + 1))
    assert [index for index, _ in errors_in(response)] == list(range(MAX_PER_BATCH))


def test_the_lists_of_a_request_are_limited_together() -> None:
    """Past the limit, each batch still lists one of its records."""
    rig = Rig(partitions=13, **COMPACT)
    records = keyless_batch(MAX_PER_BATCH, codec=4)
    request = produce_request("t", records)
    request.topic_data[0].partition_data = [PartitionProduceData(index=index, records=records) for index in range(13)]
    for _ in range(2):  # each request has its own limit
        response = rig.client.ask(request, 9)
        lengths = [len(part.record_errors) for part in response.responses[0].partition_responses]
        assert sum(lengths[:10]) == MAX_UNANSWERED
        assert lengths[10:] == [1] * 3


def test_the_lists_of_responses_that_wait_are_limited_together() -> None:
    """Behind a request that waits for the disk, a client could otherwise have the broker keep any number of lists."""
    rig = Rig(**COMPACT)
    rig.client.create_topic("flushed", configs={"flush.messages": "1"})
    bad = produce_request("t", keyless_batch(MAX_PER_BATCH, codec=4))
    ids = [rig.client.post(produce_request("flushed", rig.batch()), 9)]
    ids += [rig.client.post(bad, 9) for _ in range(12)]
    assert rig.client.read() == {}, "the first one waits for the disk"
    rig.broker.run()
    responses = rig.client.read()
    lengths = [len(responses[each].responses[0].partition_responses[0].record_errors) for each in ids]
    assert lengths == [0, *[MAX_PER_BATCH] * 10, 1, 1]
    assert len(rig.partition_response(keyless_batch(3)).record_errors) == 3
