"""Partitions whose in-sync replicas are all gone: who may lead, and what its leader may propose afterwards."""

from __future__ import annotations

import pytest

from support.metadata.controllers import ControllerRig, MemoryQuorum, topic
from support.metadata.proposals import propose
from tailrace.metadata.partition_registration import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from tailrace.metadata.versions import ELR_VERSION
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionChangeRecord

pytestmark = pytest.mark.spec("RP-15")

INVALID_REQUEST = 42
UNCLEAN = "unclean.leader.election.enable"


def rig_of(has_elr: bool, configs: dict[str, str | None]) -> ControllerRig:
    """Broker 1 leads t-0 alone; broker 2 has left the ISR with an unclean shutdown and is back."""
    quorum = MemoryQuorum()
    feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=int(has_elr)), 0)
    quorum.bootstrap_records = [*quorum.bootstrap_records, feature]
    rig = ControllerRig(quorum).brokers(1, 2)
    rig.create(topic("t", assignments={0: [1, 2]}, configs=configs))
    rig.beat(2, want_fence=True, want_shut_down=True)
    rig.register(2, incarnation=b"x" * 16)
    assert not rig.beat(2).is_fenced
    assert state(rig) == (1, (1,), False)
    return rig


def partition(rig: ControllerRig) -> PartitionRegistration:
    return rig.image.topics["t"].partitions[0]


def state(rig: ControllerRig) -> tuple[int, tuple[int, ...], bool]:
    return partition(rig).leader, partition(rig).isr, partition(rig).is_recovering


@pytest.mark.parametrize("has_elr", [False, True])
@pytest.mark.parametrize("configs", [{}, {UNCLEAN: "false"}])
def test_by_default_a_partition_is_offline_until_a_member_of_the_isr_returns(
    has_elr: bool, configs: dict[str, str | None]
) -> None:
    rig = rig_of(has_elr, configs)
    rig.beat(1, want_fence=True)
    assert partition(rig).leader == NO_LEADER
    rig.beat(2, want_fence=True)
    rig.beat(2)
    rig.clock.ms += 300_000  # unclean.leader.election.interval.ms
    rig.beat(2)
    rig.controller.tick(rig.clock.ms)
    assert partition(rig).leader == NO_LEADER
    epoch = partition(rig).leader_epoch
    assert not rig.beat(1).is_fenced
    assert state(rig) == (1, (1,), False)
    assert partition(rig).leader_epoch == epoch + 1


@pytest.mark.parametrize("has_elr", [False, True])
def test_where_it_is_allowed_a_replica_out_of_sync_is_elected_and_recovers(has_elr: bool) -> None:
    rig = rig_of(has_elr, {UNCLEAN: "true"})
    rig.beat(1, want_fence=True)
    assert state(rig) == (2, (2,), True)
    (record,) = [each.record for each in rig.quorum.batches[-1] if isinstance(each.record, PartitionChangeRecord)]
    assert (record.leader, record.isr, record.leader_recovery_state) == (2, [2], RECOVERING)


@pytest.mark.parametrize("has_elr", [False, True])
def test_a_recovering_leader_stays_alone_in_the_isr_until_it_has_recovered(has_elr: bool) -> None:
    rig = rig_of(has_elr, {UNCLEAN: "true"})
    rig.beat(1, want_fence=True)
    rig.beat(1)
    before = partition(rig)
    assert propose(rig, 2, [2, 1], RECOVERING) == INVALID_REQUEST
    assert partition(rig) is before
    assert propose(rig, 2, [2], RECOVERING) == 0
    assert partition(rig) is before
    assert propose(rig, 2, [2], RECOVERED) == 0
    assert state(rig) == (2, (2,), False)
    assert propose(rig, 2, [2, 1], RECOVERED) == 0
    assert state(rig) == (2, (2, 1), False)


@pytest.mark.parametrize("isr", [[2], [2, 1]])
def test_a_recovered_leader_cannot_become_recovering_by_a_proposal(isr: list[int]) -> None:
    rig = rig_of(has_elr=True, configs={UNCLEAN: "true"})
    rig.beat(1, want_fence=True)
    rig.beat(1)
    assert propose(rig, 2, [2], RECOVERED) == 0
    before = partition(rig)
    assert propose(rig, 2, isr, RECOVERING) == INVALID_REQUEST
    assert partition(rig) is before
