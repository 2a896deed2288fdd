"""Proposals of a leader to change the ISR of partition t-0."""

from __future__ import annotations

from collections.abc import Sequence

from support.metadata.controllers import ControllerRig
from tailrace.metadata.partition_registration import RECOVERED
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)


def propose(rig: ControllerRig, leader: int, isr: Sequence[int], recovery_state: int = RECOVERED) -> int:
    """The error code of the partition. The proposal is made from its present state."""
    found = rig.image.topics["t"]
    proposal = RequestPartitionData(
        partition_index=0,
        leader_epoch=found.partitions[0].leader_epoch,
        partition_epoch=found.partitions[0].partition_epoch,
        leader_recovery_state=recovery_state,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=rig.epochs[each]) for each in isr],
    )
    topics = [RequestTopicData(topic_id=found.id, partitions=[proposal])]
    answer = rig.ask(AlterPartitionRequest(broker_id=leader, broker_epoch=rig.epochs[leader], topics=topics))
    assert answer.error_code == 0
    (result,) = answer.topics[0].partitions
    code: int = result.error_code
    return code
