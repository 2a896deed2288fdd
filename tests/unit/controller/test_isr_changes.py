"""Elections that follow from an ISR proposal of a leader. What a proposal itself may say: test_controller_commands."""

from __future__ import annotations

import pytest

from support.metadata.controllers import ControllerRig, topic
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.model.errors import NewLeaderElectedError
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)


def propose_own_isr(rig: ControllerRig) -> int:
    """Broker 1 proposes itself as the ISR of t-0. The error of the partition."""
    found = rig.image.topics["t"]
    proposal = RequestPartitionData(
        partition_index=0,
        leader_epoch=found.partitions[0].leader_epoch,
        partition_epoch=found.partitions[0].partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=1, broker_epoch=rig.epochs[1])],
    )
    topics = [RequestTopicData(topic_id=found.id, partitions=[proposal])]
    answer = rig.ask(AlterPartitionRequest(broker_id=1, broker_epoch=rig.epochs[1], topics=topics))
    (result,) = answer.topics[0].partitions
    code: int = result.error_code
    return code


def state(partition: PartitionRegistration) -> tuple[int, tuple[int, ...], bool]:
    return partition.leader, partition.isr, partition.is_recovering


@pytest.mark.spec("RP-40")
@pytest.mark.parametrize(
    ("default", "of_topic", "expected"),
    [
        ("false", None, (NO_LEADER, (1,), False)),
        ("false", "true", (2, (2,), True)),
        ("true", None, (2, (2,), True)),
        ("true", "false", (NO_LEADER, (1,), False)),
    ],
)
def test_a_leader_without_its_directory_is_replaced_by_one_out_of_sync_only_where_that_is_allowed(
    default: str, of_topic: str | None, expected: tuple[int, tuple[int, ...], bool]
) -> None:
    """The leader registers again without the directory; its next proposal shows that it can no longer lead."""
    rig = ControllerRig(unclean_leader_election_enable=default).brokers(1, 2)
    configs: dict[str, str | None] = {} if of_topic is None else {"unclean.leader.election.enable": of_topic}
    rig.create(topic("t", assignments={0: [1, 2]}, configs=configs))
    rig.beat(2, want_fence=True)
    rig.beat(2)
    assert state(rig.image.topics["t"].partitions[0]) == (1, (1,), False)
    rig.register(1, log_dirs=[bytes([201]) * 16])
    assert propose_own_isr(rig) == NewLeaderElectedError.code
    assert state(rig.image.topics["t"].partitions[0]) == expected
