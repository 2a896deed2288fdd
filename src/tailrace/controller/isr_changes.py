"""AlterPartition: a leader proposes the ISR of its partition; the controller decides.

A proposal counts only for the very state of the partition that it was made from: its partition epoch is the token. So
of two leaders, one of them deposed, never both are heard.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.controller.decision import Decision
from tailrace.controller.partition_change import Election
from tailrace.controller.partition_index import PartitionKey
from tailrace.controller.state import ClusterState
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.partition_registration import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
)
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    NotControllerError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionChangeRecord

_FIRST_WITH_EPOCHS = 3
ANY_EPOCH = -1


def alter_partitions(state: ClusterState, request: AlterPartitionRequest, version: int) -> Decision:
    response = AlterPartitionResponse()
    if not request.topics:
        return Decision(response)
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    changed: set[PartitionKey] = set()
    for topic_data in request.topics:
        topic = state.image.topic_by_id(topic_data.topic_id)
        result = ResponseTopicData(topic_id=topic_data.topic_id)
        response.topics.append(result)
        for proposal in topic_data.partitions:
            if version < _FIRST_WITH_EPOCHS:
                proposal.new_isr_with_epochs = [BrokerState(broker_id=each) for each in proposal.new_isr]
            try:
                if topic is None:
                    raise UnknownTopicIdError("This server does not host this topic ID.")
                key = topic.id, proposal.partition_index
                if key in changed:
                    raise InvalidUpdateVersionError("the request has an earlier proposal for the partition")
                before = len(records)
                try:
                    result.partitions.append(_altered(state, topic, request.broker_id, proposal, records))
                finally:
                    if len(records) > before:
                        changed.add(key)
            except TailraceError as error:
                result.partitions.append(
                    ResponsePartitionData(partition_index=proposal.partition_index, error_code=error.code)
                )
    return Decision(response, records)


def _altered(
    state: ClusterState,
    topic: TopicImage,
    broker_id: int,
    proposal: RequestPartitionData,
    records: list[VersionedRecord],
) -> ResponsePartitionData:
    index = proposal.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"there is no partition {topic.name}-{index}")
    check_proposal(partition, broker_id, proposal, state.image.brokers.get)
    change = state.change(topic, index)
    if state.allows_unclean(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [member.broker_id for member in proposal.new_isr_with_epochs]
    change.is_recovering = proposal.leader_recovery_state == RECOVERING
    made = change.record()
    if made is not None:
        records.append(made)
        assert isinstance(made.record, PartitionChangeRecord)
        partition = partition.merged(made.record)
        if made.record.leader not in (broker_id, NO_LEADER_CHANGE):
            # The new ISR has ended a reassignment, and that has moved the leadership: a record and an error both.
            raise NewLeaderElectedError(f"{topic.name}-{index} is now led by {made.record.leader}")
    return ResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=RECOVERING if partition.is_recovering else RECOVERED,
        partition_epoch=partition.partition_epoch,
    )


def check_proposal(
    partition: PartitionRegistration,
    broker_id: int,
    proposal: RequestPartitionData,
    broker: Callable[[int], BrokerRegistration | None],
) -> None:
    """Raises the error that refuses the proposal of `broker_id`."""
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        raise NotControllerError("the leader knows of newer metadata: there must be another controller")
    if proposal.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError(f"leader epoch {proposal.leader_epoch} is over, it is {partition.leader_epoch}")
    if broker_id != partition.leader:
        raise RefusedRequestError(f"broker {broker_id} does not lead, but {partition.leader}")
    if proposal.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersionError(
            f"partition epoch {proposal.partition_epoch} is over, it is {partition.partition_epoch}"
        )
    isr = [member.broker_id for member in proposal.new_isr_with_epochs]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        raise RefusedRequestError(f"ISR {isr} is not part of the replicas {list(partition.replicas)}")
    if partition.leader not in isr:
        raise RefusedRequestError(f"ISR {isr} lacks the leader {partition.leader}")
    if proposal.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise RefusedRequestError(f"{proposal.leader_recovery_state} is not a valid leader recovery state")
    if proposal.leader_recovery_state == RECOVERING:
        if len(isr) > 1:
            raise RefusedRequestError(f"ISR {isr} has more than one member while the leader is recovering")
        if not partition.is_recovering:
            raise RefusedRequestError("the leader is recovered and cannot become recovering")
    ineligible = [
        f"{member.broker_id} ({reason})"
        for member in proposal.new_isr_with_epochs
        if (reason := _ineligibility(broker(member.broker_id), member.broker_epoch)) is not None
    ]
    if ineligible:
        raise IneligibleReplicaError(f"ISR {isr} has ineligible members: {', '.join(ineligible)}")


def _ineligibility(broker: BrokerRegistration | None, epoch: int) -> str | None:
    if broker is None:
        return "not registered"
    if broker.in_controlled_shutdown:
        return "shutting down"
    if broker.is_fenced:
        return "fenced"
    if epoch not in (ANY_EPOCH, broker.epoch):
        return f"in epoch {broker.epoch}, not {epoch}"
    return None
