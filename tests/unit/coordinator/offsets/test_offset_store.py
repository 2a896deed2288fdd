"""Commits of offsets: what is written, what is shown and when, who is refused, what a new coordinator knows."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.offsets import GROUP, ORDERS_ID, OffsetRig, StubGroup
from support.coordinators.replica_pair import refusal
from tailrace.coordinator.groups.group import GroupKind
from tailrace.coordinator.offsets.offset_records import entry_of
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.coordinator.records import GROUP_RECORDS, decode_record
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    NonEmptyGroupError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    StaleMemberEpochError,
    TailraceError,
    UnknownMemberIdError,
)
from tailrace.protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tailrace.protocol.records.group_offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.fetch import Isolation

NOTHING = dict.fromkeys(range(4), -1)


def alone(**settings: Any) -> OffsetRig:
    """Everything is committed at once."""
    return OffsetRig(in_sync=(1,), **settings)


def codes(answers: list[Any]) -> list[int]:
    (response,) = answers
    return [row.error_code for topic in response.topics for row in topic.partitions]


def written(rig: OffsetRig) -> list[CoordinatorRecord]:
    log = rig.leader.log
    data = log.read(log.log_start_offset, 1 << 20, Isolation.LOG_END).read()
    found = [decode_record(GROUP_RECORDS, each.key, each.value) for b in batches(data) for each in records_of(data, b)]
    return [each for each in found if each is not None]


# What is written


def test_a_commit_is_a_record_of_version_4_with_the_topics_id() -> None:
    rig = alone()
    assert codes(rig.commit(42, note="halfway")) == [0]
    now_ms = rig.world.clock.now_ms()
    (record,) = written(rig)
    assert record.key == OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    assert record.value == OffsetCommitValue(
        offset=42, leader_epoch=4, metadata="halfway", commit_timestamp=now_ms, topic_id=ORDERS_ID
    )
    assert record.value_version == 4


def test_a_commit_that_says_when_it_expires_is_a_record_of_version_1() -> None:
    rig = alone()
    rig.commit(42, version=3, retention_time_ms=60_000)
    (record,) = written(rig)
    assert isinstance(record.value, OffsetCommitValue)
    assert (record.value_version, record.value.expire_timestamp) == (1, rig.world.clock.now_ms() + 60_000)


def test_a_retention_beyond_the_end_of_time_wraps_around() -> None:
    rig = alone()
    assert codes(rig.commit(42, version=3, retention_time_ms=(1 << 63) - 1)) == [0]
    (record,) = written(rig)
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.expire_timestamp == rig.world.clock.now_ms() + (1 << 63) - 1 - (1 << 64)


def test_a_null_note_is_kept_as_an_empty_one() -> None:
    rig = alone()
    rig.commit(42, note=None)
    (record,) = written(rig)
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.metadata == ""


def test_records_of_the_oldest_type_are_read() -> None:
    rig = alone()
    key = LegacyOffsetCommitKey(group="old", topic="orders", partition=2)
    value = LegacyOffsetCommitValue(offset=9, metadata="m", commit_timestamp=5)
    rig.ask(lambda _: Outcome([CoordinatorRecord(key, value, 0)]))
    assert rig.committed("old") == {**NOTHING, 2: 9}
    assert not entry_of(value, 0).has_own_expiry


@pytest.mark.parametrize(("note", "is_taken"), [("x" * 8, True), ("x" * 9, False), ("😀" * 4, True), ("😀" * 5, False)])
def test_the_longest_note_is_counted_in_utf_16_units(note: str, is_taken: bool) -> None:
    rig = alone(offset_metadata_max_bytes="8")
    code = 0 if is_taken else OffsetMetadataTooLargeError.code
    assert codes(rig.commit(42, note=note)) == [code]
    assert codes(rig.commit_in_transaction(43, note=note)) == [code]
    assert rig.committed() == ({**NOTHING, 0: 42} if is_taken else NOTHING)
    assert (GROUP in rig.leader.machine.groups) is is_taken


# When it is shown


@pytest.mark.spec("CO-02")
def test_a_commit_is_answered_and_shown_when_the_replicas_have_it() -> None:
    rig = OffsetRig()
    first = rig.commit(10)
    rig.replicate()
    assert codes(first) == [0]
    second, third = rig.commit(20), rig.commit(30, partition=1)
    assert (second, third) == ([], [])
    assert rig.committed() == {**NOTHING, 0: 10}
    assert rig.all_committed() == {("orders", 0): 10}
    rig.replicate()
    assert (codes(second), codes(third)) == ([0], [0])
    assert rig.committed() == {**NOTHING, 0: 20, 1: 30}


@pytest.mark.spec("CO-02")
def test_replicas_that_are_held_back_make_a_commit_fail_and_it_stays_hidden_until_they_come() -> None:
    rig = OffsetRig(offsets_commit_timeout_ms="5000")
    rig.commit(10)
    rig.replicate()
    late = rig.commit(20)
    rig.pass_time(4_999)
    assert late == []
    rig.pass_time(1)
    assert refusal(late) is CoordinatorNotAvailableError
    assert rig.committed() == {**NOTHING, 0: 10}
    rig.replicate()
    assert rig.committed() == {**NOTHING, 0: 20}


@pytest.mark.spec("CO-02")
def test_a_deletion_is_shown_when_the_replicas_have_it() -> None:
    rig = OffsetRig()
    rig.commit(10)
    rig.replicate()
    deleted = rig.ask(lambda machine: machine.offsets.delete(GROUP, [delete_request("orders", 0)]), GROUP)
    assert (deleted, rig.committed(), rig.all_committed()) == ([], {**NOTHING, 0: 10}, {("orders", 0): 10})
    again = rig.commit(11)
    rig.replicate()
    assert (codes(deleted), codes(again), rig.committed()) == ([0], [0], {**NOTHING, 0: 11})


@pytest.mark.spec("CO-02")
def test_a_stable_fetch_waits_for_what_was_written_before_it() -> None:
    rig = OffsetRig()
    rig.commit(10)
    answers = rig.stable()
    assert answers == []
    rig.replicate()
    assert [row.committed_offset for row in answers] == [10]


# Another coordinator


@pytest.mark.spec("CO-03")
def test_a_new_coordinator_has_what_was_committed_and_the_old_one_refuses() -> None:
    rig = OffsetRig()
    for offset in range(10, 20):
        rig.commit(offset, partition=offset % 3, note=f"at {offset}")
    rig.commit(5, group="others")
    rig.replicate()
    shown = rig.store.fetch(OffsetFetchRequestGroup(group_id=GROUP, topics=None), 9, requires_stable=False)
    before = rig.leader
    rig.fail_over()
    rig.replicate()
    again = rig.store.fetch(OffsetFetchRequestGroup(group_id=GROUP, topics=None), 9, requires_stable=False)
    assert again == shown
    assert rig.committed("others") == {**NOTHING, 0: 5}
    answers: list[Any] = []
    before.runtime.submit("test", GROUP, lambda machine: None, answers.append, answers.append)  # type: ignore[arg-type,return-value]
    assert refusal(answers) is NotCoordinatorError


@pytest.mark.spec("CO-03")
def test_what_was_not_replicated_is_not_known_to_the_new_coordinator() -> None:
    rig = OffsetRig()
    rig.commit(10)
    rig.replicate()
    lost = rig.commit(20)
    rig.fail_over()
    rig.replicate()
    assert rig.committed() == {**NOTHING, 0: 10}
    assert lost == [] or refusal(lost) in (NotCoordinatorError, CoordinatorNotAvailableError)


# Who may commit


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGenerationError), (9, GroupIdNotFoundError)])
def test_a_generation_of_a_group_that_does_not_exist(version: int, error: type[TailraceError]) -> None:
    rig = alone()
    answers = rig.commit(10, version=version, generation_id_or_member_epoch=3, member_id="m")
    assert refusal(answers) is error
    assert refusal(rig.commit_in_transaction(10, generation_id=3)) is IllegalGenerationError
    assert rig.leader.machine.groups == {}
    assert written(rig) == []


def test_whoever_names_no_generation_makes_a_group_that_only_has_offsets() -> None:
    rig = alone()
    rig.commit(10)
    rig.commit_in_transaction(10, group="in transactions")
    groups = rig.leader.machine.groups
    assert [(name, group.kind, group.protocol_type) for name, group in groups.items()] == [
        (GROUP, GroupKind.CLASSIC, ""),
        ("in transactions", GroupKind.CLASSIC, ""),
    ]


def test_the_group_decides_who_may_commit_and_hears_of_it() -> None:
    rig = alone()
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    rig.commit(10, member_id="m", group_instance_id="i", generation_id_or_member_epoch=3)
    rig.commit_in_transaction(11, member_id="n", generation_id=4)
    assert group.asked == [("m", "i", 3, False, 9), ("committed", "m"), ("n", None, 4, True, 5)]
    group.refusal = UnknownMemberIdError("who?")
    assert refusal(rig.commit(12)) is UnknownMemberIdError
    group.refusal = None
    assert rig.committed() == {**NOTHING, 0: 10}


def test_a_member_that_is_behind_is_asked_for_each_partition() -> None:
    rig = alone()
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    asked: list[tuple[str, bytes, int]] = []
    group.check = lambda *place: asked.append(place)
    assert codes(rig.commit(10, partition=2)) == [0]
    assert asked == [("orders", ORDERS_ID, 2)]

    def refuse(*place: Any) -> None:
        raise StaleMemberEpochError("not yours any more")

    group.check = refuse
    assert refusal(rig.commit(11)) is StaleMemberEpochError
    assert refusal(rig.commit_in_transaction(11, topic="__consumer_offsets")) is IllegalGenerationError
    assert refusal(rig.commit_in_transaction(11, topic="unknown")) is IllegalGenerationError
    group.check, group.refusal = None, StaleMemberEpochError("behind")
    assert refusal(rig.commit_in_transaction(11)) is IllegalGenerationError


# Who may fetch


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    rig = alone()
    assert (rig.committed("nobody"), rig.all_committed("nobody")) == (NOTHING, {})
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    rig.commit(10)
    group.refusal = GroupIdNotFoundError("of another kind")
    assert (rig.committed(), rig.all_committed()) == (NOTHING, {})
    group.refusal = UnknownMemberIdError("who?")
    with pytest.raises(UnknownMemberIdError):
        rig.committed()


def test_an_offset_of_an_older_topic_of_the_same_name_is_not_shown_to_who_asks_by_id() -> None:
    rig = alone()
    rig.commit(10)
    rig.commit(11, partition=1, topic_id=bytes(16))
    assert rig.committed(topic_id=ORDERS_ID) == {**NOTHING, 0: 10, 1: 11}
    assert rig.committed(topic_id=b"another-topic-id") == {**NOTHING, 1: 11}


# Deleting


def delete_request(topic: str, *partitions: int) -> OffsetDeleteRequestTopic:
    rows = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequestTopic(name=topic, partitions=rows)


@pytest.mark.spec("CO-06")
def test_offsets_are_deleted_where_nobody_reads_the_topic() -> None:
    rig = alone()
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    for topic in ("orders", "bills"):
        for partition in (0, 1):
            rig.commit(10, partition, topic)
    group.topics = {"bills"}
    asked = [delete_request("orders", 0, 3), delete_request("bills", 0)]
    answers = rig.ask(lambda machine: machine.offsets.delete(GROUP, asked), GROUP)
    assert codes(answers) == [0, 0, GroupSubscribedToTopicError.code]
    assert rig.all_committed() == {("orders", 1): 10, ("bills", 0): 10, ("bills", 1): 10}
    assert [record.key for record in written(rig) if record.value is None] == [
        OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    ]


@pytest.mark.spec("CO-06")
def test_offsets_of_a_group_that_refuses_or_does_not_exist_are_not_deleted() -> None:
    rig = alone()
    answers = rig.ask(lambda machine: machine.offsets.delete(GROUP, [delete_request("orders", 0)]), GROUP)
    assert refusal(answers) is GroupIdNotFoundError
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    rig.commit(10)
    group.refusal = NonEmptyGroupError("it has members")
    answers = rig.ask(lambda machine: machine.offsets.delete(GROUP, [delete_request("orders", 0)]), GROUP)
    assert refusal(answers) is NonEmptyGroupError
    assert rig.store.table.get(GROUP, "orders", 0) is not None


@pytest.mark.spec("CO-06")
def test_a_deleted_group_leaves_no_offset_behind() -> None:
    rig = alone()
    rig.commit(10)
    rig.commit(10, 1)
    rig.commit_in_transaction(20, 1)
    rig.commit_in_transaction(20, 2)
    records = rig.store.tombstones(GROUP)
    assert [(record.key, record.value) for record in records] == [
        (OffsetCommitKey(group=GROUP, topic="orders", partition=index), None) for index in (0, 1, 2)
    ]
    rig.ask(lambda _: Outcome(records))
    rig.end_transaction(is_commit=True)
    assert (rig.all_committed(), rig.store.table.count) == ({}, 0)
