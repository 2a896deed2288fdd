"""The share coordinator: what it keeps of a share partition, whom it refuses, and what its log holds."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.replica_pair import CoordinatorPair, refusal
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.records import SHARE_STATE_RECORDS
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.share_state import shard as share_state_shard
from tailrace.coordinator.share_state.batches import StateBatch
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.shard import NO_SUMMARY, ShareStateShard, Summary
from tailrace.coordinator.share_state.state import ShareState, StateChange
from tailrace.metadata.delta import MetadataDelta
from tailrace.model.errors import (
    FencedLeaderEpochError,
    FencedStateEpochError,
    RefusedRequestError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.internal_topics import SHARE_GROUP_STATE
from tailrace.protocol.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord

TOPIC = b"a topic with id."
KEY = SharePartitionKey("g", TOPIC, 0)
OTHER = SharePartitionKey("h", TOPIC, 1)
DONE = StateBatch(0, 4, 2, 1)


class Rig:
    def __init__(self, **settings: Any) -> None:
        self.pair: CoordinatorPair[ShareStateShard] = CoordinatorPair(
            SHARE_GROUP_STATE, SHARE_STATE_RECORDS, ShareStateShard, in_sync=(1,), **settings
        )
        records: list[Any] = [TopicRecord(name="t", topic_id=TOPIC)]
        records += [
            PartitionRecord(partition_id=index, topic_id=TOPIC, replicas=[1], isr=[1], leader=1) for index in range(2)
        ]
        self.change(*records)

    def change(self, *records: Any) -> None:
        delta = MetadataDelta(self.pair.image)
        for record in records:
            delta.replay(record)
        self.pair.leader.runtime.metadata_changed(delta)
        self.pair.run()

    def ask(self, command: Any) -> list[Any]:
        return self.pair.ask(command)

    def initialize(self, key: SharePartitionKey = KEY, epoch: int = 1, start: int = -1) -> list[Any]:
        return self.ask(lambda machine: machine.initialize(key, epoch, start))

    def write(self, *batches: StateBatch, key: SharePartitionKey = KEY, start: int = 0, **fields: int) -> list[Any]:
        change = StateChange(fields.get("state", 1), fields.get("leader", 0), start, fields.get("count", 0), batches)
        return self.ask(lambda machine: machine.write(key, change))

    def read(self, key: SharePartitionKey = KEY, leader: int = 0) -> Any:
        (answer,) = self.ask(lambda machine: machine.read(key, leader))
        return answer

    @property
    def written(self) -> int:
        return self.pair.leader.log.log_end_offset

    def reload(self) -> None:
        self.pair.move(self.pair.leader)


def test_a_state_begins_unread_and_grows_with_what_is_written() -> None:
    rig = Rig()
    rig.initialize()
    assert (rig.read().start_offset, rig.read().delivery_complete_count) == (-1, -1)
    rig.write(DONE, StateBatch(8, 9, 0, 1), count=5)
    state = rig.read()
    assert (state.start_offset, state.batches) == (0, (DONE, StateBatch(8, 9, 0, 1)))
    rig.write(StateBatch(5, 9, 2, 2), start=5, count=5)
    assert rig.read().batches == (StateBatch(5, 9, 2, 2),)


def test_it_is_the_same_after_it_was_loaded_again() -> None:
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot="3")
    rig.initialize()
    rig.initialize(OTHER, start=7)
    for last in range(10):
        rig.write(StateBatch(last, last, 2, 1), start=last // 2, count=last)
        before = dict(rig.pair.leader.machine.states)
        rig.reload()
        assert rig.pair.leader.machine.states == before
    assert before[KEY].snapshot_epoch == 2
    assert before[OTHER].start_offset == 7


def test_after_so_many_updates_there_is_a_snapshot() -> None:
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot="2")
    rig.initialize()
    epochs = []
    for last in range(6):
        rig.write(StateBatch(last, last, 2, 1))
        epochs.append(rig.pair.leader.machine.states[KEY].snapshot_epoch)
    assert epochs == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("partition", [-1])
def test_a_partition_that_cannot_be_is_refused(partition: int) -> None:
    rig, key = Rig(), KEY._replace(partition=partition)
    assert refusal(rig.initialize(key)) is RefusedRequestError
    assert refusal(rig.ask(lambda machine: machine.summary(key))) is RefusedRequestError
    assert refusal(rig.ask(lambda machine: machine.delete(key))) is RefusedRequestError


def test_a_partition_that_is_not_there_is_refused() -> None:
    rig = Rig()
    for key in (KEY._replace(partition=2), KEY._replace(topic_id=bytes(16))):
        assert refusal(rig.initialize(key)) is UnknownTopicOrPartitionError
        assert refusal(rig.ask(lambda machine, key=key: machine.summary(key))) is UnknownTopicOrPartitionError
        assert refusal(rig.ask(lambda machine, key=key: machine.delete(key))) is UnknownTopicOrPartitionError


def test_nothing_is_written_to_or_read_from_what_was_not_initialised() -> None:
    rig = Rig()
    assert refusal(rig.write(DONE)) is RefusedRequestError
    assert isinstance(rig.read(), RefusedRequestError)
    assert rig.ask(lambda machine: machine.summary(KEY)) == [NO_SUMMARY]
    assert rig.written == 0


def test_a_new_leader_that_reads_fences_the_one_before() -> None:
    rig = Rig()
    rig.initialize()
    rig.write(DONE, count=5)
    assert rig.read(leader=3).batches == (DONE,)
    assert rig.pair.leader.machine.states[KEY].leader_epoch == 3
    assert refusal(rig.write(DONE, leader=2)) is FencedLeaderEpochError
    assert isinstance(rig.read(leader=2), FencedLeaderEpochError)
    end = rig.written
    rig.read(leader=3)
    rig.read(leader=-1)
    assert rig.written == end
    rig.write(StateBatch(5, 5, 2, 1), leader=3)
    assert rig.read(leader=3).batches == (StateBatch(0, 5, 2, 1),)


def test_a_state_that_is_begun_anew_fences_who_knew_the_old_one() -> None:
    rig = Rig()
    rig.initialize(epoch=1)
    rig.write(DONE)
    rig.initialize(epoch=2, start=100)
    state = rig.read()
    assert (state.state_epoch, state.start_offset, state.batches, state.snapshot_epoch) == (2, 100, (), 1)
    assert refusal(rig.write(DONE, state=1)) is FencedStateEpochError
    assert refusal(rig.initialize(epoch=1)) is FencedStateEpochError
    assert isinstance(rig.initialize(epoch=2)[0], ShareState)


@pytest.mark.parametrize(
    "batch", [StateBatch(5, 4, 2, 1), StateBatch(-1, 4, 2, 1), StateBatch(0, 1, 1, 1), StateBatch(0, 1, 9, 1)]
)
def test_a_batch_that_says_nothing_is_refused(batch: StateBatch) -> None:
    rig = Rig()
    rig.initialize()
    end = rig.written
    assert refusal(rig.write(batch)) is RefusedRequestError
    assert rig.written == end


def test_what_is_deleted_is_gone_and_may_be_deleted_again() -> None:
    rig = Rig()
    rig.initialize()
    for _ in range(2):
        assert rig.ask(lambda machine: machine.delete(KEY)) == [KEY]
    assert isinstance(rig.read(), RefusedRequestError)
    rig.reload()
    assert not rig.pair.leader.machine.states


def test_a_summary_tells_how_far_the_group_has_come() -> None:
    rig = Rig()
    rig.initialize(epoch=4)
    rig.read(leader=2)
    rig.write(DONE, start=3, count=2, leader=2, state=4)
    assert rig.ask(lambda machine: machine.summary(KEY)) == [Summary(4, 2, 3, 2)]


def test_states_of_deleted_topics_go_with_them() -> None:
    rig = Rig()
    rig.initialize()
    rig.change(RemoveTopicRecord(topic_id=TOPIC))
    assert not rig.pair.leader.machine.states


def test_records_before_the_oldest_last_snapshot_are_forgotten() -> None:
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot="0")
    rig.initialize()
    rig.initialize(OTHER)
    for last in range(5):
        rig.write(StateBatch(last, last, 2, 1))
    rig.pair.pass_time(300_000)
    log = rig.pair.leader.log
    assert log.log_start_offset == 1  # OTHER's first snapshot is its last
    rig.write(DONE, key=OTHER)
    rig.pair.pass_time(300_000)
    assert log.log_start_offset >= 6
    before = {key: state.batches for key, state in rig.pair.leader.machine.states.items()}
    rig.reload()
    assert {key: state.batches for key, state in rig.pair.leader.machine.states.items()} == before


def test_a_quiet_partition_does_not_hold_up_the_others_for_ever() -> None:
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot="0")
    rig.initialize()
    rig.initialize(OTHER)
    for _ in range(3):
        rig.pair.pass_time(300_000)
    log = rig.pair.leader.log
    assert log.log_start_offset >= 2
    end = log.log_end_offset
    rig.pair.pass_time(3_000_000)
    assert log.log_end_offset == end  # all are quiet: nothing is gained


def test_an_update_of_another_snapshot_says_nothing() -> None:
    rig = Rig()
    rig.initialize()
    state = rig.pair.leader.machine.states[KEY]
    stale = ShareState(9, 1, 0, 0, 0, 0, 0).update_record(KEY, StateChange(1, 0, 5, 5, (DONE,)))
    rig.ask(lambda machine: Outcome([stale], True))
    assert rig.pair.leader.machine.states[KEY] == state


def test_a_snapshot_tells_nothing_of_what_is_below_its_start() -> None:
    rig = Rig()
    rig.initialize()
    odd = ShareState(1, 1, 0, 3, 0, 0, 0, (StateBatch(0, 1, 2, 1), StateBatch(2, 4, 2, 1))).snapshot_record(KEY)
    rig.ask(lambda machine: Outcome([odd], True))
    assert rig.read().batches == (StateBatch(3, 4, 2, 1),)


def test_states_are_repeated_and_forgotten_in_batches_that_the_log_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot="0")
    keys = [SharePartitionKey(f"g{each}", TOPIC, 0) for each in range(20)]
    for key in keys:
        rig.initialize(key)
        rig.write(*(StateBatch(at, at, 2 - 2 * (at % 2), 1) for at in range(20)), key=key)
    monkeypatch.setattr(Shard, "largest_batch_bytes", 2000)
    monkeypatch.setattr(share_state_shard, "PART_BYTES", 500)
    before = {key: state.batches for key, state in rig.pair.leader.machine.states.items()}
    for _ in range(3):
        rig.pair.pass_time(300_000)
    assert rig.pair.leader.log.log_start_offset >= 40
    assert {key: state.batches for key, state in rig.pair.leader.machine.states.items()} == before
    rig.change(RemoveTopicRecord(topic_id=TOPIC))
    assert not rig.pair.leader.machine.states
