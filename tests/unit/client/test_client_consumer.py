from __future__ import annotations

import pytest

from support.brokers.scripted import HANG_UP, NO_ANSWER, Log, Pauses, ScriptedBroker
from tailrace.client.batch_run import BatchRun, run_of
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import RAISE, Consumer
from tailrace.client.errors import ClientError, ConnectionLostError, NoAnswerError
from tailrace.client.fetcher import AbortedTransaction, Fetched, Fetcher
from tailrace.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from tailrace.model.errors import CorruptMessageError, MessageTooLargeError, OffsetOutOfRangeError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tailrace.record.builder import batch_of
from tailrace.record.control import ABORT, COMMIT, end_txn_marker

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def fill(log: Log, *batches_of: int) -> None:
    for count in batches_of:
        log.append(batch_of([(log.end + at, None, b"%d" % (log.end + at)) for at in range(count)]))


def values(runs: list[BatchRun]) -> list[bytes | None]:
    return [record.value for run in runs for record in run.records()]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_everything_that_is_there_comes_once(broker: ScriptedBroker, cluster: Cluster) -> None:
    logs = broker.add_topic("orders", 2)
    fill(logs[0], 3, 2)
    fill(logs[1], 4)
    with Consumer(cluster) as consumer:
        assert consumer.assign_topic("orders") == [ZERO, ONE]
        runs = consumer.poll(5)
        assert sorted(values(runs)) == sorted(numbers(0, 5) + numbers(0, 4))  # type: ignore[type-var]
        assert consumer.positions == {ZERO: 5, ONE: 4} == consumer.ends()
        assert [(run.lag, run.high_watermark) for run in runs if run.partition == ZERO] == [(0, 5)]
        fill(logs[1], 2)
        later: list[BatchRun] = []
        while not later:
            later = consumer.poll(5)
        assert values(later) == numbers(4, 6)


def test_nothing_comes_where_there_is_nothing(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        assert consumer.poll(0.05) == []


def test_reading_begins_in_the_middle_of_a_batch(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 10, 10)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        consumer.seek(ZERO, 7)
        (run,) = consumer.poll(5)
        assert [record.value for record in run.records()] == numbers(7, 20)
        assert (run.offset, run.next_offset, run.batches[0].base_offset) == (7, 20, 0)


def test_what_follows_is_asked_for_before_the_caller_asks(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        consumer.poll(5)
        while len(broker.requests(FetchRequest)) < 2:
            pass
        assert broker.requests(FetchRequest)[1].topics[0].partitions[0].fetch_offset == 5


def test_what_was_asked_before_a_seek_is_not_given(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5, 5)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        consumer.poll(5)
        fill(log, 5)
        consumer.seek(ZERO, 8)
        runs: list[BatchRun] = []
        while not runs:
            runs = consumer.poll(5)
        assert values(runs) == numbers(8, 15)


def test_seeking_by_time_and_to_the_ends(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 9)
    log.start = 2
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        assert consumer.positions == {ZERO: 2}
        consumer.seek_to(LATEST)
        assert consumer.positions == {ZERO: 9}
        consumer.seek_to(EARLIEST)
        assert consumer.positions == {ZERO: 2}
        consumer.seek_to(1_700_000_000_000)  # the scripted broker has nothing that late
        assert consumer.positions == {ZERO: 9}
    assert [request.topics[0].partitions[0].timestamp for request in broker.requests(ListOffsetsRequest)] == [
        EARLIEST,
        LATEST,
        EARLIEST,
        1_700_000_000_000,
        LATEST,
    ]


def test_what_is_not_assigned_cannot_be_sought(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        with pytest.raises(ClientError, match="orders-1 is not assigned"):
            consumer.seek(ONE, 0)
        with pytest.raises(ClientError, match="-5 is no offset"):
            consumer.seek(ZERO, -5)


def test_an_offset_that_is_gone(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5, 5)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        log.start = 5
        log.batches.pop(0)
        assert values(consumer.poll(5)) == numbers(5, 10)
    with Consumer(cluster, out_of_range=RAISE) as consumer:
        consumer.assign([ZERO])
        consumer.seek(ZERO, 99)
        with pytest.raises(OffsetOutOfRangeError, match="fetching orders-0 from offset 99"):
            consumer.poll(5)


def test_trouble_with_one_partition_loses_nothing_of_another(
    broker: ScriptedBroker, cluster: Cluster, pauses: Pauses
) -> None:
    logs = broker.add_topic("orders", 2)
    fill(logs[0], 3)
    fill(logs[1], 3)
    left = iter([{1: 6}, {1: 6}])
    broker.answers[FetchRequest] = lambda request: broker.fetch(request, next(left, None))
    found: list[bytes | None] = []
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO, ONE])
        while len(found) < 6:
            found += values(consumer.poll(5))
        assert consumer.positions == {ZERO: 3, ONE: 3}
    assert sorted(found) == sorted(numbers(0, 3) * 2)  # type: ignore[type-var]


def test_a_lost_connection_is_mended(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5)
    left = iter([HANG_UP, HANG_UP])
    broker.answers[FetchRequest] = lambda request: next(left, None) or broker.fetch(request)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        assert values(consumer.poll(5)) == numbers(0, 5)
    assert pauses.seconds == [0.05, 0.1]


def test_half_an_answer_is_not_taken_for_the_next_one(broker: ScriptedBroker, pauses: Pauses) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5)
    left = iter([b"\x00\x00\x00\x40half"])
    broker.answers[FetchRequest] = lambda request: next(left, None) or broker.fetch(request)
    with Cluster(broker.address, timeout_s=0.3, pause=pauses) as cluster, Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        assert values(consumer.poll(10)) == numbers(0, 5)


def test_a_fetch_that_fails_leaves_nothing_under_way(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    broker.answers[FetchRequest] = lambda _: HANG_UP
    fetcher = Fetcher(cluster)
    with pytest.raises(ConnectionLostError):
        fetcher.fetch({ZERO: 0})
    assert not fetcher.is_waiting


def test_trouble_that_lasts_is_told_in_the_end(broker: ScriptedBroker) -> None:
    broker.add_topic("orders")
    broker.answers[FetchRequest] = lambda _: HANG_UP
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    with Cluster(broker.address, timeout_s=5, pause=pause, clock=lambda: now[0]) as cluster:
        consumer = Consumer(cluster)
        consumer.assign([ZERO])
        with pytest.raises(ConnectionLostError):
            consumer.poll(60)
        consumer.close()
    assert 5 <= now[0] < 7


def test_a_silent_leader_is_asked_again_and_reported_when_the_timeout_is_over(broker: ScriptedBroker) -> None:
    broker.add_topic("orders")
    broker.answers[FetchRequest] = lambda _: NO_ANSWER
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    def poll_for_long() -> None:
        while now[0] < 100:
            consumer.poll(0)
            pause(0.25)

    with (
        Cluster(broker.address, timeout_s=5, pause=pause, clock=lambda: now[0]) as cluster,
        Consumer(cluster, fetcher=Fetcher(cluster, max_wait_ms=250)) as consumer,
    ):
        consumer.assign([ZERO])
        connections = broker.connections
        with pytest.raises(NoAnswerError, match="no response to a fetch request"):
            poll_for_long()
    assert 4.5 <= now[0] <= 5.5
    assert broker.connections == connections + 2


def test_a_silent_leader_is_replaced_while_another_one_delivers(broker: ScriptedBroker) -> None:
    logs = broker.add_topic("orders", 2)
    fill(logs[1], 1)
    now, leaders = [0.0], [1, 2]

    def metadata(request: MetadataRequest) -> MetadataResponse:
        response = broker.metadata(request)
        response.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=broker.port))
        for partition, leader in zip(response.topics[0].partitions, leaders, strict=True):
            partition.leader_id = leader
        return response

    def fetch(request: FetchRequest) -> object:
        if [each.partition for each in request.topics[0].partitions] == [1]:
            return NO_ANSWER
        fill(logs[0], 1)
        return broker.fetch(request)

    broker.answers |= {MetadataRequest: metadata, FetchRequest: fetch}
    with Cluster(broker.address, timeout_s=5, clock=lambda: now[0]) as cluster, Consumer(cluster) as consumer:
        consumer.assign([ZERO, ONE])
        consumer.poll(5)
        leaders[1] = 1
        while consumer.positions[ONE] == 0:
            assert now[0] < 10
            now[0] += 1
            assert consumer.poll(5)


def test_isolation_and_limits_are_asked_for(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    fetcher = Fetcher(cluster, isolation=READ_COMMITTED, max_wait_ms=7, min_bytes=3, max_bytes=4, partition_max_bytes=5)
    fetcher.fetch({ZERO: 0})
    fetcher.close()
    (request,) = broker.requests(FetchRequest)
    assert (request.isolation_level, request.max_wait_ms, request.min_bytes, request.max_bytes) == (1, 7, 3, 4)
    assert request.topics[0].partitions[0].partition_max_bytes == 5


def test_one_fetch_may_have_limits_of_its_own(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    fetcher = Fetcher(cluster, max_wait_ms=7, partition_max_bytes=5)
    fetcher.submit({ZERO: 0}, max_wait_ms=0, partition_max_bytes=99)
    fetcher.receive(10)
    fetcher.close()
    (request,) = broker.requests(FetchRequest)
    assert (request.max_wait_ms, request.topics[0].partitions[0].partition_max_bytes) == (0, 99)


@pytest.mark.parametrize("reuses_memory", [True, False])
def test_answers_may_come_into_the_same_memory(broker: ScriptedBroker, cluster: Cluster, reuses_memory: bool) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5, 3)
    fetcher = Fetcher(cluster, reuses_memory=reuses_memory)
    (both,) = fetcher.fetch({ZERO: 0})
    first = bytes(both.records)
    (second,) = fetcher.fetch({ZERO: 5})
    fetcher.close()
    assert first == log.batches[0] + log.batches[1]
    assert bytes(second.records) == log.batches[1]
    assert (bytes(both.records) != first) is reuses_memory


def test_an_old_broker_is_asked_by_names(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.versions[MetadataRequest.KEY] = (0, 8)
    (log,) = broker.add_topic("orders")
    fill(log, 2)
    with Consumer(cluster) as consumer:
        consumer.assign([ZERO])
        assert values(consumer.poll(5)) == numbers(0, 2)
    assert broker.seen_versions[FetchRequest.KEY] == {12}


# Batches


def fetched(data: bytes, *aborted: tuple[int, int], offset: int = 0) -> Fetched:
    transactions = tuple(AbortedTransaction(*each) for each in aborted)
    return Fetched(ZERO, offset, data, 100, 100, 0, transactions, None)


def transactional(base_offset: int, producer_id: int, value: bytes) -> bytearray:
    return batch_of(
        [(0, None, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(base_offset: int, producer_id: int, outcome: int) -> bytearray:
    return end_txn_marker(
        outcome, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=base_offset
    )


def test_what_was_aborted_and_markers_are_left_out() -> None:
    data = b"".join(
        (
            transactional(0, 7, b"aborted"),
            transactional(1, 8, b"committed"),
            batch_of([(0, None, b"plain")], base_offset=2),
            marker(3, 7, ABORT),
            marker(4, 8, COMMIT),
            transactional(5, 7, b"after"),
            transactional(6, 8, b"aborted later"),
            marker(7, 7, COMMIT),
            marker(8, 8, ABORT),
        )
    )
    run = run_of(fetched(data, (8, 6), (7, 0)))
    assert [record.value for record in run.records()] == [b"committed", b"plain", b"after"]
    assert run.next_offset == 9


def test_without_a_list_of_the_aborted_everything_is_there() -> None:
    data = b"".join((transactional(0, 7, b"aborted"), marker(1, 7, ABORT)))
    assert [record.value for record in run_of(fetched(data)).records()] == [b"aborted"]


def test_a_batch_that_is_cut_off_is_for_the_next_time() -> None:
    whole, cut = batch_of([(0, None, b"a")]), batch_of([(0, None, b"b")], base_offset=1)
    run = run_of(fetched(bytes(whole + cut[:-1])))
    assert (run.next_offset, len(run.batches)) == (1, 1)
    with pytest.raises(MessageTooLargeError, match="no whole batch in 68 bytes from offset 0 on"):
        run_of(fetched(bytes(whole[:-1])))


def test_damage_is_found_unless_nobody_wants_to_know() -> None:
    damaged = batch_of([(0, None, b"abc")])
    damaged[-2] ^= 1
    with pytest.raises(CorruptMessageError):
        run_of(fetched(bytes(damaged)))
    assert len(run_of(fetched(bytes(damaged)), check_crcs=False).batches) == 1
