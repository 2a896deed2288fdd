"""A connection's requests, in the order and the mixture in which they come."""

from __future__ import annotations

import pytest

from support.brokers.simulated import SimBroker, SimClient, produce_request
from support.logs.builders import batch
from tailrace.broker.channel import MOST_IN_A_TURN
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import PartitionProduceData


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker().start()


def of_producer(sequence: int) -> bytearray:
    return batch(1, 100, producer_id=7, producer_epoch=0, base_sequence=sequence)


def post_together(client: SimClient, *sets: bytearray) -> list[int]:
    """Produce requests that come with one read."""
    frames, asked = b"", []
    for records in sets:
        client._next_id += 1
        client._sent[client._next_id] = (0, 9)
        asked.append(client._next_id)
        frames += b"".join(encode_request(produce_request("orders", records), 9, client._next_id, "sim"))
    client.write(frames)
    return asked


@pytest.mark.spec("RP-08")
def test_what_is_behind_a_new_set_does_not_acknowledge_it(broker: SimBroker) -> None:
    """A duplicate has the offset of its first time, which was flushed long ago."""
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": "1"})
    assert client.produce("orders", of_producer(0)).base_offset == 0
    asked = post_together(client, batch(1, 100), of_producer(0))
    assert not client.read(), "the new set is not on the disk"
    broker.run()
    answers = [answer.responses[0].partition_responses[0] for answer in client.read().values()]
    assert list(client.answers) == asked
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 1), (0, 0)]


@pytest.mark.parametrize("partitions", [1, 2])
def test_requests_that_wait_do_not_hold_the_buffer_they_came_in(broker: SimBroker, partitions: int) -> None:
    client = broker.client()
    client.create_topic("orders", partitions, configs={"flush.messages": "1"})
    request = produce_request("orders", batch(1, 100))
    if partitions > 1:
        request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(1, 100)))
    buffer = bytearray(b"".join(encode_request(request, 9, 1, "sim")) * 3)
    with memoryview(buffer) as view:
        assert client._channel.receive(view, 0, len(view)) == len(view)
    assert client._channel.is_waiting
    buffer += b"more"  # which would be a BufferError


def test_a_client_that_pipelines_lets_others_have_their_turn(broker: SimBroker) -> None:
    client = broker.client()
    total = 3 * MOST_IN_A_TURN + 1
    for number in range(1, total + 1):
        client._sent[number] = (3, 12)
    client.write(b"".join(b"".join(encode_request(MetadataRequest(), 12, n, "sim")) for n in range(1, total + 1)))
    assert len(client.read()) == MOST_IN_A_TURN
    broker.run()
    assert list(client.read()) == list(range(1, total + 1))


def test_behind_what_ends_the_connection_nothing_is_handled(broker: SimBroker) -> None:
    client = broker.client()
    client.create_topic("orders")
    bad = encode_request(produce_request("nowhere", batch(1, 100), acks=0), 9, 100, "sim")
    metadata = encode_request(MetadataRequest(), 12, 101, "sim")
    good = encode_request(produce_request("orders", batch(1, 100)), 9, 102, "sim")
    client.write(b"".join((*bad, *metadata, *good)))
    assert client.is_closed
    assert not client._received
    partition = broker.node.replicas.partition("orders", 0)
    assert partition.log is not None
    assert partition.log.log_end_offset == 0


@pytest.mark.spec("NW-01")
def test_kinds_of_acknowledgement_do_not_overtake_each_other(broker: SimBroker) -> None:
    client = broker.client()
    client.create_topic("orders")
    frames = b""
    for sequence, acks in enumerate((1, -1, 0, 1, -1)):
        client._sent[sequence] = (0, 9)
        request = produce_request("orders", of_producer(sequence), acks=acks)
        frames += b"".join(encode_request(request, 9, sequence, "sim"))
    client.write(frames)
    answers = {n: each.responses[0].partition_responses[0] for n, each in client.read().items()}
    assert {n: (each.error_code, each.base_offset) for n, each in answers.items()} == {n: (0, n) for n in (0, 1, 3, 4)}


@pytest.mark.spec("NW-01")
def test_what_came_before_a_request_that_ends_the_connection_is_answered(broker: SimBroker) -> None:
    client = broker.client()
    client.create_topic("orders")
    good = encode_request(produce_request("orders", batch(1, 100)), 9, 100, "sim")
    bad = encode_request(produce_request("nowhere", batch(1, 100), acks=0), 9, 101, "sim")
    client._sent[100] = (0, 9)
    client.write(b"".join((*good, *bad)))
    assert client.is_closed
    assert list(client.read()) == [100]


def test_a_name_that_does_not_exist_is_not_told_for_each_of_its_partitions(broker: SimBroker) -> None:
    """An answer would have thousands of times the bytes of its request."""
    name, count = "x" * 30_000, 100
    request = produce_request(name, None)
    request.topic_data[0].partition_data = [PartitionProduceData(index=n, records=None) for n in range(count)]
    elections = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=list(range(count)))])
    for asked, version in ((request, 9), (elections, 2)):
        client = broker.client()
        client.post(asked, version)
        broker.run()
        assert len(name) < len(client._received) < 3 * len(name)


def test_the_longest_name_beside_a_request_that_waits(broker: SimBroker) -> None:
    """Nothing that cannot be said may come up in a flush's completion: whoever is called there cannot bear it."""
    client = broker.client()
    client.create_topic("orders", configs={"flush.messages": "1"})
    request = produce_request("orders", batch(1, 100))
    request.topic_data += produce_request("x" * 32_767, batch(1, 100)).topic_data
    asked = client.post(request, 9)
    assert asked not in client.read()
    broker.run()
    answers = [each.partition_responses[0].error_code for each in client.read()[asked].responses]
    assert answers == [0, 3]
