from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.coordinating import FakeGroup, FakeMember
from support.brokers.scripted import HANG_UP
from support.brokers.transacting import TransactingBroker
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, DeliveryError, class_of
from tailrace.client.group_offsets import MemberId
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tailrace.record.reader import application_records
from tailrace.record.shallow import ShallowBatch, batches

ORDERS = TopicPartition("orders", 0)
FENCED, STALE, OUT_OF_ORDER, NOT_AUTHORIZED = 90, 113, 45, 53


@pytest.fixture(params=[1, 2], ids=["older flow", "version 2"])
def broker(request: pytest.FixtureRequest) -> Iterator[TransactingBroker]:
    with TransactingBroker() as broker:
        broker.transaction_version = request.param
        broker.add_topic("orders", 2)
        yield broker


@pytest.fixture
def producer(broker: TransactingBroker, cluster: Cluster) -> Iterator[TransactionalProducer]:
    with TransactionalProducer(cluster, "copier") as producer:
        yield producer


def written(broker: TransactingBroker) -> list[ShallowBatch]:
    return [batch for log in broker.topics["orders"] for data in log.batches for batch in batches(data)]


def values(broker: TransactingBroker) -> list[bytes | None]:
    logs = broker.topics["orders"]
    return [record.value for log in logs for data in log.batches for record in application_records(data)]


def test_transactions_commit(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    for number in range(3):
        with producer.transaction():
            producer.send("orders", b"a%d" % number, partition=0)
            producer.send("orders", b"b%d" % number, partition=1)
    transaction = broker.transactions["copier"]
    assert transaction.ends == [True, True, True]
    assert all(batch.is_transactional and batch.producer_id == transaction.producer_id for batch in written(broker))
    assert {request.transactional_id for request in broker.requests(ProduceRequest)} == {"copier"}
    produce, add, end = (broker.seen_versions.get(key, set()) for key in (0, 24, 26))
    epochs = {batch.producer_epoch for batch in written(broker)}
    sequences = [batch.base_sequence for batch in written(broker)]
    if broker.transaction_version == 2:  # brokers add partitions themselves, and every end has an epoch of its own
        assert (min(produce) > 11, add, end) == (True, set(), {5})
        assert (epochs, sequences) == ({0, 1, 2}, [0] * 6)
    else:
        assert (max(produce) <= 11, add, end) == (True, {3}, {4})
        assert (epochs, sequences) == ({0}, [0, 1, 2] * 2)


def test_a_partition_is_added_once(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    with producer.transaction():
        for number in range(5):
            producer.send_batch(ORDERS, [(number, None, b"x")])
    assert len(broker.requests(AddPartitionsToTxnRequest)) == (1 if broker.transaction_version == 1 else 0)


def test_an_error_in_the_block_aborts(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    def fails() -> None:
        with producer.transaction():
            producer.send("orders", b"x", partition=0)
            producer.flush()
            raise KeyError("of the caller")

    with pytest.raises(KeyError):
        fails()
    assert broker.transactions["copier"].ends == [False]
    with producer.transaction():
        producer.send("orders", b"y", partition=0)
    assert broker.transactions["copier"].ends == [False, True]


def test_an_empty_transaction_needs_no_end(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    with producer.transaction():
        pass
    producer.begin()
    producer.abort()
    assert broker.requests(EndTxnRequest) == []


def test_what_was_never_sent_leaves_no_gap(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    """Batches have their sequences before they are sent: after an abort those must be used, or not be missed."""
    producer.begin()
    producer.send_batch(ORDERS, [(1, None, b"first")])
    producer.flush()
    broker.answers[ProduceRequest] = lambda request: broker.produce(request, 7)
    with pytest.raises(DeliveryError):
        _sent_in_vain(producer)
    producer.abort()
    broker.answers[ProduceRequest] = broker.produce_checked
    with producer.transaction():
        producer.send_batch(ORDERS, [(3, None, b"third")])
    assert values(broker) == [b"first", b"third"]
    inits = len(broker.requests(InitProducerIdRequest))
    assert inits == (2 if broker.transaction_version == 1 else 1)


def _sent_in_vain(producer: TransactionalProducer) -> None:
    producer._delivery_timeout_s = 0
    producer.send_batch(ORDERS, [(2, None, b"second")])
    producer._delivery_timeout_s = 120
    producer.flush()


def test_the_second_of_one_id_fences_the_first(broker: TransactingBroker, cluster: Cluster) -> None:
    with TransactionalProducer(cluster, "copier") as first, TransactionalProducer(cluster, "copier") as second:
        first.begin()
        first.send("orders", b"x", partition=0)
        first.flush()
        second.begin()
        with pytest.raises(class_of(FENCED)):
            first.commit()
        for attempt in (first.commit, first.abort, first.abort, first.begin, lambda: first.send("orders", b"z")):
            with pytest.raises(class_of(FENCED)):
                attempt()
        second.send("orders", b"y", partition=0)
        second.commit()
    assert broker.transactions["copier"].ends == [True]


def test_a_transaction_that_took_too_long_can_be_left_behind(
    broker: TransactingBroker, producer: TransactionalProducer
) -> None:
    producer.begin()
    producer.send("orders", b"late", partition=0)
    producer.flush()
    broker.end_errors = [47]
    producer.abort()
    with producer.transaction():
        producer.send("orders", b"next", partition=0)
    assert broker.transactions["copier"].ends == [True]


def test_an_end_is_asked_for_until_it_is_there(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    broker.end_errors = [51, 14, 16, 15]
    with producer.transaction():
        producer.send("orders", b"x", partition=0)
    assert len(broker.requests(EndTxnRequest)) == 5
    lost = iter([HANG_UP])
    broker.answers[EndTxnRequest] = lambda request: next(lost, None) or broker.end(request)
    with producer.transaction():
        producer.send("orders", b"x", partition=0)
    assert broker.transactions["copier"].ends == [True, True]


def test_offsets_count_with_the_transaction(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    producer.begin()
    producer.send_offsets("readers", {ORDERS: 7})
    producer.send_offsets("readers", {TopicPartition("orders", 1): 8})
    assert "readers" not in broker.groups
    producer.commit()
    assert broker.groups["readers"].offsets == {("orders", 0): 7, ("orders", 1): 8}
    producer.begin()
    producer.send_offsets("readers", {ORDERS: 9})
    producer.abort()
    assert broker.groups["readers"].offsets["orders", 0] == 7
    assert broker.seen_versions[28] == ({5} if broker.transaction_version == 2 else {4})
    assert (25 in broker.seen_versions) is (broker.transaction_version == 1)


def test_offsets_of_a_member_that_is_none_any_more(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    broker.groups["readers"] = FakeGroup(members={"m": FakeMember(4, ["orders"])})
    producer.begin()
    producer.send("orders", b"x", partition=0)
    producer.send_offsets("readers", {ORDERS: 7}, MemberId("m", 4))
    with pytest.raises(class_of(STALE)):
        producer.send_offsets("readers", {ORDERS: 8}, MemberId("m", 3))
    (_, refused) = broker.requests(TxnOffsetCommitRequest)
    assert (refused.member_id, refused.generation_id) == ("m", 3)
    with pytest.raises(DeliveryError, match="the transaction has failed"):
        producer.commit()
    producer.abort()
    assert broker.groups["readers"].offsets == {}


def test_a_refused_batch_can_be_left_behind(broker: TransactingBroker, producer: TransactionalProducer) -> None:
    refusals = iter([OUT_OF_ORDER])

    def refuse_once(request: ProduceRequest) -> object:
        code = next(refusals, 0)
        return broker.produce(request, code) if code else broker.produce_checked(request)

    broker.answers[ProduceRequest] = refuse_once
    producer.begin()
    producer.send("orders", b"x", partition=0)
    with pytest.raises(DeliveryError):
        producer.commit()
    with pytest.raises(DeliveryError):
        producer.send("orders", b"y", partition=0)
    producer.abort()
    with producer.transaction():
        producer.send("orders", b"z", partition=0)
    assert values(broker) == [b"z"]


def test_an_abort_that_failed_can_only_be_tried_again(
    broker: TransactingBroker, producer: TransactionalProducer
) -> None:
    """What is not written is thrown away with the first attempt: to commit the rest would tear the transaction."""
    producer.begin()
    producer.send_batch(ORDERS, [(1, None, b"first")])
    producer.flush()
    broker.answers[ProduceRequest] = lambda request: broker.produce(request, 7)
    with pytest.raises(DeliveryError):
        _sent_in_vain(producer)
    end = broker.answers[EndTxnRequest]
    broker.answers[EndTxnRequest] = lambda _: EndTxnResponse(error_code=NOT_AUTHORIZED)
    with pytest.raises(class_of(NOT_AUTHORIZED)):
        producer.abort()
    broker.answers[EndTxnRequest] = end
    for attempt in (producer.commit, lambda: producer.send("orders", b"third", partition=0)):
        with pytest.raises(DeliveryError, match="is being aborted"):
            attempt()
    producer.abort()
    assert broker.transactions["copier"].ends == [False]
    broker.answers[ProduceRequest] = broker.produce_checked
    with producer.transaction():
        producer.send_batch(ORDERS, [(4, None, b"fourth")])
    assert values(broker) == [b"first", b"fourth"]


def test_calls_in_the_wrong_order(producer: TransactionalProducer, cluster: Cluster) -> None:
    for attempt in (
        lambda: producer.send("orders", b"x"),
        lambda: producer.send_offsets("g", {ORDERS: 1}),
        producer.flush,
        producer.commit,
        producer.abort,
    ):
        with pytest.raises(ClientError, match="in no transaction"):
            attempt()
    producer.begin()
    with pytest.raises(ClientError, match="already"):
        producer.begin()
    with pytest.raises(ClientError, match="not empty"):
        TransactionalProducer(cluster, "")


def test_closing_aborts(broker: TransactingBroker, cluster: Cluster) -> None:
    producer = TransactionalProducer(cluster, "copier")
    producer.begin()
    producer.send("orders", b"x", partition=0)
    producer.flush()
    assert producer.is_in_transaction
    producer.close()
    assert broker.transactions["copier"].ends == [False]


def test_a_cluster_that_is_upgraded_in_between() -> None:
    with TransactingBroker() as broker:
        broker.transaction_version = 1
        broker.add_topic("orders")
        with Cluster(broker.address, pause=lambda _: None) as cluster, TransactionalProducer(cluster, "t") as producer:
            with producer.transaction():
                producer.send("orders", b"a")
            broker.transaction_version = 2
            broker.hang_up()
            cluster.retry("coming back", lambda: cluster.refresh(()))
            with producer.transaction():
                producer.send("orders", b"b")
            with producer.transaction():
                producer.send("orders", b"c")
        assert broker.transactions["t"].ends == [True] * 3
        assert broker.seen_versions[26] == {4, 5}
