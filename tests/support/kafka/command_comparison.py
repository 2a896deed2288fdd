"""The same commands for two clusters whose controllers are of different vendors: are responses and outcomes equal?

Responses are compared as in `support.requests.response_values`: ids that servers choose are equal, and messages for
people are only there or not. A `State` is what the metadata of a broker shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from support.clients.raw_client import NoAnswer, RawClient
from support.kafka.mixed_cluster import Clusters, MixedCluster, wait_for
from support.requests.response_values import Shape, differences, shape
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest

CONTROLLER: Final = 1
ASKED: Final = 2
"""The broker that receives the commands; it is never killed."""
TOPIC: Final = 2
DYNAMIC_SOURCES: Final = frozenset({1, 2, 3})
"""Settings of the topic, of the broker, of all brokers."""
AUTO_ASSIGNED: Final = "auto"
"""The names of topics whose replicas the controller chooses, at random, begin with this."""
SETTLING_SECONDS: Final = 90


class Partition(NamedTuple):
    """Of a topic of `AUTO_ASSIGNED` only the replicas are known.

    Eligible leaders that are no longer replicas are left out: docs/compatibility.md, "Directories of replicas".
    """

    topic: str
    index: int
    leader: int
    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    last_known_eligible: list[int]


class State(NamedTuple):
    brokers: dict[int, bool]
    """Whether each is fenced."""
    partitions: list[Partition]
    settings: dict[str, dict[str, str | None]]
    """Of each topic that has any."""
    features: dict[str, int]

    @property
    def serving(self) -> set[int]:
        return {each for each, is_fenced in self.brokers.items() if not is_fenced}

    def of(self, topic: str) -> list[Partition]:
        return [each for each in self.partitions if each.topic == topic]

    def isr(self, topic: str) -> list[set[int]]:
        return [set(each.isr) for each in self.of(topic)]

    def leaders(self, topic: str) -> list[int]:
        return [each.leader for each in self.of(topic)]


class CommandComparison:
    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.found: list[str] = []
        """Where responses differ."""
        self.error_codes: set[int] = set()
        """Of all responses of Kafka."""
        self._clients = {id(each): RawClient(each.nodes[ASKED].broker_address) for each in clusters}
        self._controllers = {id(each): RawClient(each.nodes[CONTROLLER].controller_address) for each in clusters}

    def command(self, request: Request, version: int, *, of_controller: bool = False) -> None:
        """To the broker that is asked, or to the controller."""
        clients = self._controllers if of_controller else self._clients
        responses = self.clusters.do(lambda cluster: clients[id(cluster)].ask(request, version))
        theirs, own = (shape(each) for each in responses)
        self.error_codes.update(_error_codes(theirs))
        name = type(request).__name__
        self.found += [
            f"{name} {path}:\n  Kafka {expected}\n  ours  {got}\n  in {theirs}\n  and {own}"
            for path, expected, got in differences(theirs, own)
        ]

    def settle(self, what: str, is_reached: Callable[[State], bool] = lambda _: True) -> State:
        """Both clusters reach the same state, of which the predicate is true."""
        latest: list[State | None] = []

        def is_same() -> bool:
            latest[:] = self.clusters.do(self.state)
            theirs, own = latest
            return theirs is not None and theirs == own and is_reached(theirs)

        try:
            wait_for(is_same, what, SETTLING_SECONDS)
        except TimeoutError:
            raise AssertionError(
                f"{what}:\n  Kafka {latest[0]}\n  ours  {latest[1]}\n" + "\n".join(self.found)
            ) from None
        state = latest[0]
        assert state is not None
        return state

    def state(self, cluster: MixedCluster) -> State | None:
        """None while a node does not respond."""
        client, controller = self._clients[id(cluster)], self._controllers[id(cluster)]
        try:
            described: Any = client.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
            topics: Any = client.ask(DescribeTopicPartitionsRequest(), 0)
            names = sorted(topic.name for topic in topics.topics)
            features: Any = controller.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
            resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in names]
            configs: Any = client.ask(DescribeConfigsRequest(resources=resources), 4)
        except (OSError, NoAnswer):
            return None
        return State(
            {each.broker_id: each.is_fenced for each in described.brokers},
            sorted(_partitions(topics.topics)),
            {each.resource_name: _dynamic(each.configs) for each in configs.results},
            {each.name: each.max_version_level for each in features.finalized_features},
        )

    def close(self) -> None:
        for client in (*self._clients.values(), *self._controllers.values()):
            client.close()


def _error_codes(value: Shape) -> Iterator[int]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from [each] if name == "error_code" else _error_codes(each)
    elif isinstance(value, list):
        for each in value:
            yield from _error_codes(each)


def _partitions(topics: Iterable[Any]) -> Iterable[Partition]:
    for topic in topics:
        for each in topic.partitions:
            eligible = set(each.eligible_leader_replicas or ()) & set(each.replica_nodes)
            lists = (each.isr_nodes, eligible, each.last_known_elr or ())
            if topic.name.startswith(AUTO_ASSIGNED):
                yield Partition(topic.name, each.partition_index, 0, sorted(each.replica_nodes), [], [], [])
            else:
                members = [sorted(one) for one in lists]
                yield Partition(topic.name, each.partition_index, each.leader_id, list(each.replica_nodes), *members)


def _dynamic(configs: Iterable[Any]) -> Mapping[str, str | None]:
    return {each.name: each.value for each in configs if each.config_source in DYNAMIC_SOURCES}
