from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.transacting import FakeTransaction, TransactingBroker
from tailrace.client.cluster import Cluster
from tailrace.client.errors import class_of
from tailrace.client.transaction_admin import TransactionAdmin
from tailrace.model.errors import RefusedRequestError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def broker() -> Iterator[TransactingBroker]:
    with TransactingBroker() as broker:
        broker.add_topic("orders", 2)
        broker.transactions = {
            "copier": FakeTransaction(11, 3, "Ongoing", {("orders", 0)}),
            "idle": FakeTransaction(12, 0, "CompleteCommit"),
        }
        broker.producers = {
            ("orders", 0): [
                state(11, epoch=3, open_since=40, age_ms=2 * HOUR_MS),
                state(10, epoch=0, open_since=-1, age_ms=2 * HOUR_MS),
            ],
            ("orders", 1): [
                state(11, epoch=2, open_since=7, age_ms=2 * HOUR_MS),
                state(12, epoch=0, open_since=9, age_ms=1000),
                state(99, epoch=0, open_since=8, age_ms=2 * HOUR_MS),
            ],
        }
        yield broker


@pytest.fixture
def admin(cluster: Cluster) -> TransactionAdmin:
    return TransactionAdmin(cluster)


def state(producer_id: int, *, epoch: int, open_since: int, age_ms: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=5,
        last_timestamp=NOW_MS - age_ms,
        coordinator_epoch=-1,
        current_txn_start_offset=open_since,
    )


def test_listing(broker: TransactingBroker, admin: TransactionAdmin) -> None:
    listed = admin.transactions()
    assert [(each.transactional_id, each.producer_id, each.state) for each in listed] == [
        ("copier", 11, "Ongoing"),
        ("idle", 12, "CompleteCommit"),
    ]
    assert [each.transactional_id for each in admin.transactions(states=["Ongoing"])] == ["copier"]
    assert [each.transactional_id for each in admin.transactions(producer_ids=[12])] == ["idle"]
    admin.transactions(longer_than_ms=5, pattern="c.*")
    last = broker.requests(ListTransactionsRequest)[-1]
    assert (last.duration_filter, last.transactional_id_pattern) == (5, "c.*")
    broker.answers[ListTransactionsRequest] = lambda _: ListTransactionsResponse(unknown_state_filters=["Odd"])
    with pytest.raises(RefusedRequestError, match="knows no state Odd"):
        admin.transactions(states=["Odd"])


def test_describing(admin: TransactionAdmin) -> None:
    described = admin.describe("copier")
    assert (described.producer_id, described.producer_epoch, described.timeout_ms) == (11, 3, 60_000)
    assert (described.began_ms, described.partitions) == (NOW_MS, (ZERO,))
    assert admin.describe("idle").began_ms is None
    with pytest.raises(class_of(105), match="there is no transactional id nobody"):
        admin.describe("nobody")


def test_producers_of_partitions(broker: TransactingBroker, admin: TransactionAdmin) -> None:
    found = admin.producers([ONE, ZERO])
    assert [(each.partition, each.producer_id, each.open_since) for each in found] == [
        (ZERO, 10, None),
        (ZERO, 11, 40),
        (ONE, 11, 7),
        (ONE, 12, 9),
        (ONE, 99, 8),
    ]
    codes = iter([6, 0])

    def moved(request: DescribeProducersRequest) -> object:
        code = next(codes)
        if not code:
            return broker.describe_producers(request)
        part = PartitionResponse(partition_index=0, error_code=code)
        return DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[part])])

    broker.answers[DescribeProducersRequest] = moved
    assert len(admin.producers([ZERO])) == 2


def test_those_hang_that_no_coordinator_knows(admin: TransactionAdmin) -> None:
    """Known on this partition, known on another one only, young, of a producer that nobody knows."""
    hanging = admin.find_hanging([ZERO, ONE], longer_than_ms=HOUR_MS, now_ms=lambda: NOW_MS)
    assert [(each.partition, each.producer_id) for each in hanging] == [(ONE, 11), (ONE, 99)]
    assert admin.find_hanging([ZERO, ONE], longer_than_ms=3 * HOUR_MS, now_ms=lambda: NOW_MS) == []


def test_one_that_hangs_is_ended_on_its_partition(broker: TransactingBroker, admin: TransactionAdmin) -> None:
    (hanging,) = (each for each in admin.producers([ONE]) if each.producer_id == 99)
    admin.abort_hanging(hanging)
    (request,) = broker.requests(WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (99, 0, 0)
    assert (marker.transaction_result, marker.topics[0].name, marker.topics[0].partition_indexes) == (
        False,
        "orders",
        [1],
    )


def test_one_that_is_known_is_ended_by_its_coordinator(broker: TransactingBroker, admin: TransactionAdmin) -> None:
    admin.fence("copier")
    assert (broker.transactions["copier"].epoch, broker.transactions["copier"].state) == (4, "Empty")
    (request,) = broker.requests(InitProducerIdRequest)
    assert (request.transactional_id, request.producer_id) == ("copier", -1)
