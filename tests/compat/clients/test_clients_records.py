"""What one client library writes, in every codec, the others read: keys, headers, tombstones, times, large records."""

from __future__ import annotations

from typing import Any

import pytest
from client_driver import CODECS, Message, Reader, RefusedError, Stored, Writer
from client_servers import LARGEST_MESSAGE_BYTES, Server
from confluent_kafka import KafkaError, Producer

pytestmark = pytest.mark.compat

T0 = 1_700_000_000_000
MESSAGE_TOO_LARGE = 10
INVALID_DIFFERENT_RECORD = -138
"""Of librdkafka: the record is good, and another one of its batch is not."""
ODD = (
    Message(b"plain", b"key", T0),
    Message(b"no key", None, T0 + 1),
    Message(b"", b"", T0 + 2),
    Message(None, b"tombstone", T0 + 3),
    Message(b"with headers", b"h", T0 + 4, (("source", b"web"), ("empty", b""), ("größe", b"\x00\xff"))),
    Message(bytes(range(256)) * 40, "ключ".encode(), T0 + 5),
    Message(b"older than the one before", b"key", T0 - 86_400_000),
)
MANY = tuple(Message(b"%06d " % n + b"x" * 93, b"k%d" % (n % 7), T0 + n) for n in range(2000))


def stored(messages: tuple[Message, ...], first: int = 0) -> list[Stored]:
    return [
        Stored(offset, message.value, message.key, message.timestamp_ms, message.headers)
        for offset, message in enumerate(messages, first)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_writes_all_read(writer: Writer, codec: str, topic: str, all_readers: list[Any]) -> None:
    assert writer.produce(topic, ODD, codec=codec) == list(range(len(ODD)))
    assert writer.produce(topic, MANY, codec=codec) == list(range(len(ODD), len(ODD) + len(MANY)))
    expected = stored(ODD) + stored(MANY, len(ODD))
    for reader in all_readers:
        assert reader.read(topic, len(expected)) == expected, reader.name


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_idempotent_writers_are_taken_one_after_the_other(
    writer: Writer, codec: str, topic: str, all_readers: list[Any]
) -> None:
    for n in range(3):
        part = MANY[500 * n : 500 * (n + 1)]
        assert writer.produce(topic, part, codec=codec, idempotent=True) == list(range(500 * n, 500 * (n + 1)))
    for reader in all_readers:
        assert reader.read(topic, 1500) == stored(MANY[:1500]), reader.name


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements(writer: Writer, acks: int, topic: str, helper: Any) -> None:
    """Without any, the offsets are unknown to the writer, and the next request must find the connection in order."""
    for n in range(3):
        told = writer.produce(topic, MANY[100 * n : 100 * (n + 1)], acks=acks)
        assert acks == 0 or told == list(range(100 * n, 100 * (n + 1)))
    assert helper.read(topic, 300) == stored(MANY[:300])


def test_keys_are_spread_over_partitions(writer: Writer, name: str, helper: Any, all_readers: list[Any]) -> None:
    """The library says where each goes; a key is in one partition only, and in order there."""
    helper.create_topic(name, partitions=4)
    writer.produce(name, MANY, partition=None)
    seen = [reader.read_partitions(name, 4, len(MANY)) for reader in all_readers]
    assert seen[1:] == seen[:-1]
    by_key: dict[bytes, list[bytes]] = {}
    for records in seen[0].values():
        assert [each.offset for each in records] == list(range(len(records)))
        for key in {each.key for each in records}:
            assert key not in by_key
            by_key[key] = [each.value for each in records if each.key == key]
    assert by_key == {key: [each.value for each in MANY if each.key == key] for key in {each.key for each in MANY}}
    assert sum(bool(records) for records in seen[0].values()) > 1


def test_a_large_record_arrives_whole(writer: Writer, topic: str, all_readers: list[Any]) -> None:
    message = Message(bytes(range(250)) * (LARGEST_MESSAGE_BYTES // 250 - 10), b"large", T0)
    assert writer.produce(topic, [message]) == [0]
    for reader in all_readers:
        assert reader.read(topic, 1) == stored((message,)), reader.name


def test_a_record_that_is_too_large_is_refused(writer: Writer, topic: str, helper: Any) -> None:
    with pytest.raises(RefusedError) as refused:
        writer.produce(topic, [Message(bytes(LARGEST_MESSAGE_BYTES + 1))])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert helper.bounds(topic) == (0, 0)


def test_append_time_is_the_servers(writer: Writer, name: str, helper: Any, all_readers: list[Any]) -> None:
    helper.create_topic(name, settings={"message.timestamp.type": "LogAppendTime"})
    writer.produce(name, MANY[:10])
    times = {record.timestamp_ms for reader in all_readers for record in reader.read(name, 10)}
    assert all(time > T0 + 86_400_000 for time in times)
    assert len(times) <= 10


@pytest.mark.parametrize("codec", CODECS)
def test_the_topic_can_ask_for_a_codec_of_its_own(codec: str, reader: Reader, name: str, helper: Any) -> None:
    helper.create_topic(name, settings={"compression.type": "uncompressed" if codec == "none" else codec})
    helper.produce(name, MANY, codec="lz4" if codec != "lz4" else "gzip")
    assert reader.read(name, len(MANY)) == stored(MANY)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_librdkafka_tells_records_without_a_key_from_the_others_of_their_batch(
    codec: str, server: Server, name: str, helper: Any
) -> None:
    helper.create_topic(name, settings={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": server.address, "compression.type": codec, "linger.ms": 1000})
    codes: dict[bytes, int] = {}

    def delivered(error: KafkaError | None, sent: Any) -> None:
        codes[sent.value()] = error.code() if error is not None else 0

    for n in range(10):
        producer.produce(name, b"%d" % n, None if n in (1, 4, 7) else b"key", on_delivery=delivered)
    assert producer.flush(30) == 0

    assert {value for value, code in codes.items() if code == KafkaError.INVALID_RECORD} == {b"1", b"4", b"7"}
    others = {code for code in codes.values() if code != KafkaError.INVALID_RECORD}
    assert others == {INVALID_DIFFERENT_RECORD}
    assert helper.bounds(name) == (0, 0)
