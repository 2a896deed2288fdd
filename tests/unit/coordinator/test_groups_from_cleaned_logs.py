"""Loading groups: a cleaned log tells a group's story with gaps, and of an id that had groups of several kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.coordinators.classic import DELAY_MS
from support.coordinators.classic_consumer import ClassicConsumer, subscription
from support.coordinators.cleaned_groups import cleaned, loaded, records_in_log
from support.coordinators.consumer import Consumer, ConsumerRig
from support.coordinators.group_records import decoded
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.groups.deletion import delete_group
from tailrace.coordinator.groups.group import Group
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.model.errors import NotCoordinatorError

WRITTEN_BY_KAFKA = sorted((Path(__file__).parents[2] / "support" / "recorded").glob("*-records-4.3.1.json"))


def seen(group: Group | None) -> Any:
    if isinstance(group, ConsumerGroup):
        return group.kind, group.epoch, group.members, group.targets, group.static_members, group.assignment_epoch
    if isinstance(group, ClassicGroup):
        return group.kind, group.generation, list(group.members), group.static_members, group.protocol_name
    return group


def upgrade_and_downgrade(rig: ConsumerRig) -> None:
    old = ClassicConsumer(rig)
    joining = rig.join(protocols={"range": subscription()})
    rig.pass_time(DELAY_MS)
    old.member_id, old.generation = joining.answer.member_id, 1
    assert rig.sync(old.member_id, 1, {old.member_id: b"\0\0\0\0\0\0\xff\xff\xff\xff"}).code == 0
    new = Consumer(rig, "new", "t")
    for _ in range(3):
        assert new.beat() is None
        old.beat()
    new.leave()
    old.join()


def leave_and_join(rig: ConsumerRig) -> None:
    for member_id in list(getattr(rig.pair.leader.machine.groups.get("g"), "members", ())):
        rig.leave((member_id, None))
    Consumer(rig, "again", "t", instance_id="one").beat()
    ClassicConsumer(rig, instance_id="one").join()


def delete_and_join(rig: ConsumerRig) -> None:
    for member_id in list(getattr(rig.pair.leader.machine.groups.get("g"), "members", ())):
        rig.leave((member_id, None))
    rig.submit(lambda machine: delete_group("g", machine))
    assert "g" not in rig.pair.leader.machine.groups
    Consumer(rig, "after", "t").beat()


@pytest.mark.parametrize("keeps_tombstones", [True, False])
def test_an_id_that_had_groups_of_both_protocols(keeps_tombstones: bool) -> None:
    rig = ConsumerRig()
    for story in (upgrade_and_downgrade, leave_and_join, delete_and_join):
        story(rig)
        records = records_in_log(rig)
        whole = seen(loaded(rig, records).groups.get("g"))
        for end in range(len(records) + 1):
            machine = loaded(rig, cleaned(records, end, keeps_tombstones=keeps_tombstones))
            assert seen(machine.groups.get("g")) == whole, end


def _pool() -> list[CoordinatorRecord]:
    """Records that Kafka has written of groups of all kinds, all under one id; and a tombstone for each."""
    found: list[CoordinatorRecord] = []
    for path in WRITTEN_BY_KAFKA:
        for rows in json.loads(path.read_text()).values():
            for _, record in decoded(rows):
                name = "group" if hasattr(record.key, "group") else "group_id"
                setattr(record.key, name, "g")
                found += (record, record._replace(value=None))
    return found


POOL = _pool()
RIG = ConsumerRig()


@settings(max_examples=examples(300))
@given(st.lists(st.integers(0, len(POOL) - 1), max_size=60))
def test_any_records_in_any_order_are_a_group(places: list[int]) -> None:
    machine = loaded(RIG, [POOL[place] for place in places])
    group = machine.groups.get("g")
    if group is not None:
        assert group.group_id == "g"
        assert group.state_name
        group.is_subscribed_to("t")
        group.tombstones()
    machine.unloaded(NotCoordinatorError("it is led elsewhere"))
