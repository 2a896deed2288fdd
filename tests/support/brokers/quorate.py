"""A scripted node with a metadata quorum: voters and observers with clocks, changes of voters, features, brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from support.brokers.scripted import ScriptedBroker, topic_id
from tailrace.env.real import RealFiles
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tailrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

NOW_MS = 1_700_000_000_000
CLUSTER_ID = "test"
LEADER = 1


@dataclass
class Replica:
    fetched_ms_ago: int = 0
    caught_up_ms_ago: int = 0
    log_end: int = 120
    directory: str = "d"


@dataclass
class QuorumNode(ScriptedBroker):
    """Node 1 leads. It responds on its only port as a broker and, if `is_controller`, as a controller."""

    voters: dict[int, Replica]
    observers: dict[int, Replica] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=lambda: {"kraft.version": 1, "metadata.version": 29})
    running: set[int] = field(default_factory=set)
    is_controller: bool = False
    has_leader: bool = True
    dead: dict[int, int] = field(default_factory=dict)
    """Other ports of nodes, where nothing listens."""
    lost_responses: int = 0
    """This number of changes of voters is made, and the response is REQUEST_TIMED_OUT."""

    def __post_init__(self) -> None:
        ScriptedBroker.__init__(self)
        self.versions |= {80: (0, 1), 81: (0, 0), 64: (0, 0), 57: (0, 2), 60: (0, 2), 55: (0, 2)}
        self.answers = {
            ApiVersionsRequest: lambda _: self._versions_with_features(),
            DescribeQuorumRequest: lambda _: self._quorum(),
            DescribeClusterRequest: self._cluster,
            AddRaftVoterRequest: self._add,
            RemoveRaftVoterRequest: self._remove,
            UpdateFeaturesRequest: self._update,
            UnregisterBrokerRequest: self._unregister,
        }

    def _versions_with_features(self) -> ApiVersionsResponse:
        response = self._api_versions(0)
        spans = {"kraft.version": (0, 1), "metadata.version": (7, 30), "group.version": (0, 1)}
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high) in spans.items()
        ]
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level) for name, level in self.levels.items() if level
        ]
        return response

    def _quorum(self) -> DescribeQuorumResponse:
        part = ResponsePartitionData(
            leader_id=LEADER if self.has_leader else -1,
            error_code=0 if self.has_leader else 6,
            leader_epoch=4,
            high_watermark=120,
            current_voters=[_state(*each) for each in self.voters.items()],
            observers=[_state(*each) for each in self.observers.items()],
        )
        return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name="__cluster_metadata", partitions=[part])])

    def _cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != (2 if self.is_controller else 1):
            return DescribeClusterResponse(error_code=114, error_message="another endpoint type")
        nodes = [
            DescribeClusterBroker(
                broker_id=each,
                host="127.0.0.1",
                port=self.dead.get(each, self.port),
                is_fenced=each not in self.running,
            )
            for each in (1, 2, 3)
        ]
        controller = LEADER if self.has_leader else -1
        return DescribeClusterResponse(cluster_id=CLUSTER_ID, controller_id=controller, brokers=nodes)

    def _add(self, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        if request.voter_id in self.voters:
            return AddRaftVoterResponse(error_code=126)
        self.voters[request.voter_id] = self.observers.pop(request.voter_id)
        return AddRaftVoterResponse(error_code=self._timed_out())

    def _remove(self, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
        if self.voters.pop(request.voter_id, None) is None:
            return RemoveRaftVoterResponse(error_code=127)
        return RemoveRaftVoterResponse(error_code=self._timed_out())

    def _timed_out(self) -> int:
        self.lost_responses -= 1
        return 7 if self.lost_responses >= 0 else 0

    def _update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        wanted = {each.feature: each.max_version_level for each in request.feature_updates}
        if any(level > 30 for level in wanted.values()):
            return UpdateFeaturesResponse(error_code=95, error_message="Invalid update version")
        if not request.validate_only:
            self.levels |= wanted
        return UpdateFeaturesResponse()

    def _unregister(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        is_known = request.broker_id in (1, 2, 3)
        message = None if is_known else f"Broker ID {request.broker_id} is not currently registered"
        return UnregisterBrokerResponse(error_code=0 if is_known else 102, error_message=message)


def directory(text: str) -> DirectoryId:
    return DirectoryId(topic_id(text))


def _state(node_id: int, replica: Replica) -> ReplicaState:
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=directory(replica.directory),
        log_end_offset=replica.log_end,
        last_fetch_timestamp=NOW_MS - replica.fetched_ms_ago,
        last_caught_up_timestamp=NOW_MS - replica.caught_up_ms_ago,
    )


def controller_file(folder: Path, node_id: int = 4, directory_name: str = "d", cluster_id: str = CLUSTER_ID) -> Path:
    """Of a formatted controller."""
    data = folder / f"data-{node_id}"
    data.mkdir()
    meta = MetaProperties(cluster_id, node_id, directory(directory_name))
    meta.write(RealFiles(), str(data / META_PROPERTIES_FILE), 0)
    file = folder / f"controller-{node_id}.properties"
    file.write_text(
        f"process.roles=controller\nnode.id={node_id}\nlisteners=CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"log.dirs={data}\n"
    )
    return file
