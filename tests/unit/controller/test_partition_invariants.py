"""Random requests of brokers and administrators: what holds of every partition after each of them.

Most are in the TLA+ model of KIP-966 (ValidControllerIsrAndElr): the ISR and the eligible replicas are parts
of the assignment and have no replica in common; the leader is in the ISR and can lead; below the minimum nothing is
forgotten; epochs only rise.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from suite.seeds import parametrized_seeds
from support.metadata.controllers import ControllerRig, MemoryQuorum, topic
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration, is_online_directory
from tailrace.metadata.versions import ELR_VERSION
from tailrace.protocol.messages import assign_replicas_to_dirs as assigning
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import FeatureLevelRecord

BROKERS = (1, 2, 3, 4)
STEPS = 250


class Scenario:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.has_elr = seed % 3 != 0
        quorum = MemoryQuorum()
        feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=int(self.has_elr)), 0)
        quorum.bootstrap_records = [*quorum.bootstrap_records, feature]
        self.rig = ControllerRig(quorum)
        self.starts = 0
        self.leaving: set[int] = set()
        self.directories: dict[int, list[bytes]] = {}
        for broker in BROKERS:
            self.start(broker)
            self.rig.beat(broker)
        self.rig.create(topic("t", assignments={0: [1, 2, 3], 1: [4, 3, 1], 2: [2, 1, 4]}), topic("u", 2, 2))
        self.before = self.partitions()

    def partitions(self) -> dict[tuple[str, int], PartitionRegistration]:
        topics = self.rig.image.topics.values()
        return {(each.name, index): found for each in topics for index, found in each.partitions.items()}

    # Events

    def start(self, broker: int) -> None:
        """A new process, now and then after an unclean shutdown or with another disk."""
        dice, before = self.dice, self.rig.epochs.get(broker, -1)
        self.starts += 1
        directories = self.directories.get(broker)
        if directories is None or dice.random() < 0.2:
            directories = [bytes([broker, self.starts % 256, each]) + bytes([7]) * 13 for each in (1, 2)]
        registered = self.rig.register(
            broker,
            incarnation=self.starts.to_bytes(16, "big"),
            log_dirs=directories,
            previous_broker_epoch=before if dice.random() < 0.5 else -1,
        )
        if not registered.error_code:  # else the present process is not let go yet
            self.directories[broker] = directories
            self.leaving.discard(broker)

    def restart(self, broker: int) -> None:
        self.rig.beat(broker, want_fence=True, want_shut_down=True)
        self.start(broker)

    def beat(self, broker: int) -> None:
        """A broker that wants to leave wants it until its process ends."""
        if self.dice.random() < 0.15:
            self.leaving.add(broker)
        self.rig.beat(broker, want_fence=self.dice.random() < 0.1, want_shut_down=broker in self.leaving)

    def fail_directory(self, broker: int) -> None:
        failed = [self.dice.choice(self.directories[broker])]
        self.rig.beat(broker, offline_log_dirs=failed, want_shut_down=broker in self.leaving)

    def assign(self, broker: int) -> None:
        partitions = [assigning.RequestPartitionData(partition_index=self.dice.randrange(3))]
        topics = [assigning.RequestTopicData(topic_id=self.rig.image.topics["t"].id, partitions=partitions)]
        directory = assigning.RequestDirectoryData(id=self.dice.choice(self.directories[broker]), topics=topics)
        epoch = self.rig.epochs[broker]
        request = assigning.AssignReplicasToDirsRequest(broker_id=broker, broker_epoch=epoch, directories=[directory])
        self.rig.ask(request)

    def propose(self, broker: int) -> None:
        index = self.dice.randrange(3)
        found = self.rig.image.topics["t"]
        partition = found.partitions[index]
        sender = partition.leader if partition.has_leader else broker
        isr = self.dice.sample(partition.replicas, self.dice.randint(1, len(partition.replicas)))
        proposal = RequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch - (self.dice.random() < 0.1),
            leader_recovery_state=int(self.dice.random() < 0.2),
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self.rig.epochs.get(each, 0)) for each in {sender, *isr}
            ],
        )
        topics = [RequestTopicData(topic_id=found.id, partitions=[proposal])]
        epoch = self.rig.epochs.get(sender, 0)
        self.rig.ask(AlterPartitionRequest(broker_id=sender, broker_epoch=epoch, topics=topics))

    def reassign(self, broker: int) -> None:
        known = [each for each in BROKERS if each in self.rig.image.brokers] or [broker]
        replicas = self.dice.sample(known, self.dice.randint(1, len(known)))
        target = ReassignablePartition(partition_index=self.dice.randrange(3), replicas=replicas)
        if self.dice.random() < 0.3:
            target.replicas = None
        topics = [ReassignableTopic(name="t", partitions=[target])]
        self.rig.ask(AlterPartitionReassignmentsRequest(topics=topics))

    def elect(self, broker: int) -> None:
        self.rig.ask(ElectLeadersRequest(election_type=self.dice.randrange(2), topic_partitions=None))

    def configure(self, broker: int) -> None:
        key, values = self.dice.choice(
            (("min.insync.replicas", ("1", "2", "3")), ("unclean.leader.election.enable", ("true", "false")))
        )
        config = AlterableConfig(name=key, config_operation=0, value=self.dice.choice(values))
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        self.rig.ask(IncrementalAlterConfigsRequest(resources=[resource]))

    def unregister(self, broker: int) -> None:
        if self.dice.random() < 0.1:
            self.rig.ask(UnregisterBrokerRequest(broker_id=broker))

    def pass_time(self, broker: int) -> None:
        self.rig.pass_time(self.dice.choice((1_000, 5_000, 10_000)))

    def step(self) -> None:
        event = self.dice.choice(_EVENTS)
        event(self, self.dice.choice(BROKERS))
        self.check(event.__name__)

    # What holds

    def check(self, event: str) -> None:
        now = self.partitions()
        for key, partition in now.items():
            before = self.before.get(key)
            if before is not partition:
                self.check_partition(partition, f"{key} after {event}: {before} -> {partition}")
                if before is not None:
                    assert partition.partition_epoch > before.partition_epoch
                    assert partition.leader_epoch >= before.leader_epoch
                    is_led_anew = partition.leader != before.leader
                    assert partition.leader_epoch > before.leader_epoch or not is_led_anew
                    self.check_election(before, partition, event)
        self.before = now

    def check_partition(self, partition: PartitionRegistration, text: str) -> None:
        replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
        assert len(replicas) == len(partition.replicas) == len(partition.directories) > 0, text
        assert isr <= replicas, text
        assert elr <= replicas - isr, text
        assert set(partition.adding_replicas) <= replicas, text
        assert set(partition.removing_replicas) <= replicas, text
        assert isr or self.has_elr, text
        if partition.has_leader:
            assert partition.leader in isr, text
            assert not partition.last_known_elr, text
        if not self.has_elr:
            assert not elr, text
            assert not partition.last_known_elr, text
        assert NO_LEADER not in partition.last_known_elr, text

    def check_election(self, before: PartitionRegistration, partition: PartitionRegistration, event: str) -> None:
        if partition.leader in (before.leader, NO_LEADER):
            return
        text = f"{event}: {before} -> {partition}"
        broker = self.rig.image.brokers[partition.leader]
        directory = partition.directory_of(broker.id)
        assert broker.is_active, text
        assert directory is not None, text
        assert is_online_directory(directory, broker.directories), text
        is_clean = partition.leader in (*before.isr, *before.elr)
        assert is_clean or partition.is_recovering or event == "propose", text


_EVENTS: list[Callable[[Scenario, int], None]] = [
    *[Scenario.beat] * 6,
    *[Scenario.propose] * 6,
    *[Scenario.restart] * 2,
    *[Scenario.pass_time] * 2,
    Scenario.fail_directory,
    Scenario.assign,
    Scenario.reassign,
    Scenario.elect,
    Scenario.configure,
    Scenario.unregister,
]


@parametrized_seeds(6)
def test_partitions_stay_valid_whatever_is_requested(seed: int) -> None:
    scenario = Scenario(seed)
    for _ in range(STEPS):
        scenario.step()
