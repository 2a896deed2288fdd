"""Eligible leader replicas (KIP-966) as the controller keeps them, over the requests of brokers."""

from __future__ import annotations

import pytest

from support.metadata.controllers import ControllerRig, MemoryQuorum, topic
from support.metadata.proposals import propose
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.metadata.versions import ELR_VERSION
from tailrace.protocol.record_frame import VersionedRecord, decode_metadata_record, encode_metadata_record
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord

pytestmark = pytest.mark.spec("RP-16")

BROKERS = (1, 2, 3)


def cluster(level: int = 1) -> ControllerRig:
    """Three brokers in the ISR of t-0, of which two must be in sync."""
    quorum = MemoryQuorum()
    feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=level), 0)
    quorum.bootstrap_records = [*quorum.bootstrap_records, feature]
    rig = ControllerRig(quorum).brokers(*BROKERS)
    rig.create(topic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"}))
    return rig


def partition(rig: ControllerRig) -> PartitionRegistration:
    return rig.image.topics["t"].partitions[0]


def members(rig: ControllerRig) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR, ELR and last known leader."""
    found = partition(rig)
    return found.leader, found.isr, tuple(sorted(found.elr)), found.last_known_elr


def fence(rig: ControllerRig, *brokers: int) -> None:
    """They leave without giving up their leaderships first."""
    for broker in brokers:
        assert rig.beat(broker, want_fence=True, want_shut_down=True).is_fenced


def register_after_unclean_shutdown(rig: ControllerRig, broker: int) -> None:
    assert rig.register(broker, incarnation=bytes([broker, 9]) * 8, previous_broker_epoch=-1).error_code == 0


def test_replicas_that_leave_an_isr_below_its_minimum_are_eligible() -> None:
    rig = cluster()
    fence(rig, 3)
    assert members(rig) == (1, (1, 2), (), ())
    fence(rig, 2)
    assert members(rig) == (1, (1,), (2,), ())


def test_a_replica_that_the_leader_takes_out_is_eligible_as_well() -> None:
    rig = cluster()
    assert propose(rig, 1, [1]) == 0
    assert members(rig) == (1, (1,), (2, 3), ())
    assert propose(rig, 1, [1, 3]) == 0
    assert members(rig) == (1, (1, 3), (), ())


def test_a_replica_that_may_lack_records_is_not_eligible() -> None:
    rig = cluster()
    fence(rig, 3, 2)
    assert members(rig) == (1, (1,), (2,), ())
    register_after_unclean_shutdown(rig, 2)
    assert members(rig) == (1, (1,), (), ())


def test_an_empty_isr_is_followed_by_an_eligible_leader() -> None:
    rig = cluster()
    fence(rig, 3, 2, 1)
    assert members(rig) == (NO_LEADER, (), (1, 2), (1,))
    rig.beat(3)
    assert members(rig) == (NO_LEADER, (), (1, 2), (1,)), "broker 3 left before the ISR was below its minimum"
    rig.beat(2)
    assert members(rig) == (2, (2,), (1,), ())
    assert not partition(rig).is_recovering
    rig.beat(1)
    assert members(rig) == (2, (2,), (1,), ())
    assert propose(rig, 2, [2, 1]) == 0
    assert members(rig) == (2, (2, 1), (), ())


def test_the_last_known_leader_is_elected_only_if_nothing_else_is_left() -> None:
    rig = cluster()
    fence(rig, 3, 2, 1)
    for broker in (2, 1):
        assert members(rig)[0] == NO_LEADER
        register_after_unclean_shutdown(rig, broker)
    assert members(rig) == (NO_LEADER, (), (), (1,))
    for broker in (2, 3):
        assert not rig.beat(broker).is_fenced
        assert members(rig) == (NO_LEADER, (), (), (1,)), f"broker {broker} is not the last known leader"
    rig.beat(1)
    assert members(rig) == (1, (1,), (), ())
    assert partition(rig).is_recovering


@pytest.mark.parametrize("level", [0, 1])
def test_fields_for_eligible_replicas_are_written_only_if_they_have_a_value(level: int) -> None:
    rig = cluster(level)
    fence(rig, 3, 2, 1)
    rig.beat(1)
    rig.beat(2)
    propose(rig, 1, [1, 2])
    present: dict[str, bool] = {"elr": False, "last": False}
    found = PartitionRegistration.of(PartitionRecord())
    for batch in rig.quorum.batches:
        for record, version in batch:
            if isinstance(record, PartitionRecord):
                assert (record.eligible_leader_replicas, record.last_known_elr) == (None, None)
                found = PartitionRegistration.of(record)
            elif isinstance(record, PartitionChangeRecord):
                before, found = found, found.merged(record)
                for listed, old, new in (
                    (record.eligible_leader_replicas, before.elr, found.elr),
                    (record.last_known_elr, before.last_known_elr, found.last_known_elr),
                ):
                    assert (listed is not None) == (old != new), "only a change is written"
                present["elr"] |= record.eligible_leader_replicas is not None
                present["last"] |= record.last_known_elr is not None
                assert decode_metadata_record(encode_metadata_record(record, version)).record == record
    assert present == {"elr": level == 1, "last": level == 1}
    assert found == partition(rig)


@pytest.mark.parametrize("level", [0, 1])
def test_a_snapshot_has_the_fields_only_of_partitions_with_eligible_replicas(level: int) -> None:
    rig = cluster(level)

    def written() -> PartitionRecord:
        records = (decode_metadata_record(encode_metadata_record(*each)).record for each in rig.image.records())
        (found,) = (each for each in records if isinstance(each, PartitionRecord))
        return found

    assert (written().eligible_leader_replicas, written().last_known_elr) == (None, None)
    fence(rig, 3, 2, 1)
    expected = (list(partition(rig).elr), [1]) if level else (None, None)
    assert (written().eligible_leader_replicas, written().last_known_elr) == expected
