"""Share groups from their members' side, on a whole broker in the simulator."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.brokers.simulated import SimBroker, produce_request
from support.clients.share_reader import ACCEPT, LATEST, REJECT, RELEASE, RENEW, AnsweredError, Got, ShareReader
from support.logs.builders import batch, in_transaction
from tailrace.broker import share_fetch
from tailrace.broker.share_records import Acknowledgement
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.model.errors import (
    CorruptMessageError,
    FencedStateEpochError,
    NotCoordinatorError,
    TailraceError,
    UnknownServerError,
)
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.replication.partition import Partition

GROUP_RESOURCE = 32


def a_broker(partitions: int = 1, **settings: str) -> SimBroker:
    """With a topic, and share groups that begin at its beginning."""
    settings.setdefault("share_coordinator_state_topic_num_partitions", "2")
    settings.setdefault("offsets_topic_num_partitions", "1")
    broker = SimBroker(**settings).start()
    broker.client().create_topic("t", partitions)
    set_group(broker, "share.auto.offset.reset", "earliest")
    return broker


def set_group(broker: SimBroker, name: str, value: str, group: str = "g") -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    answer = broker.client().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    broker.run()


def produce(broker: SimBroker, count: int = 1, partition: int = 0, **fields: Any) -> None:
    """A batch of `count` records."""
    answer = broker.client().produce("t", bytes(batch(count, 10, **fields)), partition)
    assert answer.error_code == 0, answer


def wait(broker: SimBroker, ms: int) -> None:
    """In steps: the broker must tell its controller that it lives."""
    for _ in range(ms // 1000):
        broker.pass_time(1000)


def offsets(got: list[Got]) -> list[int]:
    return [offset for _, offset, _ in got]


def answered(action: Any) -> int:
    with pytest.raises(AnsweredError) as caught:
        action()
    return caught.value.answered


# Reading


def test_what_is_accepted_is_done_with_also_after_a_restart() -> None:
    broker = a_broker(2)
    produce(broker, 3)
    produce(broker, 2, 1)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    assert sorted(got) == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 1, 1)]
    assert reader.poll() == []
    assert reader.acknowledge(ACCEPT, got) == [0, 0]
    reader.leave()
    broker.stop()
    broker.start()
    produce(broker, 1)
    again = ShareReader(broker, "n").join()
    assert again.poll() == [(0, 3, 1)]


def test_what_was_not_acknowledged_comes_again_after_a_crash() -> None:
    broker = a_broker()
    produce(broker, 5)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    reader.acknowledge(ACCEPT, got[1:3])
    broker.kill()
    broker.start()
    again = ShareReader(broker, "n").join()
    assert offsets(again.poll()) == [0, 3, 4]


def test_acknowledgements_may_come_with_the_next_fetch() -> None:
    broker = a_broker()
    produce(broker, 4)
    reader = ShareReader(broker, "m").join()
    reader.poll()
    (place,) = reader.assigned
    assert reader.poll({place: [(0, 3, [ACCEPT, RELEASE, REJECT, ACCEPT])]}) == [(0, 1, 2)]
    assert reader.acknowledgement_codes[-1] == 0


def test_members_never_hold_the_same_record() -> None:
    broker = a_broker()
    for _ in range(6):
        produce(broker, 2)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    one = first.poll(max_records=4)
    two = second.poll(max_records=100)
    assert sorted(offsets(one) + offsets(two)) == list(range(12))
    assert offsets(one) == [0, 1, 2, 3]
    assert second.acknowledge(ACCEPT, one[:1]) == [121]


def test_a_record_limit_is_kept() -> None:
    broker = a_broker()
    produce(broker, 10)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    assert offsets(first.poll(max_records=3, share_acquire_mode=1)) == [0, 1, 2]
    assert offsets(second.poll(max_records=3, share_acquire_mode=1)) == [3, 4, 5]
    assert offsets(second.poll(max_records=30, share_acquire_mode=0)) == [6, 7, 8, 9]
    assert answered(lambda: first.poll(share_acquire_mode=7)) == -1


def test_a_fetch_waits_for_records() -> None:
    broker = a_broker()
    reader = ShareReader(broker, "m").join()
    assert reader.poll() == []
    posted = reader.client.post(reader.request(max_wait_ms=500), LATEST)
    broker.run()
    assert not reader.client.read()
    produce(broker, 2)
    broker.run()
    assert offsets(reader.taken(reader.client.read().pop(posted))) == [0, 1]
    posted = reader.client.post(reader.request(max_wait_ms=500), LATEST)
    broker.run()
    broker.pass_time(500)
    assert reader.taken(reader.client.read().pop(posted)) == []


def test_a_fetch_that_waits_gets_what_another_member_releases() -> None:
    broker = a_broker()
    produce(broker, 2)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    got = first.poll()
    posted = second.client.post(second.request(max_wait_ms=5000), LATEST)
    broker.run()
    assert not second.client.read()
    first.acknowledge(RELEASE, got)
    broker.run()
    assert second.taken(second.client.read().pop(posted)) == [(0, 0, 2), (0, 1, 2)]


def test_a_fetch_that_waits_looks_only_at_what_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = a_broker(8)
    produce(broker, 2)
    first, second = ShareReader(broker, "a", "g").join(), ShareReader(broker, "b", "g").join()
    first.assigned |= second.assigned
    second.assigned |= first.assigned
    got = first.poll()
    second.poll()
    posted = second.client.post(second.request(max_wait_ms=5000), LATEST)
    broker.run()
    read, reads = Partition.read, []

    def counted(partition: Partition, *options: Any, **named: Any) -> Any:
        reads.append(partition.id)
        return read(partition, *options, **named)

    monkeypatch.setattr(Partition, "read", counted)
    assert first.acknowledge(ACCEPT, got) == [0]
    assert not second.client.read()
    assert len(reads) <= 1
    produce(broker, 1, 7)
    broker.run()
    assert second.taken(second.client.read().pop(posted)) == [(7, 0, 1)]


def test_records_of_a_member_that_vanishes_go_to_another() -> None:
    broker = a_broker()
    produce(broker, 3)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    assert len(first.poll()) == 3
    assert second.poll() == []
    first.vanish()
    broker.run()
    assert second.poll() == [(0, 0, 2), (0, 1, 2), (0, 2, 2)]


def test_a_lock_ends_and_may_be_renewed() -> None:
    broker = a_broker()
    produce(broker, 2)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    got = first.poll()
    second.poll()
    wait(broker, 20_000)
    assert first.acknowledge(RENEW, got[:1], is_renew_ack=True) == [0]
    wait(broker, 10_000)
    assert second.poll() == [(0, 1, 2)]
    assert first.acknowledge(ACCEPT, got[1:]) == [121]
    assert first.acknowledge(ACCEPT, got[:1]) == [0]


def test_a_group_has_locks_of_its_own_length_within_what_the_broker_allows() -> None:
    broker = a_broker(group_share_min_record_lock_duration_ms="1000")
    set_group(broker, "share.record.lock.duration.ms", "1000")
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    answer = reader.client.ask(reader.request(), LATEST)
    assert answer.acquisition_lock_timeout_ms == 1000
    assert offsets(reader.taken(answer)) == [0]
    broker.pass_time(999)
    assert reader.poll() == []
    broker.pass_time(1)
    assert reader.poll() == [(0, 0, 2)]


def test_a_record_that_nobody_can_handle_is_given_up() -> None:
    broker = a_broker(group_share_delivery_count_limit="3")
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    counts = []
    for _ in range(4):
        got = reader.poll()
        counts += [count for _, _, count in got]
        wait(broker, 30_000)
        reader.beat()
    assert counts == [1, 2, 3]


def test_no_more_records_are_given_out_than_there_are_locks() -> None:
    broker = a_broker(group_share_partition_max_record_locks="100")
    for _ in range(30):
        produce(broker, 10)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    assert len(got) == 100
    assert reader.poll() == []
    reader.acknowledge(ACCEPT, got[:50])
    assert offsets(reader.poll())[0] == 100


def test_a_log_that_loses_its_beginning_takes_the_group_along() -> None:
    broker = a_broker()
    produce(broker, 5)
    reader = ShareReader(broker, "m").join()
    got = reader.poll(max_records=1, share_acquire_mode=1)
    part = DeleteRecordsPartition(partition_index=0, offset=4)
    topic = DeleteRecordsTopic(name="t", partitions=[part])
    broker.client().ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    assert reader.poll() == []  # here it hears of it
    assert reader.poll() == [(0, 4, 1)]
    assert reader.acknowledge(ACCEPT, got) == [0]


@pytest.mark.parametrize(("level", "expected"), [("read_committed", [2]), ("read_uncommitted", [0, 1, 2])])
def test_aborted_records_are_seen_only_where_that_is_asked_for(level: str, expected: list[int]) -> None:
    broker = a_broker(transaction_partition_verification_enable="false")
    set_group(broker, "share.isolation.level", level)
    request = produce_request("t", bytes(in_transaction(7, 0, 2)))
    request.transactional_id = "x"
    answer = broker.client().ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    broker.client().ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    got = offsets(reader.poll())
    assert got == [each if each < 2 else 3 for each in expected]


def test_a_deleted_topic_is_unknown() -> None:
    broker = a_broker()
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    reader.poll()
    topic = DeleteTopicState(name="t")
    broker.client().ask(DeleteTopicsRequest(topics=[topic], timeout_ms=1000), 6)
    broker.run()
    assert answered(reader.poll) == 100


@pytest.mark.parametrize(
    ("reset", "expected"), [("latest", []), ("by_duration:PT30S", [2, 3]), ("earliest", [0, 1, 2, 3])]
)
def test_a_group_begins_where_it_is_set_to(reset: str, expected: list[int]) -> None:
    broker = a_broker()
    set_group(broker, "share.auto.offset.reset", reset)
    now_ms = broker.clock.now_ms()
    produce(broker, 2, timestamp=now_ms - 60_000)
    produce(broker, 2, timestamp=now_ms)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    broker.run()
    assert offsets(got or reader.poll()) == expected
    produce(broker, 1)
    assert offsets(reader.poll()) == [4]


def test_a_cold_disk_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read by a job, and no record is given out twice meanwhile."""
    broker = a_broker()
    produce(broker, 2)
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    monkeypatch.setattr(share_fetch, "_is_cold", lambda read: True)
    posts = [reader.client.post(reader.request(max_wait_ms=1000), LATEST) for reader in (first, second)]
    assert not first.client.read()
    broker.run()
    broker.pass_time(1000)
    got = [reader.taken(reader.client.read().pop(post)) for reader, post in zip((first, second), posts, strict=True)]
    assert sorted(map(offsets, got)) == [[], [0, 1]]


def test_what_cannot_be_written_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = a_broker()
    produce(broker, 2)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    errors: list[TailraceError] = [UnknownServerError("disk"), FencedStateEpochError("another")]
    persister = broker.node.shares.persister
    with monkeypatch.context() as patch:
        patch.setattr(persister, "write", lambda key, change, done, failed: failed(errors.pop(0)))
        assert reader.acknowledge(ACCEPT, got) == [-1]
        assert reader.acknowledge(ACCEPT, got) == [6]
    assert reader.acknowledge(ACCEPT, got) == [3]  # fenced, and not loaded again yet
    assert reader.poll() == [(0, 0, 1), (0, 1, 1)]


def test_a_write_that_comes_late_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share coordinator is away for a moment: what is tried again must not undo what came after it."""
    broker = a_broker()
    produce(broker, 10)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    (place,) = reader.assigned
    share = broker.node.shares.find(SharePartitionKey("g", *place))
    assert share is not None
    submit, refused = broker.node.share_states.submit, ["once"]

    def away(name: str, key: str, command: Any, reply: Any, failed: Any) -> None:
        if name == "write-share-state" and refused:
            refused.pop()
            failed(NotCoordinatorError("it is moving"))
        else:
            submit(name, key, command, reply, failed)

    monkeypatch.setattr(broker.node.share_states, "submit", away)
    late: list[TailraceError | None] = []
    share.acknowledge("m", [Acknowledgement(5, 6, [ACCEPT])], late.append)
    assert reader.acknowledge(ACCEPT, got[:5]) == [0]
    assert reader.acknowledge(ACCEPT, got[7:]) == [0]
    assert late == []
    broker.pass_time(100)
    assert late == [None]
    broker.kill()
    broker.start()
    assert ShareReader(broker, "n").join().poll() == []


def test_a_broken_log_is_told_to_who_reads_it_and_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = a_broker()
    reader = ShareReader(broker, "m").join()
    reader.poll()

    def broken(data: bytes) -> None:
        raise CorruptMessageError("magic 9")

    posted = reader.client.post(reader.request(max_wait_ms=5000), LATEST)
    broker.run()
    with monkeypatch.context() as patch:
        patch.setattr(share_fetch, "batches", broken)
        produce(broker, 1)
        broker.run()
    assert answered(lambda: reader.taken(reader.client.read().pop(posted))) == CorruptMessageError.code


def test_a_log_that_has_lost_its_end_is_waited_for() -> None:
    """The group's state was written, and the records that it tells of were lost with a machine."""
    broker = a_broker()
    produce(broker, 1)
    before = ShareReader(broker, "m").join()
    before.poll()
    before.leave()
    assert altered(broker, 5) == 0
    reader = ShareReader(broker, "n").join()
    assert reader.poll() == []
    posted = reader.client.post(reader.request(max_wait_ms=500), LATEST)
    broker.run()
    assert not reader.client.read()
    produce(broker, 6)
    broker.run()
    assert offsets(reader.taken(reader.client.read().pop(posted))) == [5, 6]


# Sessions


def test_a_session_goes_on_only_in_its_order() -> None:
    broker = a_broker()
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    reader.session_epoch = 1
    assert answered(reader.poll) == 122
    assert answered(lambda: reader.acknowledge(ACCEPT, [])) == 122
    reader.session_epoch = 0
    assert answered(lambda: reader.acknowledge(ACCEPT, [])) == 123
    (place,) = reader.assigned
    assert answered(lambda: reader.poll({place: [(0, 0, [ACCEPT])]})) == 42
    got = reader.poll()
    reader.session_epoch = 5
    assert answered(reader.poll) == 123
    assert answered(lambda: reader.acknowledge(ACCEPT, got)) == 123
    reader.session_epoch = 1
    assert reader.acknowledge(ACCEPT, got) == [0]
    reader.close_session()
    reader.session_epoch = -1
    assert answered(reader.poll) == 122


def test_there_are_so_many_sessions_at_most() -> None:
    broker = a_broker(group_share_max_share_sessions="1")
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    first.poll()
    posted = second.client.post(second.request(max_wait_ms=500), LATEST)
    broker.run()
    assert not second.client.read()
    broker.pass_time(500)
    assert second.client.read().pop(posted).error_code == 133
    first.vanish()
    assert second.poll() == []


def test_who_is_refused_for_the_number_of_sessions_is_not_remembered_for_long() -> None:
    broker = a_broker(group_share_max_share_sessions="1")
    first, second = ShareReader(broker, "a").join(), ShareReader(broker, "b").join()
    first.poll()
    posted = second.client.post(second.request(max_wait_ms=0x7FFF_FFFF), LATEST)
    broker.run()
    wait(broker, 5_000)
    assert second.client.read().pop(posted).error_code == 133


def test_a_partition_of_a_deleted_topic_is_let_go_of_when_it_is_forgotten() -> None:
    broker = a_broker()
    broker.client().create_topic("u", 1)
    reader = ShareReader(broker, "m", topics=("t", "u")).join()
    while len(reader.assigned) < 2:
        broker.pass_time(1000)
        reader.beat()
    reader.poll()
    assert sum(1 for each in broker.node.shares.gauges() if each.name == "InFlightMessageCount") == 2
    broker.client().ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="u")], timeout_ms=1000), 6)
    broker.run()
    reader.beat()
    assert len(reader.assigned) == 1
    reader.poll()
    assert sum(1 for each in broker.node.shares.gauges() if each.name == "InFlightMessageCount") == 1


@pytest.mark.parametrize(
    "fields", [{"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "m" * 37}]
)
def test_who_does_not_say_who_it_is_is_refused(fields: dict[str, Any]) -> None:
    broker = a_broker()
    reader = ShareReader(broker, "m").join()
    request = reader.request()
    for name, value in fields.items():
        setattr(request, name, value)
    assert reader.client.ask(request, LATEST).error_code == 42


def test_a_renewal_asks_for_no_records() -> None:
    broker = a_broker()
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    reader.poll()
    (place,) = reader.assigned
    said = {place: [(0, 0, [RENEW])]}
    assert answered(lambda: reader.poll(said, is_renew_ack=True)) == 42
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    assert reader.poll(said, **nothing) == []
    assert reader.acknowledgement_codes[-1] == 0
    reader.poll(said)
    assert reader.acknowledgement_codes[-1] == 42  # a renewal must say that it is one
    set_group(broker, "share.renew.acknowledge.enable", "false")
    reader.poll(said, **nothing)
    assert reader.acknowledgement_codes[-1] == 121


@pytest.mark.parametrize(
    "said",
    [
        [(1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 0, [9])],
        [(0, 0, [-1])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 99, [ACCEPT])],
    ],
)
def test_acknowledgements_that_make_no_sense_change_nothing(said: Any) -> None:
    broker = a_broker()
    produce(broker, 2)
    reader = ShareReader(broker, "m").join()
    got = reader.poll()
    (place,) = reader.assigned
    assert reader.poll({place: said}) == []
    assert reader.acknowledgement_codes[-1] == 42
    assert reader.acknowledge(ACCEPT, got) == [0]


def test_partitions_that_are_not_there_are_told_by_themselves() -> None:
    broker = a_broker()
    produce(broker, 1)
    reader = ShareReader(broker, "m").join()
    (place,) = reader.assigned
    reader.assigned = {place, (place[0], 7), (bytes(range(16)), 0)}
    answer = reader.client.ask(reader.request(), LATEST)
    rows = {(topic.topic_id, row.partition_index): row for topic in answer.responses for row in topic.partitions}
    assert rows[place].error_code == 0
    assert rows[place].acquired_records
    assert rows[place[0], 7].error_code == 3
    assert rows[bytes(range(16)), 0].error_code == 100


# Offsets


def described(broker: SimBroker) -> list[tuple[int, int, int]]:
    """Start, lag and error of each partition."""
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    answer = broker.client().ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1)
    rows = [row for topic in answer.groups[0].topics for row in topic.partitions]
    return [(row.start_offset, row.lag, row.error_code) for row in rows]


def altered(broker: SimBroker, start: int) -> int:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[part])
    answer = broker.client().ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
    return answer.error_code or answer.responses[0].partitions[0].error_code


def test_offsets_are_shown_set_and_deleted() -> None:
    broker = a_broker()
    produce(broker, 5)
    reader = ShareReader(broker, "m").join()
    assert described(broker) == [(-1, -1, 0)]
    got = reader.poll()
    reader.acknowledge(ACCEPT, got[:2])
    reader.acknowledge(ACCEPT, got[3:4])
    assert described(broker) == [(2, 2, 0)]
    assert altered(broker, 0) == 68
    reader.leave()
    assert altered(broker, 4) == 0
    assert described(broker) == [(4, 1, 0)]
    assert offsets(ShareReader(broker, "n").join().poll()) == [4]


def test_a_group_is_deleted_with_its_offsets() -> None:
    broker = a_broker()
    produce(broker, 2)
    reader = ShareReader(broker, "m").join()
    reader.acknowledge(ACCEPT, reader.poll())
    client = broker.client()
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    deletion = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
    assert client.ask(deletion, 0).error_code == 68
    assert client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 68
    reader.leave()
    assert client.ask(deletion, 0).responses[0].error_code == 0
    assert client.ask(deletion, 0).responses[0].error_code == 3
    assert described(broker) == []
    assert client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 0
    assert client.ask(deletion, 0).error_code == 69
    assert offsets(ShareReader(broker, "n").join().poll()) == [0, 1]


def test_a_group_that_is_half_deleted_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = a_broker(2)
    produce(broker, 1)
    produce(broker, 1, 1)
    reader = ShareReader(broker, "m").join()
    reader.poll()
    reader.leave()
    persister = broker.node.shares.persister
    delete = persister.delete

    def half(key: SharePartitionKey, done: Any, failed: Any) -> None:
        if key.partition:
            failed(UnknownServerError("disk"))
        else:
            delete(key, done, failed)

    with monkeypatch.context() as patch:
        patch.setattr(persister, "delete", half)
        assert broker.client().ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == -1
    again = ShareReader(broker, "n").join()
    assert sorted(again.poll()) == [(0, 0, 1), (1, 0, 1)]


def test_a_cluster_may_have_no_share_groups() -> None:
    broker = a_broker()
    broker.node.image.features.pop("share.version")
    client = broker.client()
    reader = ShareReader(broker, "m")
    assert reader.beat().error_code == 35
    assert client.ask(reader.request(), LATEST).error_code == 35
    assert client.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups[0].error_code == 35
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    assert client.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups[0].error_code == 35
    assert altered_whole(broker) == 35


def altered_whole(broker: SimBroker) -> int:
    return broker.client().ask(AlterShareGroupOffsetsRequest(group_id="g"), 0).error_code


def test_a_group_without_a_name_is_refused() -> None:
    broker = a_broker()
    client = broker.client()
    assert client.ask(AlterShareGroupOffsetsRequest(group_id=""), 0).error_code == 24
    assert client.ask(DeleteShareGroupOffsetsRequest(group_id=""), 0).error_code == 24
    assert client.ask(DescribeShareGroupOffsetsRequest(), 1).groups == []


# Crashes


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_nothing_accepted_comes_again_whatever_happens(seed: int) -> None:
    """Members come, go and vanish, the broker dies and comes back; in the end every record was accepted once."""
    dice = random.Random(seed)
    broker = a_broker(
        2, group_share_delivery_count_limit="10", share_coordinator_snapshot_update_records_per_snapshot="3"
    )
    produced: set[tuple[int, int]] = set()
    accepted: set[tuple[int, int]] = set()
    readers: list[ShareReader] = []
    for step in range(60):
        action = dice.random()
        if len(produced) < 40 and action < 0.3:
            partition, count = dice.randrange(2), dice.randint(1, 4)
            produce(broker, count, partition)
            base = sum(1 for each, _ in produced if each == partition)
            produced |= {(partition, base + at) for at in range(count)}
        elif action < 0.4 and len(readers) < 3:
            readers.append(ShareReader(broker, f"m{step}").join())
        elif action < 0.85 and readers:
            _work(dice.choice(readers), dice, accepted)
        elif action < 0.9 and readers:
            readers.pop(dice.randrange(len(readers))).vanish()
        elif action < 0.95:
            wait(broker, dice.choice([1000, 31_000]))
        else:
            broker.kill()
            broker.start()
            readers.clear()
    wait(broker, 60_000)
    last = ShareReader(broker, "last").join()
    for _ in range(40):
        got = last.poll()
        assert not {each[:2] for each in got} & accepted
        accepted |= {each[:2] for each in got}
        if got:
            assert set(last.acknowledge(ACCEPT, got)) == {0}
        last.beat()
    assert accepted == produced


def _work(reader: ShareReader, dice: random.Random, accepted: set[tuple[int, int]]) -> None:
    """Whoever was taken out of its group, or has lost its session, begins anew."""
    if reader.beat().error_code:
        reader.epoch = reader.session_epoch = 0
        reader.assigned = reader._session = set()
        reader.join()
    try:
        got = reader.poll(max_records=dice.randint(1, 9), share_acquire_mode=dice.randrange(2))
    except AnsweredError:
        reader.session_epoch, reader._session = 0, set()
        return
    assert not {each[:2] for each in got} & accepted
    for each in got:
        kind = dice.choice([ACCEPT, ACCEPT, RELEASE, None])
        if kind is not None and reader.acknowledge(kind, [each]) == [0] and kind == ACCEPT:
            accepted.add(each[:2])
