"""A controller of Apache Kafka and one of Tailrace decide the same about the same commands.

Each has three brokers of Kafka, so that replicas, ISR and elections are real. Both clusters receive every command.
Responses must be equal, and after each change both clusters must reach the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import pytest

from support.kafka.command_comparison import ASKED, AUTO_ASSIGNED, CONTROLLER, TOPIC, CommandComparison, State
from support.kafka.mixed_cluster import ClusterNode, Clusters, KafkaNode, MixedCluster, TailraceNode
from support.requests.reassignments import reassignment
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.by_hand, pytest.mark.timeout(900)]

BROKERS = (2, 3, 4)
SETTINGS = {
    "broker_session_timeout_ms": "5000",
    "replica_lag_time_max_ms": "5000",
    "auto_leader_rebalance_enable": "false",
    "default_replication_factor": "3",
    "num_partitions": "2",
}
ASSIGNED = ((2, 3, 4), (3, 4, 2), (4, 2, 3))
PREFERRED, UNCLEAN = 0, 1
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
BROKER_SETTINGS = 4


@pytest.fixture
def comparison(clusters: Clusters) -> Iterator[CommandComparison]:
    for cluster, vendor in zip(clusters, (KafkaNode, TailraceNode), strict=True):
        quorum = cluster.initial_controllers(CONTROLLER)
        cluster.add(vendor, CONTROLLER, "controller", quorum, **SETTINGS).start()
        for node_id in BROKERS:
            cluster.add(KafkaNode, node_id, "broker", quorum, **SETTINGS).start()
    for cluster in clusters:
        for node_id in BROKERS:
            cluster.nodes[node_id].wait_until_serving()
    with closing(CommandComparison(clusters)) as comparison:
        yield comparison


# -- commands ----------------------------------------------------------------------------------------------------------


def topic(
    name: str, assignment: Sequence[Sequence[int]] = (), count: int = -1, factor: int = -1, **settings: str
) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
        for index, each in enumerate(assignment)
    ]
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return CreatableTopic(
        name=name, num_partitions=count, replication_factor=factor, assignments=assignments, configs=configs
    )


def create(*topics: CreatableTopic, is_tried: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=20_000, validate_only=is_tried)


def extend(name: str, count: int, assignment: Sequence[Sequence[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None
    if assignment is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignment]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def extended(*topics: CreatePartitionsTopic, is_tried: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=20_000, validate_only=is_tried)


def configure(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def configured(*resources: AlterConfigsResource, is_tried: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=is_tried)


def features(levels: Mapping[str, int], kind: int, is_tried: bool = False) -> UpdateFeaturesRequest:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level in levels.items()
    ]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=is_tried)


def elect(kind: int, partitions: Mapping[str, Sequence[int]] | None) -> ElectLeadersRequest:
    chosen = None
    if partitions is not None:
        chosen = [TopicPartitions(topic=name, partitions=list(each)) for name, each in partitions.items()]
    return ElectLeadersRequest(election_type=kind, topic_partitions=chosen, timeout_ms=20_000)


def reassign(*topics: ReassignableTopic, may_change_factor: bool = True) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=20_000, topics=list(topics), allow_replication_factor_change=may_change_factor
    )


def delete(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=20_000)


# -- the series --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("RP-16", "RP-18", "RP-19", "RP-38")
def test_controllers_decide_the_same(comparison: CommandComparison) -> None:
    comparison.settle("the brokers serve", lambda state: state.serving == set(BROKERS))
    topics_are_created(comparison)
    partitions_are_added(comparison)
    settings_change(comparison)
    features_change(comparison)
    brokers_are_killed(comparison)
    leaders_are_elected(comparison)
    replicas_are_moved(comparison)
    topics_are_deleted(comparison)
    a_broker_is_unregistered(comparison)
    the_controller_is_killed(comparison)
    assert not comparison.found, "\n".join(comparison.found)
    assert len(comparison.error_codes) >= 15, comparison.error_codes  # with good commands alone, equality proves little
    for cluster in comparison.clusters:
        cluster.assert_healthy()


def topics_are_created(comparison: CommandComparison) -> None:
    comparison.command(
        create(
            topic("t", ASSIGNED, min_insync_replicas="2"),
            topic(AUTO_ASSIGNED, count=4, factor=3),
            topic(f"{AUTO_ASSIGNED}-by-default"),
            topic("single", [(4,)]),
            topic("pair", [(4, 3)]),
            topic("kept", ASSIGNED, retention_ms="86400000", cleanup_policy="compact,delete"),
        ),
        7,
    )
    comparison.settle("topics are created", lambda state: len(state.of("kept")) == 3)
    bad = (
        topic("t", ASSIGNED),
        topic("bad/name", ASSIGNED),
        topic("four", count=1, factor=4),
        topic("unknown", [(9,)]),
        topic("twice", [(2, 2)]),
        topic("uneven", [(2, 3, 4), (2,)]),
        topic("empty", [()]),
        topic("none", count=0, factor=3),
        topic("both", [(2,)], count=1, factor=1),
        topic("wrong", ASSIGNED, retention_ms="long"),
        topic("strange", ASSIGNED, no_such_setting="1"),
    )
    for each in bad:
        comparison.command(create(each), 7)
    comparison.command(create(*bad, topic("good", ASSIGNED)), 7)
    comparison.command(create(topic("tried", ASSIGNED), topic("four", count=1, factor=4), is_tried=True), 7)
    comparison.command(create(*bad), 7, of_controller=True)
    comparison.settle("one more topic is created", lambda state: len(state.of("good")) == 3)


def partitions_are_added(comparison: CommandComparison) -> None:
    comparison.command(extended(extend("t", 5, [(4, 3, 2), (2, 4, 3)]), extend(AUTO_ASSIGNED, 6)), 3)
    comparison.settle("partitions are added", lambda state: len(state.of("t")) == 5)
    bad = (
        extend("t", 3),
        extend("nope", 3),
        extend("good", 3),
        extend("kept", 5, [(2, 3, 4)]),
        extend("single", 2, [(2, 3)]),
        extend("pair", 2, [(2, 9)]),
        extend(AUTO_ASSIGNED, 7, [()]),
    )
    for each in bad:
        comparison.command(extended(each), 3)
    comparison.command(extended(*bad), 3, of_controller=True)
    comparison.command(extended(extend("good", 4), extend("t", 3), is_tried=True), 3)
    comparison.settle("nothing else is added")


def settings_change(comparison: CommandComparison) -> None:
    comparison.command(
        configured(
            configure(TOPIC, "t", ("retention.ms", SET, "7200000"), ("cleanup.policy", APPEND, "compact")),
            configure(TOPIC, "kept", ("cleanup.policy", SUBTRACT, "compact"), ("retention.ms", DELETE, None)),
            configure(BROKER_SETTINGS, "3", ("log.cleaner.threads", SET, "2")),
            configure(BROKER_SETTINGS, "", ("min.insync.replicas", SET, "2")),
        ),
        1,
    )
    comparison.settle("settings change", partial(has_setting, "t", "retention.ms", "7200000"))
    bad = (
        configure(TOPIC, "nope", ("retention.ms", SET, "1")),
        configure(TOPIC, "t", ("retention.ms", SET, "long")),
        configure(TOPIC, "t", ("retention.ms", APPEND, "1")),
        configure(TOPIC, "t", ("no.such.setting", SET, "1")),
        configure(TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        configure(TOPIC, "t", ("min.insync.replicas", SET, "0")),
        configure(BROKER_SETTINGS, "3", ("min.insync.replicas", SET, "1")),
        configure(BROKER_SETTINGS, "", ("min.insync.replicas", DELETE, None)),
        configure(BROKER_SETTINGS, "", ("broker.id", SET, "9")),
    )
    for each in bad:
        comparison.command(configured(each), 1)
    comparison.command(configured(*bad[:4], is_tried=True), 1)
    comparison.settle("nothing else changes")


def features_change(comparison: CommandComparison) -> None:
    comparison.command(features({"share.version": 0}, SAFE_DOWNGRADE), 2)
    comparison.settle("a feature is disabled", lambda state: "share.version" not in state.features)
    comparison.command(features({"share.version": 1}, UPGRADE), 2)
    comparison.settle("a feature is enabled", lambda state: state.features.get("share.version") == 1)
    for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        for levels in ({"kraft.version": 0}, {"metadata.version": 29}, {"metadata.version": 99}, {"nope": 1}):
            comparison.command(features(levels, kind), 2, of_controller=True)
        both = {"share.version": 0, "transaction.version": 3}
        comparison.command(features(both, kind), 2)
        comparison.command(features({"group.version": 0}, kind, is_tried=True), 2)
    comparison.settle("the levels are as before", lambda state: state.features.get("share.version") == 1)


def kill(comparison: CommandComparison, node_id: int, serving: set[int]) -> None:
    comparison.clusters.do(lambda cluster: cluster.nodes[node_id].kill())
    comparison.settle(
        f"broker {node_id} is fenced",
        lambda state: state.serving == serving and all(each.leader in {-1, *serving, 0} for each in state.partitions),
    )


def start(comparison: CommandComparison, node_id: int) -> None:
    comparison.clusters.do(lambda cluster: cluster.nodes[node_id].start())
    comparison.settle(f"broker {node_id} serves", lambda state: node_id in state.serving)


def is_complete(name: str, state: State) -> bool:
    return all(set(each.isr) == set(each.replicas) for each in state.of(name))


def has_setting(name: str, key: str, value: str, state: State) -> bool:
    return state.settings[name].get(key) == value


def brokers_are_killed(comparison: CommandComparison) -> None:
    kill(comparison, 4, {2, 3})
    comparison.settle("the ISR has two brokers", lambda state: state.isr("t") == [{2, 3}] * 5)
    comparison.command(create(topic("later", [(4, 2, 3), (2, 3, 4)]), topic("alone", [(4,)])), 7)
    comparison.command(create(topic(f"{AUTO_ASSIGNED}-later", count=2, factor=3)), 7)
    comparison.command(elect(PREFERRED, {"t": [0, 1, 2, 9], "nope": [0], "single": [0]}), 2)
    comparison.command(elect(UNCLEAN, {"t": [0], "single": [0]}), 2)
    comparison.settle("a topic is created without broker 4", lambda state: state.isr("later") == [{2, 3}] * 2)
    kill(comparison, 3, {2})
    comparison.settle("the ISR has one broker", lambda state: state.isr("t") == [{2}] * 5)
    for value in ("1", "3", "2"):  # decides which replicas stay eligible
        comparison.command(configured(configure(TOPIC, "kept", ("min.insync.replicas", SET, value))), 1)
        comparison.settle(f"min.insync.replicas is {value}", partial(has_setting, "kept", "min.insync.replicas", value))
    comparison.command(elect(UNCLEAN, {"pair": [0]}), 2)
    start(comparison, 4)
    comparison.settle("broker 4 has caught up", lambda state: state.isr("t") == [{2, 4}] * 5)
    comparison.command(elect(PREFERRED, {"pair": [0]}), 2)
    comparison.command(elect(UNCLEAN, {"pair": [0], "single": [0]}), 2)
    comparison.settle("the pair has an unclean leader", lambda state: state.leaders("pair") == [4])
    start(comparison, 3)
    for name in ("t", "later", "pair", "kept", "good"):
        comparison.settle(f"{name} has its whole ISR", partial(is_complete, name))


def leaders_are_elected(comparison: CommandComparison) -> None:
    comparison.command(elect(PREFERRED, {"t": [0, 1, 2, 3, 4]}), 2)
    comparison.settle("preferred leaders", lambda state: state.leaders("t") == [2, 3, 4, 4, 2])
    comparison.command(elect(PREFERRED, {"t": [0, 1]}), 2)
    comparison.command(elect(7, {"t": [0]}), 2)
    comparison.command(elect(UNCLEAN, {"t": [0]}), 2)
    comparison.clusters.do(lambda cluster: cluster.nodes[4].stop())
    comparison.settle("broker 4 has left", lambda state: state.serving == {2, 3} and 4 not in state.leaders("t"))
    comparison.clusters.do(lambda cluster: cluster.nodes[4].start())
    comparison.settle("broker 4 is back", partial(is_complete, "t"))


def replicas_are_moved(comparison: CommandComparison) -> None:
    comparison.command(reassign(reassignment("t", (0, [3, 4]), (1, [2, 3, 4])), reassignment("single", (0, [2]))), 1)
    comparison.settle("replicas are moved", lambda state: state.of("single")[0].isr == [2])
    comparison.settle("replicas are dropped", lambda state: state.of("t")[0].replicas == [3, 4])
    comparison.command(ListPartitionReassignmentsRequest(topics=None), 0)
    comparison.command(reassign(reassignment("t", (0, None), (9, [2]), (1, [9]))), 1)
    comparison.command(reassign(reassignment("t", (0, [2, 3, 4])), may_change_factor=False), 1)
    comparison.command(reassign(reassignment("nope", (0, [2]))), 1, of_controller=True)
    comparison.settle("nothing else is moved")


def topics_are_deleted(comparison: CommandComparison) -> None:
    comparison.command(delete("good", "nope", ""), 6)
    comparison.settle("a topic is deleted", lambda state: not state.of("good"))
    comparison.command(delete("kept", "kept"), 6)
    comparison.command(delete("later"), 6, of_controller=True)
    comparison.command(create(topic("good", ASSIGNED)), 7)
    comparison.settle("a topic is created again", lambda state: len(state.of("good")) == 3 and not state.of("later"))


def a_broker_is_unregistered(comparison: CommandComparison) -> None:
    for broker_id in (9, -1):
        comparison.command(UnregisterBrokerRequest(broker_id=broker_id), 0)
    kill(comparison, 4, {2, 3})
    comparison.command(UnregisterBrokerRequest(broker_id=4), 0)
    comparison.settle("broker 4 is unknown", lambda state: 4 not in state.brokers)
    comparison.command(UnregisterBrokerRequest(broker_id=4), 0, of_controller=True)
    comparison.command(create(topic("there", [(4,)])), 7)
    start(comparison, 4)
    comparison.settle("broker 4 has caught up", partial(is_complete, "t"))


def the_controller_is_killed(comparison: CommandComparison) -> None:
    before = comparison.settle("everything is quiet")

    def restart(cluster: MixedCluster) -> None:
        node: ClusterNode = cluster.nodes[CONTROLLER]
        node.kill()
        node.start()

    comparison.clusters.do(restart)
    after = comparison.settle("the controller is back", lambda state: state.serving == set(BROKERS))
    assert after == before
    comparison.command(create(topic("last", ASSIGNED)), 7)
    comparison.settle("commands are decided again", lambda state: len(state.of("last")) == 3)
    assert ASKED in after.serving
