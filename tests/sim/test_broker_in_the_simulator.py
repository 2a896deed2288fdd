"""The broker, unchanged, on a simulated machine: a client's whole conversation, waiting, crashes."""

from __future__ import annotations

import random

import pytest

from support.brokers.simulated import SimBroker, fetch_request, produce_request
from support.logs.builders import batch
from tailrace.model.errors import InvalidRequestError, TailraceError
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.record.reader import application_records
from tailrace.sim.faults import Survival
from tailrace.sim.universe import Universe


def offsets(payload: bytes) -> list[int]:
    return [record.offset for record in application_records(payload)]


def frame_of(request: Request) -> bytes:
    return b"".join(encode_request(request, 9, 1, "sim"))


def test_a_conversation() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders", 2)
    found = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12)
    assert [partition.leader_id for partition in found.topics[0].partitions] == [1, 1]
    first = client.produce("orders", batch(3, 100))
    assert (first.error_code, first.base_offset) == (0, 0)
    second = client.produce("orders", batch(2, 100))
    assert second.base_offset == 3
    got = client.fetch("orders", 0)
    assert (got.error_code, got.high_watermark, len(offsets(got.records))) == (0, 5, 5)


def test_brokers_of_one_universe_share_time_and_nothing_else() -> None:
    universe = Universe(3)
    first, second = (SimBroker(universe=universe).start() for _ in range(2))
    first.client().create_topic("orders")
    began_ms = second.clock.now_ms()
    first.pass_time(5_000)
    assert second.clock.now_ms() == began_ms + 5_000
    first.kill()
    assert second.client().create_topic("orders").error_code == 0
    assert first.start().client().produce("orders", batch(1, 100)).base_offset == 0
    assert second.client().fetch("orders", 0).high_watermark == 0


def test_what_was_acknowledged_is_there_after_a_clean_stop() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(3, 100))
    broker.stop()
    broker.lose_power(Survival.NOTHING)
    got = broker.start().client().fetch("orders", 0)
    assert (got.high_watermark, len(offsets(got.records))) == (3, 3)


def test_a_killed_process_loses_nothing_acknowledged() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(3, 100))
    broker.kill()
    got = broker.start().client().fetch("orders", 0)
    assert (got.high_watermark, len(offsets(got.records))) == (3, 3)


@pytest.mark.spec("RP-08")
def test_with_a_flush_for_every_record_an_acknowledgement_waits_for_the_disk() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": "1"})
    for acks in (-1, 1):
        asked = client.post(produce_request("orders", batch(1, 100), acks=acks), 9)
        assert asked not in client.read(), "the sync has not begun"
        broker.run()
        assert client.read().pop(asked).responses[0].partition_responses[0].error_code == 0
    broker.lose_power(Survival.NOTHING)
    got = broker.start().client().fetch("orders", 0)
    assert got.high_watermark == 2


@pytest.mark.parametrize("flush_messages", ["1", str(2**63 - 1)])
@pytest.mark.parametrize("seed", range(12))
def test_power_is_lost_at_any_moment(seed: int, flush_messages: str) -> None:
    """What was acknowledged and flushed is there, in order and once; topics that were made are there."""
    dice = random.Random(seed)
    broker = SimBroker(seed).start()
    broker.order = dice
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": flush_messages, "segment.bytes": str(1 << 20)})
    durable = written = 0
    for _ in range(4):
        asked = {}
        for _ in range(dice.randrange(1, 12)):
            asked[client.post(produce_request("orders", batch(1, 200)), 9)] = written
            written += 1
            for _ in range(dice.randrange(4)):
                broker.jobs.run_one(dice)
        if dice.random() < 0.5:
            broker.run()
        answered = [answer.responses[0].partition_responses[0] for answer in client.read().values()]
        assert all(answer.error_code == 0 for answer in answered)
        partition = broker.node.replicas.partition("orders", 0)
        assert partition.log is not None
        durable = max(durable, partition.log.recovery_point)
        if flush_messages == "1":
            durable = max([durable, *(answer.base_offset + 1 for answer in answered)])
        broker.lose_power()
        client = broker.start().client()
        got = client.fetch("orders", 0)
        present = offsets(got.records)
        assert present == list(range(len(present)))
        assert durable <= len(present) <= written
        written = durable = len(present)


@pytest.mark.spec("RP-37")
def test_a_fetch_waits_for_data_and_for_no_longer_than_it_says() -> None:
    broker = SimBroker().start()
    client, other = broker.client(), broker.client()
    client.create_topic("orders")
    asked = client.post(fetch_request("orders", 0, max_wait_ms=500), 12)
    broker.pass_time(400)
    assert not client.read()
    other.produce("orders", batch(1, 100))
    assert len(offsets(client.read().pop(asked).responses[0].partitions[0].records)) == 1
    asked = client.post(fetch_request("orders", 1, max_wait_ms=500), 12)
    broker.pass_time(499)
    assert not client.read()
    broker.pass_time(1)
    assert len(client.read().pop(asked).responses[0].partitions[0].records) == 0


def test_a_fetch_waits_until_there_is_enough() -> None:
    broker = SimBroker().start()
    client, other = broker.client(), broker.client()
    client.create_topic("orders")
    size = len(batch(1, 100))
    asked = client.post(fetch_request("orders", 0, max_wait_ms=10_000, min_bytes=2 * size), 12)
    other.produce("orders", batch(1, 100))
    assert not client.read()
    other.produce("orders", batch(1, 100))
    assert len(client.read()[asked].responses[0].partitions[0].records) == 2 * size


@pytest.mark.spec("RP-37")
def test_a_fetch_does_not_wait_for_more_than_its_segment_has() -> None:
    """An answer ends with the segment, and what is in the next one comes with the next answer."""
    broker = SimBroker().start()
    client, other = broker.client(), broker.client()
    client.create_topic("orders", configs={"segment.bytes": str(1 << 20)})
    for _ in range(11):
        client.produce("orders", batch(1, 100_000))
    asked = client.post(fetch_request("orders", 9, max_wait_ms=10_000, min_bytes=500_000), 12)
    assert asked in client.read(), "the tenth batch is the last of the first segment"
    asked = client.post(fetch_request("orders", 11, max_wait_ms=10_000, min_bytes=2_000_000), 12)
    for _ in range(9):
        other.produce("orders", batch(1, 100_000))
    assert asked not in client.read()
    other.produce("orders", batch(1, 100_000))
    assert asked in client.read(), "its segment has ended meanwhile"


def test_nobody_waits_for_a_client_that_left() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.post(fetch_request("orders", 0, max_wait_ms=100_000), 12)
    assert len(broker.node.purgatory) == 1
    client.leave()
    assert len(broker.node.purgatory) == 0


@pytest.mark.spec("NW-01")
def test_pipelined_requests_are_answered_in_their_order() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    asked = [
        client.post(produce_request("orders", batch(1, 100)), 9),
        client.post(fetch_request("orders", 1, max_wait_ms=500), 12),  # waits
        client.post(produce_request("orders", batch(1, 100)), 9),  # would complete it, and must not overtake it
        client.post(MetadataRequest(topics=None), 12),
    ]
    broker.run()
    assert list(client.read()) == asked[:1]
    broker.pass_time(500)
    assert list(client.read()) == asked


@pytest.mark.spec("NW-01")
def test_produce_requests_need_not_wait_for_each_other() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": "1"})
    asked = [client.post(produce_request("orders", batch(1, 100)), 9) for _ in range(5)]
    partition = broker.node.replicas.partition("orders", 0)
    assert partition.log is not None
    assert partition.log.log_end_offset == 5, "all are written"
    assert not client.read(), "none is on the disk"
    broker.run()
    assert list(client.read()) == asked


@pytest.mark.spec("NW-06")
def test_a_client_that_does_not_read_is_not_served_on() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.is_slow = True
    for _ in range(10):
        client.post(MetadataRequest(topics=None), 12)
    assert len(client.read()) == 1
    assert len(client._unread) > 0, "the rest waits on the client's side"


@pytest.mark.spec("NW-06")
@pytest.mark.parametrize("is_shape_known", [False, True])
def test_produce_requests_of_a_client_that_does_not_read_are_not_appended(is_shape_known: bool) -> None:
    """Also those that are answered together, which is possible once one of their shape was decoded."""
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    if is_shape_known:
        client.produce("orders", batch(1, 100))
    log = broker.node.replicas.partition("orders", 0).log
    assert log is not None
    first_offset = log.log_end_offset
    client.is_slow = True
    asked = [client.post(produce_request("orders", batch(1, 100)), 9) for _ in range(10)]
    broker.run()
    assert log.log_end_offset == first_offset + 1
    assert list(client.read()) == asked[:1]
    client.is_slow = False
    client._channel.drained()
    client._offer()
    answers = client.read()
    assert [answers[each].responses[0].partition_responses[0].base_offset for each in asked] == list(
        range(first_offset, first_offset + 10)
    )


@pytest.mark.spec("NW-06")
def test_unacknowledged_produce_requests_of_one_client_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.broker.channel.MAX_WAITING_PRODUCES", 3)
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": "1"})
    asked = [client.post(produce_request("orders", batch(1, 100)), 9) for _ in range(10)]
    log = broker.node.replicas.partition("orders", 0).log
    assert log is not None
    assert log.log_end_offset == 3
    broker.run()
    assert list(client.read()) == asked
    assert log.log_end_offset == 10


@pytest.mark.spec("NW-07")
def test_an_error_of_one_partition_is_its_own() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(2, 100))
    request = fetch_request("orders", 0, max_wait_ms=10_000)
    request.topics += fetch_request("nowhere", 0).topics + fetch_request("orders", 99).topics
    request.topics[2].partitions[0].partition = 0
    request.topics[1].partitions[0].partition = 3
    answer = client.ask(request, 12)
    codes = {
        (topic.topic, partition.partition_index): partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
    }
    assert codes["nowhere", 3] == 3
    assert ("orders", 0) in codes


@pytest.mark.spec("NW-03")
@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("7fffffff"),
        bytes.fromhex("ffffffff"),
        bytes.fromhex("00000005 0000000000"),
        bytes.fromhex("0000000a 03e7 0000 00000001 ffff"),  # no such api
        bytes.fromhex("0000000a 0008 0002 00000001 ffff"),  # an api that is not served
        bytes.fromhex("0000000a 0003 0063 00000001 ffff"),  # no such version
        bytes.fromhex("0000000a 0003 000c 00000001 0001"),  # it ends in its header
    ],
)
def test_what_is_no_request_ends_the_connection(frame: bytes) -> None:
    broker = SimBroker().start()
    client, other = broker.client(), broker.client()
    with pytest.raises(TailraceError):
        client.write(frame)
    assert other.create_topic("orders").error_code == 0


@pytest.mark.spec("NW-03")
@pytest.mark.parametrize("is_alike", [False, True])
def test_a_request_of_the_maximum_size_is_handled_and_one_byte_more_is_refused(is_alike: bool) -> None:
    """Requests that are like the one before them are taken from the buffer by another function."""
    largest = frame_of(produce_request("orders", batch(1, 5000)))
    too_large = frame_of(produce_request("orders", batch(1, 5001)))
    assert len(too_large) == len(largest) + 1
    broker = SimBroker(socket_request_max_bytes=str(len(largest) - 4)).start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(1, 100))
    before = frame_of(produce_request("orders", batch(1, 100))) if is_alike else b""
    client.write(before + largest)
    log = broker.node.replicas.partition("orders", 0).log
    assert log is not None
    assert log.log_end_offset == 2 + is_alike
    with pytest.raises(InvalidRequestError):
        client.write(before + too_large)
    assert log.log_end_offset == 2 + 2 * is_alike, "only what came before it was appended"


@pytest.mark.spec("NW-03")
@pytest.mark.parametrize("present_bytes", [4, 11, 12, 3000])
def test_the_size_of_a_request_is_judged_before_the_request_is_there(present_bytes: int) -> None:
    largest = frame_of(produce_request("orders", batch(1, 5000)))
    broker = SimBroker(socket_request_max_bytes=str(len(largest) - 4)).start()
    client, other = broker.client(), broker.client()
    client.create_topic("orders")
    client.write(largest[:present_bytes])
    with pytest.raises(InvalidRequestError):
        other.write(frame_of(produce_request("orders", batch(1, 5001)))[:present_bytes])
    client.write(largest[present_bytes:])
    log = broker.node.replicas.partition("orders", 0).log
    assert log is not None
    assert log.log_end_offset == 1


@pytest.mark.spec("RP-08")
def test_a_request_with_acks_0_gets_no_answer_and_a_bad_one_ends_the_connection() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    client.post(produce_request("orders", batch(1, 100), acks=0), 9)
    asked = client.post(produce_request("orders", batch(1, 100)), 9)
    assert client.read().pop(asked).responses[0].partition_responses[0].base_offset == 1
    client.post(produce_request("nowhere", batch(1, 100), acks=0), 9)
    assert client.is_closed


@pytest.mark.parametrize(("acks", "code"), [(2, 21), (-2, 21)])
def test_acks_that_do_not_exist_are_refused(acks: int, code: int) -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    assert client.produce("orders", batch(1, 100), acks=acks).error_code == code


def test_what_is_refused_is_counted() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders", configs={"max.message.bytes": "500"})
    assert client.produce("orders", batch(1, 1000)).error_code == 10
    damaged = bytearray(batch(1, 100))
    damaged[-1] ^= 1
    assert client.produce("orders", bytes(damaged)).error_code == 2
    topic = broker.node.counters.topic("orders")
    assert topic.bytes_rejected == len(batch(1, 1000))
    assert (topic.invalid_crc_records, topic.failed_produce_requests, topic.messages_in) == (1, 2, 0)
