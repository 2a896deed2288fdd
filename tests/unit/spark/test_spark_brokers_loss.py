"""What is missing of a piece: lost, or normal."""

from __future__ import annotations

import itertools

import pytest

from support.brokers.scripted import Log, ScriptedBroker, topic_id
from support.records.column_runs import batch
from support.spark.pieces import Losses, rows_of
from support.spark.scripted_pieces import T0, offset_of, one_at_a_time, piece, policy, quick, values
from tailrace.client.errors import (
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tailrace.client.offsets import READ_COMMITTED
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
)
from tailrace.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from tailrace.protocol.messages.list_offsets import ListOffsetsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.spark.errors import DataLossError
from tailrace.spark.source.ranges import OffsetRange, TimeRange

pytestmark = pytest.mark.usefixtures("swift")


# What is lost


def test_what_lies_before_the_beginning_of_the_log_is_lost(broker: ScriptedBroker, log: Log) -> None:
    log.start = 35
    loss = Losses()
    assert rows_of(quick(broker), piece(12, 60), loss) == values((35, 60))
    assert loss.told == [(12, 35, "the log begins at 35")]


def test_a_piece_that_lies_before_the_beginning_of_the_log(broker: ScriptedBroker, log: Log) -> None:
    log.start = 35
    loss = Losses()
    assert rows_of(quick(broker), piece(12, 30), loss) == []
    assert loss.ranges == [(12, 30)]


def test_records_that_go_while_they_are_read(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    usual = broker.answers[FetchRequest]

    def answer(request: FetchRequest) -> object:
        if offset_of(request) == 20:
            log.start = 50
        return usual(request)

    broker.answers[FetchRequest] = answer
    loss = Losses()
    assert rows_of(quick(broker), piece(0, 100), loss) == values((0, 20), (50, 100))
    assert loss.ranges == [(20, 50)]


def test_a_transaction_whose_end_goes_while_it_is_read_is_over(broker: ScriptedBroker) -> None:
    (log,) = broker.add_topic("t")

    def of_7(base: int, sequence: int) -> bytes:
        rows = [(T0 + base, None, b"v%d" % offset) for offset in range(base, base + 10)]
        return bytes(batch(base, *rows, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True))

    def marker(base: int, kind: int) -> bytes:
        fields = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp": T0}
        return bytes(end_txn_marker(kind, base_offset=base, **fields))

    log.batches = [of_7(0, 0), marker(10, ABORT), of_7(11, 10), marker(21, COMMIT)]
    log.end = 22

    def answer(request: FetchRequest) -> FetchResponse:
        if offset_of(request) == 10:
            log.start = 11
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        if offset_of(request) == 0:
            data.records = log.batches[0]
            data.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
        return response

    broker.answers[FetchRequest] = answer
    loss = Losses()
    assert rows_of(quick(broker, isolation=READ_COMMITTED), piece(0, 22), loss) == values((11, 21))
    assert loss.ranges == [(10, 11)]


def test_a_log_that_ends_before_the_piece(broker: ScriptedBroker, log: Log) -> None:
    loss = Losses()
    assert rows_of(quick(broker), piece(80, 130), loss) == values((80, 100))
    assert loss.told == [(100, 130, "the log ends at 100")]


def test_a_log_that_ends_before_the_piece_begins(broker: ScriptedBroker, log: Log) -> None:
    loss = Losses()
    assert rows_of(quick(broker), piece(120, 130), loss) == []
    assert loss.told == [(120, 130, "the log ends at 100")]


def test_loss_fails_the_task_unless_told_otherwise(broker: ScriptedBroker, log: Log) -> None:
    log.start = 35
    with pytest.raises(DataLossError, match="t-0: offsets 12 to 34 are lost: the log begins at 35"):
        rows_of(quick(broker), piece(12, 60))


def test_a_topic_that_is_gone(broker: ScriptedBroker) -> None:
    loss = Losses()
    assert rows_of(quick(broker), piece(12, 60), loss) == []
    assert loss.told == [(12, 60, "there is no topic t any more")]


def test_another_topic_of_the_same_name(broker: ScriptedBroker, log: Log) -> None:
    loss = Losses()
    assert rows_of(quick(broker), piece(12, 60, "other"), loss) == []
    ((start, end, why),) = loss.told
    assert (start, end) == (12, 60)
    assert str(TopicId(topic_id("t"))) in why
    assert str(TopicId(topic_id("other"))) in why


def test_a_topic_whose_id_nobody_knew_is_read(broker: ScriptedBroker, log: Log) -> None:
    assert rows_of(quick(broker), piece(12, 60, None)) == values((12, 60))


def test_fewer_partitions_than_planned(broker: ScriptedBroker, log: Log) -> None:
    loss = Losses()
    lost = OffsetRange(TopicPartition("t", 3), 0, 5, str(TopicId(topic_id("t"))))
    assert rows_of(quick(broker), lost, loss) == []
    assert loss.told == [(0, 5, "topic t has 1 partitions now")]


def test_a_topic_that_goes_while_it_is_read(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    usual = broker.answers[FetchRequest]

    def answer(request: FetchRequest) -> object:
        if offset_of(request) == 20:
            broker.answers[MetadataRequest] = lambda asked: broker.metadata(asked, [UNKNOWN_TOPIC_OR_PARTITION])
            return broker.fetch(request, {0: UNKNOWN_TOPIC_ID})
        return usual(request)

    broker.answers[FetchRequest] = answer
    loss = Losses()
    assert rows_of(quick(broker), piece(0, 100), loss) == values((0, 20))
    assert loss.ranges == [(20, 100)]


def test_a_broker_that_does_not_know_its_topics_yet_is_asked_again(broker: ScriptedBroker, log: Log) -> None:
    numbers = itertools.count()
    broker.answers[MetadataRequest] = lambda asked: broker.metadata(
        asked, [UNKNOWN_TOPIC_OR_PARTITION] if next(numbers) == 0 else []
    )
    loss = Losses()
    assert rows_of(quick(broker), piece(0, 100), loss) == values((0, 100))
    assert loss.told == []


# Gaps


def without(log: Log, *numbers: int) -> None:
    for number in sorted(numbers, reverse=True):
        del log.batches[number]


def test_gaps_of_a_log_that_is_not_compacted_are_lost(broker: ScriptedBroker, log: Log) -> None:
    without(log, 0, 4, 5)
    policy(broker, "delete")
    loss = Losses()
    assert rows_of(quick(broker), piece(5, 100), loss) == values((10, 40), (60, 100))
    assert loss.ranges == [(5, 10), (40, 60)]


@pytest.mark.parametrize("text", ["compact", "delete,compact", "compact,delete", None])
def test_gaps_of_a_compacted_log_are_normal(broker: ScriptedBroker, log: Log, text: str | None) -> None:
    without(log, 0, 4, 5)
    policy(broker, text)
    loss = Losses()
    assert rows_of(quick(broker), piece(5, 100), loss) == values((10, 40), (60, 100))
    assert loss.told == []


def test_settings_are_not_asked_for_without_a_gap(broker: ScriptedBroker, log: Log) -> None:
    policy(broker, "delete")
    rows_of(quick(broker), piece(0, 100))
    assert not broker.requests(DescribeConfigsRequest)


@pytest.mark.parametrize(
    ("end", "policy_text", "lost"), [(95, "delete", [(70, 95)]), (95, "compact", []), (100, "compact", [])]
)
def test_a_log_with_nothing_before_its_end(
    broker: ScriptedBroker, log: Log, end: int, policy_text: str, lost: list[tuple[int, int]]
) -> None:
    without(log, 7, 8, 9)
    policy(broker, policy_text)
    loss = Losses()
    assert rows_of(quick(broker), piece(50, end), loss) == values((50, 70))
    assert loss.ranges == lost


def test_a_piece_that_lies_in_a_gap(broker: ScriptedBroker, log: Log) -> None:
    without(log, 4, 5)
    policy(broker, "compact")
    assert rows_of(quick(broker), piece(43, 55)) == []


def test_what_was_lost_is_not_lost_again_as_a_gap(broker: ScriptedBroker, log: Log) -> None:
    log.start = 35
    without(log, 0, 1, 2, 3)
    policy(broker, "delete")
    loss = Losses()
    assert rows_of(quick(broker), piece(12, 60), loss) == values((40, 60))
    assert loss.ranges == [(12, 35), (35, 40)]


# Times


def times(broker: ScriptedBroker, offset: int) -> None:
    """What the broker finds for any time."""
    usual = broker.list_offsets

    def answer(request: ListOffsetsRequest) -> object:
        response = usual(request)
        if request.topics[0].partitions[0].timestamp >= 0:
            response.topics[0].partitions[0].offset = offset
        return response

    broker.answers[ListOffsetsRequest] = answer


def test_a_piece_begins_at_the_first_time_that_is_wanted(broker: ScriptedBroker, log: Log) -> None:
    policy(broker, "delete")
    times(broker, 75)
    loss = Losses()
    assert rows_of(quick(broker), piece(0, 100), loss, TimeRange(first_ms=T0 + 75)) == values((75, 100))
    (asked,) = {offset_of(request) for request in broker.requests(FetchRequest)}
    assert asked == 75
    assert loss.told == []


@pytest.mark.parametrize("found", [-1, 60, 99])
def test_nothing_is_fetched_when_all_of_a_piece_is_too_old(broker: ScriptedBroker, log: Log, found: int) -> None:
    times(broker, found)
    assert rows_of(quick(broker), piece(0, 60), times=TimeRange(first_ms=T0 + 500)) == []
    assert not broker.requests(FetchRequest)


def test_loss_is_told_also_where_a_time_is_wanted(broker: ScriptedBroker, log: Log) -> None:
    log.start = 35
    times(broker, 75)
    loss = Losses()
    assert rows_of(quick(broker), piece(0, 100), loss, TimeRange(first_ms=T0 + 75)) == values((75, 100))
    assert loss.ranges == [(0, 35)]
