"""Offsets that nobody uses, groups that have nothing left, and topics that are deleted."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.offsets import GROUP, ORDERS_ID, OffsetRig, StubGroup
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.groups.group import GroupKind
from tailrace.coordinator.offsets import expiry
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import NotEnoughReplicasError
from tailrace.model.ids import TopicId

MINUTE = 60_000
CHECK = 10_000


@pytest.fixture
def rig() -> OffsetRig:
    """Everything is committed at once; offsets are kept for a minute."""
    return OffsetRig(in_sync=(1,), offsets_retention_minutes="1", offsets_retention_check_interval_ms=str(CHECK))


def groups(rig: OffsetRig) -> list[str]:
    return list(rig.leader.machine.groups)


def pass_time(rig: OffsetRig, ms: int) -> None:
    """In steps in which every timer comes up."""
    while ms > 0:
        rig.pass_time(min(ms, CHECK // 2))
        ms -= CHECK // 2


@pytest.mark.spec("CO-06")
def test_offsets_of_a_group_without_members_expire_and_then_the_group_ends(rig: OffsetRig) -> None:
    rig.commit(10)
    pass_time(rig, MINUTE // 2)
    rig.commit(11, partition=1)
    pass_time(rig, MINUTE // 2 - CHECK)
    assert rig.all_committed() == {("orders", 0): 10, ("orders", 1): 11}
    pass_time(rig, 2 * CHECK)
    assert (rig.all_committed(), groups(rig)) == ({("orders", 1): 11}, [GROUP])
    pass_time(rig, MINUTE // 2)
    assert (rig.all_committed(), groups(rig)) == ({}, [])
    assert rig.store.counts.expirations == 2
    rig.replicate()
    rig.fail_over()
    assert (rig.store.table.count, groups(rig)) == (0, [])


@pytest.mark.spec("CO-06")
def test_a_member_keeps_the_offsets_of_topics_that_it_reads(rig: OffsetRig) -> None:
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    group.expires_since, group.topics = 0, {"orders"}
    rig.commit(10)
    rig.commit(10, topic="bills")
    pass_time(rig, 2 * MINUTE)
    assert rig.all_committed() == {("orders", 0): 10}
    group.topics = set()
    pass_time(rig, 2 * CHECK)
    assert (rig.all_committed(), groups(rig)) == ({}, [GROUP])


@pytest.mark.spec("CO-06")
def test_the_retention_counts_from_when_the_group_says(rig: OffsetRig) -> None:
    group = rig.leader.machine.groups[GROUP] = StubGroup()
    rig.commit(10)
    pass_time(rig, 3 * MINUTE)
    assert rig.all_committed() == {("orders", 0): 10}
    group.expires_since = rig.world.clock.now_ms()
    pass_time(rig, MINUTE - CHECK)
    assert rig.all_committed() == {("orders", 0): 10}
    pass_time(rig, 2 * CHECK)
    assert rig.all_committed() == {}


@pytest.mark.spec("CO-06")
def test_the_retention_of_a_classic_group_counts_from_when_its_last_member_left(rig: OffsetRig) -> None:
    group = rig.leader.machine.classic.get_or_make(GROUP)
    group.protocol_type = "consumer"
    rig.commit(10)
    for state in (ClassicState.PREPARING, ClassicState.COMPLETING):
        group.move_to(state, rig.world.clock.now_ms())
        pass_time(rig, 2 * MINUTE)
    assert rig.all_committed() == {("orders", 0): 10}
    group.move_to(ClassicState.PREPARING, rig.world.clock.now_ms())
    group.move_to(ClassicState.EMPTY, rig.world.clock.now_ms())
    group.subscribed_topics = frozenset()
    pass_time(rig, MINUTE - CHECK)
    assert rig.all_committed() == {("orders", 0): 10}
    pass_time(rig, 2 * CHECK)
    assert (rig.all_committed(), groups(rig)) == ({}, [])


@pytest.mark.spec("CO-06")
def test_a_commit_may_say_itself_when_it_expires(rig: OffsetRig) -> None:
    rig.commit(10, version=2, retention_time_ms=2 * CHECK)
    rig.commit(10, partition=1, version=2, retention_time_ms=3 * MINUTE)
    pass_time(rig, 4 * CHECK)
    assert rig.all_committed() == {("orders", 1): 10}
    pass_time(rig, 2 * MINUTE)
    assert rig.all_committed() == {("orders", 1): 10}
    pass_time(rig, MINUTE)
    assert rig.all_committed() == {}


@pytest.mark.spec("CO-06")
def test_an_open_transaction_keeps_the_offset_and_the_group(rig: OffsetRig) -> None:
    rig.commit(10)
    rig.commit(10, partition=1)
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(20, group="only in a transaction")
    pass_time(rig, 2 * MINUTE)
    assert rig.all_committed() == {("orders", 0): 10}
    assert groups(rig) == [GROUP, "only in a transaction"]
    rig.end_transaction(is_commit=False)
    pass_time(rig, 2 * CHECK)
    assert (rig.all_committed(), groups(rig)) == ({}, [])


@pytest.mark.spec("CO-06")
def test_an_empty_group_without_offsets_ends_and_one_with_members_or_of_a_share_group_does_not(rig: OffsetRig) -> None:
    class Empty(StubGroup):
        is_empty = True

    class Share(Empty):
        kind = GroupKind.SHARE

    held = rig.leader.machine.groups
    held["members"], held["share"] = StubGroup("members"), Share("share")
    rig.leader.machine.classic.get_or_make("empty")
    pass_time(rig, 2 * CHECK)
    assert groups(rig) == ["members", "share"]


@pytest.mark.spec("CO-06")
def test_what_is_to_be_deleted_is_written_in_batches_that_a_log_takes(
    rig: OffsetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BYTES_A_BATCH", 300)
    monkeypatch.setattr(expiry, "ENTRIES_A_STEP", 7)
    for name in ("a", "b", "c"):
        for partition in range(20):
            rig.commit(10, partition, group=name)
    written = rig.leader.log.log_end_offset
    sizes: list[int] = []
    append = type(rig.leader.machine.shard)._append

    def spy(shard: Any, records: Any, *rest: Any) -> None:
        sizes.append(len(records))
        append(shard, records, *rest)

    monkeypatch.setattr(type(rig.leader.machine.shard), "_append", spy)
    pass_time(rig, MINUTE + 2 * CHECK)
    assert (rig.store.table.count, groups(rig)) == (0, [])
    assert rig.leader.log.log_end_offset == written + 63
    assert max(sizes) <= 8


@pytest.mark.spec("CO-06")
def test_a_log_that_refuses_is_asked_again(rig: OffsetRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.commit(10)
    kind = type(rig.leader.partition)
    append = kind.append

    def refuse(*_: Any) -> Any:
        raise NotEnoughReplicasError("not now")

    monkeypatch.setattr(kind, "append", refuse)
    pass_time(rig, 2 * MINUTE)
    assert rig.all_committed() == {("orders", 0): 10}
    monkeypatch.setattr(kind, "append", append)
    rig.pass_time(500)
    rig.pass_time(500)
    assert (rig.all_committed(), groups(rig)) == ({}, [])


# Deleted topics


def delete_topic(rig: OffsetRig, name: str, topic_id: bytes) -> None:
    delta = MetadataDelta(rig.image)
    delta.deleted_topics.append(TopicImage(name, TopicId(topic_id)))
    rig.leader.runtime.metadata_changed(delta)
    rig.run()


@pytest.mark.spec("CO-06")
def test_a_deleted_topic_takes_its_offsets_along(rig: OffsetRig) -> None:
    rig.commit(10)
    rig.commit(10, group="others")
    rig.commit(10, partition=1, topic_id=bytes(16))
    rig.commit(10, partition=2, topic_id=b"of-the-new-topic")
    rig.commit(10, topic="bills")
    rig.commit_in_transaction(20, partition=3)
    delete_topic(rig, "orders", ORDERS_ID)
    rig.end_transaction(is_commit=True)
    assert rig.all_committed() == {("orders", 2): 10, ("bills", 0): 10}
    assert rig.all_committed("others") == {}


@pytest.mark.spec("CO-06")
def test_the_offsets_of_a_large_deleted_topic_take_several_batches(
    rig: OffsetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BYTES_A_BATCH", 300)
    for partition in range(20):
        rig.commit(10, partition)
    delete_topic(rig, "orders", ORDERS_ID)
    assert rig.store.table.count == 0
