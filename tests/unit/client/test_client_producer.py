from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.brokers.scripted import HANG_UP, NO_ANSWER, Log, Pauses, ScriptedBroker
from tailrace.client.cluster import Cluster
from tailrace.client.deadline import Deadline
from tailrace.client.errors import ClientError, DeliveryError, class_of
from tailrace.client.outgoing import MAX_SEQUENCE, Identity, Lane
from tailrace.client.partitioner import partition_of_key
from tailrace.client.produce_link import Answer, ProduceLink
from tailrace.client.producer import Delivered, Producer
from tailrace.model.errors import OutOfOrderSequenceError, UnsupportedCompressionError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import BatchIndexAndErrorMessage, ProduceRequest
from tailrace.record.batch import CRC_AT, BatchHeader, check_crc
from tailrace.record.builder import BatchBuilder
from tailrace.record.compression import CODEC_NAMES
from tailrace.record.reader import Record, application_records
from tailrace.record.shallow import batches

ORDERS = TopicPartition("orders", 0)


def records_in(log: Log) -> list[Record]:
    return [record for data in log.batches for record in application_records(data)]


def values_in(log: Log) -> list[bytes | None]:
    return [record.value for record in records_in(log)]


def sent_batches(broker: ScriptedBroker) -> list[tuple[int, int]]:
    """Producer id and base sequence of every batch that went over the wire, also those that went twice."""
    found = []
    for request in broker.requests(ProduceRequest):
        for topic in request.topic_data:
            for each in topic.partition_data:
                (batch,) = batches(each.records)
                found.append((batch.producer_id, batch.base_sequence))
    return found


def scripted(broker: ScriptedBroker, *steps: Callable[[ProduceRequest], object] | None) -> None:
    """One step for each Produce request, None and all later ones are written."""
    left = iter(steps)
    broker.answers[ProduceRequest] = lambda request: (next(left, None) or broker.produce)(request)


def refuse(broker: ScriptedBroker, code: int) -> Callable[[ProduceRequest], object]:
    return lambda request: broker.produce(request, code, "said the broker")


def written_and(broker: ScriptedBroker, outcome: object) -> Callable[[ProduceRequest], object]:
    """The batch is there, but nobody hears of it."""

    def step(request: ProduceRequest) -> object:
        broker.produce(request)
        return outcome

    return step


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_arrive_as_they_were_sent(broker: ScriptedBroker, cluster: Cluster, codec: str) -> None:
    (log,) = broker.add_topic("orders")
    with Producer(cluster, codec=codec) as producer:
        producer.send("orders", b"two apples", b"customer-7", timestamp_ms=5, headers=[("source", b"web")])
        producer.send("orders", None, b"customer-8", timestamp_ms=6)
        producer.send("orders", b"", timestamp_ms=7)
    assert [record[:6] for record in records_in(log)] == [
        (0, 5, 0, b"customer-7", b"two apples", (("source", b"web"),)),
        (1, 6, 0, b"customer-8", None, ()),
        (2, 7, 0, None, b"", ()),
    ]
    assert next(batches(log.batches[0])).codec == CODEC_NAMES.index(codec)


def test_batches_are_sent_when_they_are_full_and_no_sooner(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    with Producer(cluster, batch_bytes=1000) as producer:
        producer.send("orders", b"x" * 400)
        producer.send("orders", b"x" * 400)
        assert broker.requests(ProduceRequest) == []
        producer.send("orders", b"x" * 400)
        producer.flush()
        assert [next(batches(data)).record_count for data in log.batches] == [2, 1]
        producer.send("orders", b"x" * 5000)
        producer.flush()
    assert next(batches(log.batches[2])).size > 5000


def unstamped(*values: bytes) -> tuple[TopicPartition, bytearray, int]:
    """As somebody else may have made it: without a CRC."""
    builder = BatchBuilder()
    for value in values:
        builder.append(1, None, value)
    data = builder.build()
    data[CRC_AT : CRC_AT + 4] = bytes(4)
    return ORDERS, data, len(values)


@pytest.mark.parametrize("acks", [-1, 1])
def test_batches_that_are_made_already_get_producer_sequence_and_crc(
    broker: ScriptedBroker, cluster: Cluster, acks: int
) -> None:
    (log,) = broker.add_topic("orders")
    told: list[Delivered] = []
    with Producer(cluster, acks=acks, on_delivery=told.append) as producer:
        producer.send("orders", b"a", partition=0)
        producer.send_encoded(*unstamped(b"b", b"c"))
        producer.send("orders", b"d", partition=0)
        producer.send_encoded(*unstamped(b"e"))
    assert values_in(log) == [b"a", b"b", b"c", b"d", b"e"]
    for data in log.batches:
        check_crc(data, 0, BatchHeader.at(data))
    assert [BatchHeader.at(data).base_sequence for data in log.batches] == ([0, 1, 3, 4] if acks < 0 else [-1] * 4)
    assert [each.record_count for each in told] == [1, 2, 1, 1]


def test_batches_that_are_made_already_count_as_buffered(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    with Producer(cluster, buffered_bytes=500) as producer:
        for _ in range(20):
            producer.send_encoded(*unstamped(bytes(300)))
            assert producer._buffered_bytes <= 500
    assert len(log.batches) == 20


def test_deliveries_are_told(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    told: list[Delivered] = []
    with Producer(cluster, on_delivery=told.append) as producer:
        producer.send_batch(ORDERS, [(1, None, b"a"), (2, None, b"b")])
        producer.send_batch(ORDERS, [])
        producer.send_batch(ORDERS, [(3, b"k", b"c", [("h", None)])])
    assert [(each.partition, each.base_offset, each.record_count) for each in told] == [(ORDERS, 0, 2), (ORDERS, 2, 1)]


def test_keys_choose_partitions_and_the_rest_sticks(broker: ScriptedBroker, cluster: Cluster) -> None:
    logs = broker.add_topic("orders", 3)
    turns = itertools.cycle([2, 0, 1])

    def in_turn(available: Sequence[int]) -> int:
        return next(turn for turn in turns if turn in available)

    with Producer(cluster, batch_bytes=300, choose=in_turn) as producer:
        for number in range(30):
            producer.send("orders", b"keyed", b"key %d" % number)
        for _ in range(4):
            producer.send("orders", b"x" * 200)
        producer.send("orders", b"chosen", partition=1)
    keyless = [{record.key is None and record.value != b"chosen" for record in records_in(log)} for log in logs]
    for number, log in enumerate(logs):
        for record in records_in(log):
            if record.key is not None:
                assert partition_of_key(record.key, 3) == number
    assert [True in each for each in keyless] == [True, True, True]
    assert b"chosen" in values_in(logs[1])


def test_a_lost_answer_does_not_write_twice(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, None, written_and(broker, HANG_UP))
    with Producer(cluster) as producer:
        for number in range(4):
            producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
            producer.flush()
    assert values_in(log) == [b"0", b"1", b"2", b"3"]
    sequences = [sequence for _, sequence in sent_batches(broker)]
    assert sequences == [0, 1, 1, 2, 3]


def test_without_idempotence_it_may_be_there_twice(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, written_and(broker, HANG_UP))
    with Producer(cluster, idempotent=False) as producer:
        producer.send_batch(ORDERS, [(0, None, b"a")])
    assert values_in(log) == [b"a", b"a"]
    assert broker.requests(InitProducerIdRequest) == []


@pytest.mark.parametrize("code", [3, 5, 6, 7, 19, 20, 56, 100])
def test_what_passes_is_sent_again_to_whoever_leads_now(
    broker: ScriptedBroker, cluster: Cluster, pauses: Pauses, code: int
) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, refuse(broker, code), refuse(broker, code))
    with Producer(cluster) as producer:
        producer.send("orders", b"a")
    assert values_in(log) == [b"a"]
    assert pauses.seconds == [0.05, 0.1]
    assert len(broker.requests(MetadataRequest)) >= 3


def test_batches_behind_one_that_failed_keep_their_order(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, None, refuse(broker, 19))
    with Producer(cluster) as producer:
        for number in range(8):
            producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
    assert values_in(log) == [b"%d" % number for number in range(8)]


def test_a_gap_that_is_not_ours_ends_the_producer(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    scripted(broker, refuse(broker, 45))
    producer = Producer(cluster)
    producer.send("orders", b"a")
    with pytest.raises(DeliveryError, match="1 records of 69 bytes to orders-0: said the broker") as raised:
        producer.flush()
    assert isinstance(raised.value.__cause__, OutOfOrderSequenceError)
    for call in (producer.flush, producer.poll, lambda: producer.send("orders", b"b")):
        with pytest.raises(DeliveryError):
            call()
    producer.close()


@pytest.mark.parametrize(
    ("bad", "reason"), [((3,), "record 3: no key$"), ((3, 5, 8), r"record 3: no key \(and 2 more\)")]
)
def test_the_first_bad_record_of_a_batch_is_in_the_error(
    broker: ScriptedBroker, cluster: Cluster, bad: tuple[int, ...], reason: str
) -> None:
    broker.add_topic("orders")

    def refuse_records(request: ProduceRequest) -> object:
        response: Any = broker.produce(request, 87, "some records are bad")
        response.responses[0].partition_responses[0].record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message="no key") for index in bad
        ]
        return response

    scripted(broker, refuse_records)
    producer = Producer(cluster)
    producer.send("orders", b"a")
    with pytest.raises(DeliveryError, match=reason):
        producer.close()


def test_a_producer_that_the_broker_has_forgotten_begins_anew(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, None, refuse(broker, 59))
    with Producer(cluster) as producer:
        for number in range(5):
            producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
            producer.flush()
    assert values_in(log) == [b"0", b"1", b"2", b"3", b"4"]
    assert sent_batches(broker) == [(4001, 0), (4001, 1), (4002, 0), (4002, 1), (4002, 2), (4002, 3)]


def test_a_duplicate_counts_as_written(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    scripted(broker, refuse(broker, 46))
    told: list[Delivered] = []
    with Producer(cluster, on_delivery=told.append) as producer:
        producer.send("orders", b"a")
    assert [each.base_offset for each in told] == [-1]


def test_what_does_not_pass_is_not_sent_again(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    broker.add_topic("orders")
    scripted(broker, refuse(broker, 10))
    producer = Producer(cluster)
    producer.send("orders", b"a")
    with pytest.raises(DeliveryError, match="said the broker") as raised:
        producer.close()
    assert raised.value.hint == class_of(10).hint
    assert pauses.seconds == []


def test_trying_ends_when_the_time_is_over(broker: ScriptedBroker) -> None:
    broker.add_topic("orders")
    broker.answers[ProduceRequest] = refuse(broker, 19)
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    with Cluster(broker.address, pause=pause, clock=lambda: now[0]) as cluster:
        producer = Producer(cluster, delivery_timeout_s=7)
        producer.send("orders", b"a")
        with pytest.raises(DeliveryError, match="cannot deliver 1 records"):
            producer.flush()
    assert 7 <= now[0] < 9


class FakeTime:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def cluster(self, broker: ScriptedBroker, **options: float) -> Cluster:
        return Cluster(broker.address, pause=self.pause, clock=lambda: self.now_s, **options)


def test_metadata_lookups_do_not_extend_the_delivery_timeout(broker: ScriptedBroker) -> None:
    """The leader is lost after 4 s; looking for another one may take the 3 s that are left, not a timeout of 30 s."""
    broker.add_topic("orders")
    broker.answers[ProduceRequest] = refuse(broker, 6)
    time = FakeTime()
    broker.answers[MetadataRequest] = lambda request: broker.metadata(request, [5] if time.now_s > 4 else [])
    with time.cluster(broker, timeout_s=30) as cluster:
        producer = Producer(cluster, delivery_timeout_s=7)
        producer.send("orders", b"a")
        with pytest.raises(DeliveryError, match="orders-0: topic orders: it has no leader yet"):
            producer.flush()
    assert time.now_s == pytest.approx(7)


def test_a_batch_sent_again_waits_no_longer_than_its_delivery_timeout(
    broker: ScriptedBroker, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add_topic("orders")
    scripted(broker, refuse(broker, 6), lambda _: NO_ANSWER)
    waits_s = []
    receive = ProduceLink.receive

    def recorded(link: ProduceLink, timeout_s: float) -> Sequence[Answer]:
        waits_s.append(timeout_s)
        return receive(link, timeout_s)

    monkeypatch.setattr(ProduceLink, "receive", recorded)
    with Cluster(broker.address, timeout_s=3, pause=pauses) as cluster:
        producer = Producer(cluster, delivery_timeout_s=0.2)
        producer.send("orders", b"a")
        with pytest.raises(DeliveryError, match="said the broker"):
            producer.flush()
    first_s, *again_s = waits_s
    assert first_s == 3
    assert max(again_s) <= 0.2


def test_a_full_disk_is_reported_and_not_the_batches_after_it(broker: ScriptedBroker) -> None:
    (log,) = broker.add_topic("orders")
    full = "append in /data/orders-0: No space left on device"

    def produce(request: ProduceRequest) -> object:
        """The disk is full from offset 1 on: the next batch is refused, and those sent after it are out of order."""
        (topic,) = request.topic_data
        (batch,) = batches(topic.partition_data[0].records)
        if batch.base_sequence == 1:
            return broker.produce(request, 56, full)
        return broker.produce(request)

    broker.answers[ProduceRequest] = produce
    time = FakeTime()
    with time.cluster(broker) as cluster:
        producer = Producer(cluster, delivery_timeout_s=5)

        def deliver() -> None:
            for number in range(20):
                producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
            producer.flush()

        with pytest.raises(DeliveryError, match=f"1 records of 69 bytes to orders-0: {full}") as raised:
            deliver()
    assert values_in(log) == [b"0"]
    assert raised.value.hint == class_of(56).hint != ""
    assert time.now_s == pytest.approx(5)


def test_without_acks_nobody_answers(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    told: list[Delivered] = []
    with Producer(cluster, acks=0, on_delivery=told.append) as producer:
        producer.send("orders", b"a")
    cluster.topics()
    assert [each.base_offset for each in told] == [-1]
    while not log.batches:
        cluster.topics()
    assert values_in(log) == [b"a"]


def test_no_more_is_kept_than_allowed(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    with Producer(cluster, batch_bytes=1000, buffered_bytes=4000) as producer:
        for _ in range(50):
            producer.send("orders", b"x" * 900)
            assert producer._buffered_bytes <= 4000
    assert log.end == 50


def test_an_old_broker_is_spoken_to_by_names(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.versions[MetadataRequest.KEY] = (0, 8)
    (log,) = broker.add_topic("orders")
    with Producer(cluster) as producer:
        producer.send("orders", b"a")
    assert broker.seen_versions[ProduceRequest.KEY] == {12}
    assert values_in(log) == [b"a"]


def test_a_silent_broker_is_given_up_and_asked_again(broker: ScriptedBroker, pauses: Pauses) -> None:
    (log,) = broker.add_topic("orders")
    scripted(broker, written_and(broker, NO_ANSWER))
    with Cluster(broker.address, timeout_s=0.2, pause=pauses) as cluster, Producer(cluster) as producer:
        producer.send("orders", b"a")
    assert values_in(log) == [b"a"]


def test_settings_that_contradict_each_other(cluster: Cluster) -> None:
    with pytest.raises(ClientError, match="needs acks=all"):
        Producer(cluster, acks=1, idempotent=True)
    with pytest.raises(ClientError, match="acks are"):
        Producer(cluster, acks=2)
    with pytest.raises(UnsupportedCompressionError):
        Producer(cluster, codec="brotli")


def test_after_an_exception_nothing_more_is_sent(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    producer = Producer(cluster)
    producer.send("orders", b"a")
    with pytest.raises(KeyError), producer:
        raise KeyError
    assert log.batches == []


@settings(max_examples=examples(25))
@given(st.lists(st.sampled_from([0, 0, 0, 6, 19, "lost", "unheard"]), max_size=12), st.integers(1, 20))
def test_whatever_goes_wrong_every_record_is_there_once_and_in_order(outcomes: list[object], count: int) -> None:
    with ScriptedBroker() as broker:
        (log,) = broker.add_topic("orders")
        steps: list[Callable[[ProduceRequest], object] | None] = []
        for outcome in outcomes:
            if outcome == "lost":
                steps.append(lambda _: HANG_UP)
            elif outcome == "unheard":
                steps.append(written_and(broker, HANG_UP))
            else:
                assert isinstance(outcome, int)
                steps.append(refuse(broker, outcome) if outcome else None)
        scripted(broker, *steps)
        with Cluster(broker.address, pause=Pauses()) as cluster, Producer(cluster) as producer:
            for number in range(count):
                producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
        assert values_in(log) == [b"%d" % number for number in range(count)]


# Lanes


def lane_with(count: int) -> Lane:
    lane = Lane(ORDERS)
    for number in range(count):
        lane.open = BatchBuilder()
        lane.open.append(0, None, b"%d" % number)
        lane.close(Deadline(1))
    return lane


def test_the_first_batch_goes_alone() -> None:
    lane = lane_with(3)
    first = lane.sent()
    assert lane.next(5) is None
    lane.acknowledged(first)
    assert lane.next(5) is lane.waiting[0]
    lane.sent()
    assert lane.next(5) is lane.waiting[0]
    lane.acknowledged(lane.under_way[0])
    lane.restart_sequences()
    lane.sent()
    assert lane.next(5) is None


def test_a_second_batch_does_not_overtake_a_first_that_was_refused(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A broker that knows nothing of the producer takes any sequence for its first: Kafka does."""
    (log,) = broker.add_topic("orders")
    log.takes_any_first_sequence = True
    scripted(broker, refuse(broker, 6))
    with Producer(cluster) as producer:
        for number in range(4):
            producer.send_batch(ORDERS, [(0, None, b"%d" % number)])
    assert values_in(log) == [b"0", b"1", b"2", b"3"]


def test_a_lane_waits_for_all_answers_before_it_sends_again() -> None:
    lane = lane_with(4)
    first, second, third = (lane.sent() for _ in range(3))
    lane.must_go_again(second)
    assert lane.next(5) is None
    assert not lane.is_oldest(third)
    lane.acknowledged(first)
    lane.must_go_again(third)
    assert [batch.number for batch in lane.waiting] == [2, 3, 4]
    assert lane.next(5) is second


def test_failures_that_come_in_another_order_go_again_in_theirs() -> None:
    lane = lane_with(3)
    one, two, three = (lane.sent() for _ in range(3))
    for batch in (three, one, two):
        lane.must_go_again(batch)
    assert list(lane.waiting) == [one, two, three]


def test_a_stamp_makes_a_batch_of_that_producer_with_a_right_crc() -> None:
    lane = lane_with(2)
    second = lane.waiting[1]
    second.stamp(Identity(77, 3))
    (batch,) = batches(second.data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 1)
    assert [record.value for record in application_records(second.data)] == [b"1"]


def test_sequences_begin_again_after_the_greatest() -> None:
    lane = Lane(ORDERS)
    lane._next_sequence = MAX_SEQUENCE
    for _ in range(2):
        lane.open = BatchBuilder()
        lane.open.append(0, None, b"")
        lane.close(Deadline(1))
    assert [batch.sequence for batch in lane.waiting] == [MAX_SEQUENCE, 0]
