"""How many bytes of which partition a fetch returns: the limits of the request, of its partitions and of the broker.

Kafka 4.3.1 returned the same sizes for the same requests.
"""

from __future__ import annotations

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.logs.builders import batch
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

SIZE = len(batch(1, 1000))
ALL = 10 * SIZE
"""More than all batches of one partition."""

Asked = tuple[int, int, int]
"""Partition, offset, and the limit of the partition."""
Returned = list[tuple[int, int]]
"""Partition and bytes of records, in the order of the response."""


def request(*asked: Asked, max_bytes: int, **fields: int) -> FetchRequest:
    parts = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
        for index, offset, limit in asked
    ]
    topics = [FetchTopic(topic="orders", partitions=parts)] if parts else []
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": max_bytes, "topics": topics, **fields})


def returned(client: SimClient, fetch: FetchRequest) -> Returned:
    response = client.ask(fetch, 12)
    return [(part.partition_index, len(part.records)) for topic in response.responses for part in topic.partitions]


def filled_broker(**settings: str) -> SimClient:
    """Partitions 0, 1 and 2 have three batches each, partition 3 has none."""
    client = SimBroker(**settings).start().client()
    client.create_topic("orders", 4)
    for index in (0, 1, 2):
        for _ in range(3):
            assert client.produce("orders", batch(1, 1000), index).error_code == 0
    return client


@pytest.mark.parametrize(
    ("max_bytes", "sizes"),
    [
        (0, [SIZE, 0, 0]),
        (1, [SIZE, 0, 0]),
        (SIZE - 1, [SIZE, 0, 0]),
        (SIZE, [SIZE, 0, 0]),
        (SIZE + 1, [SIZE + 1, 0, 0]),
        (3 * SIZE, [3 * SIZE, 0, 0]),
        (3 * SIZE + 500, [3 * SIZE, 0, 0]),
        (4 * SIZE, [3 * SIZE, SIZE, 0]),
        (4 * SIZE + 7, [3 * SIZE, SIZE + 7, 0]),
        (7 * SIZE - 1, [3 * SIZE, 3 * SIZE, 0]),
        (9 * SIZE, [3 * SIZE, 3 * SIZE, 3 * SIZE]),
    ],
)
def test_the_limit_of_the_response_is_shared_in_the_order_of_the_request(max_bytes: int, sizes: list[int]) -> None:
    client = filled_broker()
    for order in ([0, 1, 2], [2, 0, 1]):
        asked = [(index, 0, ALL) for index in order]
        assert returned(client, request(*asked, max_bytes=max_bytes)) == list(zip(order, sizes, strict=True))


@pytest.mark.spec("LS-18")
def test_the_first_partition_that_has_records_returns_at_least_one_batch() -> None:
    client = filled_broker()
    assert returned(client, request((3, 0, ALL), (1, 0, ALL), (0, 0, ALL), max_bytes=1)) == [(3, 0), (1, SIZE), (0, 0)]
    at_the_end = request((0, 3, SIZE), (1, 0, 1), (2, 0, SIZE), max_bytes=2 * SIZE)
    assert returned(client, at_the_end) == [(0, 0), (1, SIZE), (2, SIZE)]
    out_of_range = request((0, 99, SIZE), (1, 0, 1), (2, 0, SIZE), max_bytes=1)
    assert returned(client, out_of_range) == [(0, 0), (1, SIZE), (2, 0)]


def test_a_later_partition_returns_no_part_of_its_first_batch() -> None:
    """The Java consumer fails on a partition whose records have no whole batch."""
    client = filled_broker()
    found = returned(client, request((0, 0, 1), (1, 0, SIZE - 1), (2, 0, SIZE), max_bytes=ALL))
    assert found == [(0, SIZE), (1, 0), (2, SIZE)]
    found = returned(client, request((0, 0, 2 * SIZE + 7), (1, 0, SIZE + 7), (2, 0, 0), max_bytes=ALL))
    assert found == [(0, 2 * SIZE + 7), (1, SIZE + 7), (2, 0)]


def test_the_limit_of_the_broker_counts_for_the_whole_response() -> None:
    client = filled_broker(fetch_max_bytes=str(4 * SIZE))
    found = returned(client, request((0, 0, ALL), (1, 0, ALL), (2, 0, ALL), max_bytes=9 * SIZE))
    assert found == [(0, 3 * SIZE), (1, SIZE), (2, 0)]


def test_a_delayed_fetch_counts_each_byte_once() -> None:
    client = filled_broker()
    other = client._broker.client()
    asked = client.post(request((0, 3, ALL), (1, 3, ALL), max_bytes=ALL, max_wait_ms=500, min_bytes=3 * SIZE), 12)
    for index in (0, 0, 1):
        assert asked not in client.read()
        other.produce("orders", batch(1, 1000), index)
    (topic,) = client.read()[asked].responses
    assert [len(part.records) for part in topic.partitions] == [2 * SIZE, SIZE]


def test_a_delayed_fetch_keeps_the_limit_of_the_response() -> None:
    client = filled_broker()
    other = client._broker.client()
    fetch = request((0, 3, ALL), (1, 3, ALL), max_bytes=2 * SIZE, max_wait_ms=500, min_bytes=2 * SIZE)
    asked = client.post(fetch, 12)
    other.produce("orders", batch(1, 1000), 1)
    assert asked not in client.read()
    other.produce("orders", batch(2, 1000), 0)
    (topic,) = client.read()[asked].responses
    large = len(batch(2, 1000))
    assert [len(part.records) for part in topic.partitions] == [large, 0]


@pytest.mark.spec("RP-37")
@pytest.mark.parametrize(("max_bytes", "broker_limit"), [(2 * SIZE, ALL), (ALL, 2 * SIZE)])
def test_a_fetch_does_not_wait_for_more_bytes_than_it_may_return(max_bytes: int, broker_limit: int) -> None:
    client = filled_broker(fetch_max_bytes=str(broker_limit))
    limits = {"max_bytes": max_bytes, "min_bytes": 4 * SIZE, "max_wait_ms": 500}
    assert returned(client, request((0, 0, ALL), (1, 0, ALL), **limits)) == [(0, 2 * SIZE), (1, 0)]
    asked = client.post(request((0, 3, ALL), (1, 3, ALL), **limits), 12)
    other = client._broker.client()
    other.produce("orders", batch(1, 1000), 0)
    assert asked not in client.read()
    other.produce("orders", batch(1, 1000), 1)
    (topic,) = client.read()[asked].responses
    assert [len(part.records) for part in topic.partitions] == [SIZE, SIZE]


@pytest.mark.spec("RP-37")
def test_a_batch_that_does_not_fit_counts_as_available() -> None:
    """The response has no room for more than it returns, so that waiting would only end with the timeout."""
    client = filled_broker()
    fetch = request((0, 2, ALL), (1, 0, ALL), max_bytes=2 * SIZE - 1, min_bytes=2 * SIZE - 1, max_wait_ms=500)
    asked = client.post(fetch, 12)
    (topic,) = client.read()[asked].responses
    assert [len(part.records) for part in topic.partitions] == [SIZE, 0]


def test_partitions_of_a_session_take_turns_when_the_response_has_no_room_for_all() -> None:
    client = filled_broker()
    begin = client.ask(request(*((index, 0, ALL) for index in range(3)), max_bytes=SIZE, session_epoch=0), 12)
    served = []
    for epoch in range(1, 7):
        again = request(max_bytes=SIZE, session_id=begin.session_id, session_epoch=epoch)
        ((index, size),) = returned(client, again)
        assert size == SIZE
        served.append(index)
    assert sorted(served[:3]) == sorted(served[3:]) == [0, 1, 2]


@pytest.mark.parametrize("by_id", [False, True])
def test_partitions_of_a_topic_are_together_in_the_response(by_id: bool) -> None:
    """From version 13 on a topic has only its id, before that only its name."""
    client = SimBroker().start().client()
    ids = {name: client.create_topic(name, 2).topic_id for name in ("orders", "payments")}
    topics = [
        FetchTopic(
            **({"topic_id": topic_id} if by_id else {"topic": name}),
            partitions=[FetchPartition(partition=index, partition_max_bytes=ALL) for index in (0, 1)],
        )
        for name, topic_id in ids.items()
    ]
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=ALL, topics=topics)
    response = client.ask(fetch, 13 if by_id else 12)
    found = [(each.topic_id if by_id else each.topic, len(each.partitions)) for each in response.responses]
    assert found == [(key, 2) for key in (ids.values() if by_id else ids)]
