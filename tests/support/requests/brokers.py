"""Requests that brokers and controllers send to the active controller: in order, stale and hostile."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import DATA, NO_ID, UNKNOWN_ID, Case, ServerFacts, versions
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
)
from tailrace.protocol.messages.assign_replicas_to_dirs import RequestPartitionData as AssignedPartition
from tailrace.protocol.messages.assign_replicas_to_dirs import RequestTopicData as AssignedTopic
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener

FIRST_WITH_EPOCHS = 3
BROKER, UNKNOWN_BROKER, UNKNOWN_CONTROLLER = 1, 7, 8
RECOVERING = 1
UNASSIGNED, LOST, MIGRATING = (bytes(15) + bytes([number]) for number in (0, 1, 2))
"""Directory ids that have a meaning."""

LISTENER = Listener(name="CONTROLLER", host="nowhere.invalid", port=9093)
FEATURE = Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)


def proposal(
    version: int,
    *isr: int,
    index: int = 2,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    recovery: int = 0,
    member_epoch: int = -1,
) -> RequestPartitionData:
    """An ISR that a leader proposes. `member_epoch` is what it knows of the epoch of each member."""
    made = RequestPartitionData(partition_index=index, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
    made.leader_recovery_state = recovery
    if version < FIRST_WITH_EPOCHS:
        made.new_isr = list(isr)
    else:
        made.new_isr_with_epochs = [BrokerState(broker_id=each, broker_epoch=member_epoch) for each in isr]
    return made


def alter_partition(facts: ServerFacts) -> Iterator[Case]:
    """Only proposals that change nothing: what the cases after it find does not depend on it."""
    topic_id, epoch = facts.topic_ids[DATA], facts.broker_epoch

    def of(topic_id: bytes, *partitions: RequestPartitionData) -> RequestTopicData:
        return RequestTopicData(topic_id=topic_id, partitions=list(partitions))

    for version in versions(AlterPartitionRequest):

        def ask(*topics: RequestTopicData, broker_id: int = BROKER, broker_epoch: int = epoch) -> AlterPartitionRequest:
            return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics))

        same = proposal(version, 1)
        yield Case("nothing", ask(), version)
        yield Case("the same ISR", ask(of(topic_id, same)), version)
        for broker_id, broker_epoch in ((BROKER, -1), (BROKER, epoch + 1), (BROKER, epoch - 1), (UNKNOWN_BROKER, 1)):
            what = f"broker {broker_id} in a wrong epoch, {broker_epoch - epoch if broker_epoch > 1 else broker_epoch}"
            yield Case(what, ask(of(topic_id, same), broker_id=broker_id, broker_epoch=broker_epoch), version)
        partitions = {
            "leader epoch -1": proposal(version, 1, leader_epoch=-1),
            "leader epoch 1": proposal(version, 1, leader_epoch=1),
            "partition epoch -1": proposal(version, 1, partition_epoch=-1),
            "partition epoch 1": proposal(version, 1, partition_epoch=1),
            "both epochs wrong": proposal(version, 1, leader_epoch=-1, partition_epoch=1),
            "no ISR": proposal(version),
            "a member twice": proposal(version, 1, 1),
            "an unknown member": proposal(version, 1, 7),
            "an unknown member only": proposal(version, 7),
            "member -1": proposal(version, 1, -1),
            "recovering": proposal(version, 1, recovery=RECOVERING),
            "partition 9": proposal(version, 1, index=9),
            "partition -1": proposal(version, 1, index=-1),
        }
        if version >= FIRST_WITH_EPOCHS:
            partitions["a member with its epoch"] = proposal(version, 1, member_epoch=epoch)
            partitions["a member with a wrong epoch"] = proposal(version, 1, member_epoch=epoch + 1)
        for name, partition in partitions.items():
            yield Case(name, ask(of(topic_id, partition)), version)
        yield Case("all of them", ask(of(topic_id, *partitions.values())), version)
        yield Case("an unknown topic", ask(of(UNKNOWN_ID, same), of(NO_ID, same)), version)
        yield Case("without partitions", ask(of(topic_id), of(UNKNOWN_ID)), version)
        yield Case("a topic twice", ask(of(topic_id, same), of(topic_id, same)), version)


def assign_replicas_to_dirs(facts: ServerFacts) -> Iterator[Case]:
    """To the directory in which the replicas are, or of replicas that do not exist."""
    own, data = facts.directory_id, facts.topic_ids[DATA]

    def to(directory: bytes, *topics: tuple[bytes, list[int]]) -> RequestDirectoryData:
        return RequestDirectoryData(
            id=directory,
            topics=[
                AssignedTopic(topic_id=topic, partitions=[AssignedPartition(partition_index=index) for index in found])
                for topic, found in topics
            ],
        )

    def ask(*to: RequestDirectoryData, broker_id: int = BROKER, epoch: int = facts.broker_epoch) -> Case:
        request = AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=list(to))
        return Case("", request, 0)

    cases = {
        "nothing": ask(),
        "as it is": ask(to(own, (data, [0, 1, 2]))),
        "of an old broker": ask(to(own, (data, [0])), epoch=facts.broker_epoch - 1),
        "of a later broker": ask(to(own, (data, [0])), epoch=facts.broker_epoch + 1),
        "without an epoch": ask(to(own, (data, [0])), epoch=-1),
        "of an unknown broker": ask(to(own, (data, [0])), broker_id=UNKNOWN_BROKER),
        "of broker -1": ask(to(own, (data, [0])), broker_id=-1),
        "unknown partitions": ask(to(own, (data, [9, -1, 0]))),
        "an unknown topic": ask(to(own, (UNKNOWN_ID, [0]), (NO_ID, [0, 1]))),
        "twice": ask(to(own, (data, [0, 0])), to(own, (data, [0]))),
        "without partitions": ask(to(own, (data, [])), to(UNKNOWN_ID)),
    }
    for name, directory in {
        "an unknown directory": UNKNOWN_ID,
        "no directory": UNASSIGNED,
        "a lost directory": LOST,
        "a directory of a migration": MIGRATING,
    }.items():
        cases[f"unknown partitions to {name}"] = ask(to(directory, (UNKNOWN_ID, [0]), (data, [9])))
    for name, case in cases.items():
        yield case._replace(name=name)


def broker_registration(facts: ServerFacts) -> Iterator[Case]:
    """None is of this cluster."""
    for version in versions(BrokerRegistrationRequest):
        for cluster_id in ("", "another", "x" * 10_000):
            for broker_id in (BROKER, UNKNOWN_BROKER, -1):
                request = BrokerRegistrationRequest(broker_id=broker_id, cluster_id=cluster_id, rack=None)
                yield Case(f"broker {broker_id} of cluster {cluster_id[:9]!r}", request, version)


def broker_heartbeat(facts: ServerFacts) -> Iterator[Case]:
    epoch = facts.broker_epoch
    for version in versions(BrokerHeartbeatRequest):
        yield Case("of the broker", BrokerHeartbeatRequest(broker_id=BROKER, broker_epoch=epoch), version)
        for name, broker_id, wrong in (
            ("an old broker", BROKER, epoch - 1),
            ("a later broker", BROKER, epoch + 1),
            ("no epoch", BROKER, -1),
            ("an unknown broker", UNKNOWN_BROKER, epoch),
            ("broker -1", -1, epoch),
        ):
            request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=wrong)
            yield Case(f"of {name}", request, version)
            stopping = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=wrong, want_shut_down=True)
            yield Case(f"of {name} that stops", stopping, version)


def allocate_producer_ids(facts: ServerFacts) -> Iterator[Case]:
    epoch = facts.broker_epoch
    for name, broker_id, wrong in (
        ("of the broker", BROKER, epoch),
        ("of an old broker", BROKER, epoch - 1),
        ("of a later broker", BROKER, epoch + 1),
        ("without an epoch", BROKER, -1),
        ("of an unknown broker", UNKNOWN_BROKER, epoch),
        ("of broker -1", -1, epoch),
    ):
        yield Case(name, AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=wrong), 0)


def controller_registration(facts: ServerFacts) -> Iterator[Case]:
    """Of a controller that is no voter. A controller lists it from then on."""
    for name, listeners, features in (
        ("without listeners", [], []),
        ("with a listener", [LISTENER], [FEATURE]),
        ("with a listener twice", [LISTENER, LISTENER], [FEATURE]),
        ("with a feature twice", [LISTENER], [FEATURE, FEATURE]),
    ):
        yield Case(name, registered_controller(listeners, features), 0)
    migrating = registered_controller([LISTENER], [FEATURE])
    migrating.zk_migration_ready = True
    yield Case("ready for a migration", migrating, 0)
    yield Case("as it stays", registered_controller([LISTENER], [FEATURE]), 0)


def registered_controller(listeners: list[Listener], features: list[Feature]) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=UNKNOWN_CONTROLLER, incarnation_id=UNKNOWN_ID, listeners=listeners, features=features
    )
