"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter, and the range of kraft.version in ApiVersions."""

from __future__ import annotations

from tailrace.metadata.versions import KRAFT_VERSION
from tailrace.model.ids import DirectoryId
from tailrace.protocol.message import Response
from tailrace.protocol.messages import add_raft_voter, remove_raft_voter, update_raft_voter
from tailrace.protocol.messages.api_versions import ApiVersionsResponse
from tailrace.raft.consensus.messages import (
    AddRaftVoterRequest,
    KRaftVersionsResponse,
    Leadership,
    RemoveRaftVoterRequest,
    ReplicaKey,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterChangeResponse,
)
from tailrace.raft.voters import NO_NODE, QuorumEndpoint, Voter
from tailrace.raft.wire.addressing import QuorumAddress, check_cluster, endpoints_of, leader_endpoint


def accept_add(
    message: add_raft_voter.AddRaftVoterRequest, version: int, address: QuorumAddress
) -> AddRaftVoterRequest:
    check_cluster(message.cluster_id, address, add_raft_voter.AddRaftVoterResponse())
    voter = Voter(message.voter_id, DirectoryId(message.voter_directory_id), endpoints_of(message.listeners))
    return AddRaftVoterRequest(voter, message.ack_when_committed)


def accept_remove(
    message: remove_raft_voter.RemoveRaftVoterRequest, version: int, address: QuorumAddress
) -> RemoveRaftVoterRequest:
    check_cluster(message.cluster_id, address, remove_raft_voter.RemoveRaftVoterResponse())
    return RemoveRaftVoterRequest(ReplicaKey(message.voter_id, DirectoryId(message.voter_directory_id)))


def accept_update(
    message: update_raft_voter.UpdateRaftVoterRequest, version: int, address: QuorumAddress
) -> UpdateRaftVoterRequest:
    check_cluster(message.cluster_id, address, update_raft_voter.UpdateRaftVoterResponse())
    voter = Voter(message.voter_id, DirectoryId(message.voter_directory_id), endpoints_of(message.listeners))
    feature = message.kraft_version_feature
    return UpdateRaftVoterRequest(
        message.current_leader_epoch, voter, feature.min_supported_version, feature.max_supported_version
    )


def respond_change(response: VoterChangeResponse, *, is_removal: bool) -> Response:
    kind = remove_raft_voter.RemoveRaftVoterResponse if is_removal else add_raft_voter.AddRaftVoterResponse
    return kind(error_code=int(response.error), error_message=response.message)


def respond_update(response: UpdateRaftVoterResponse, listener_name: str) -> update_raft_voter.UpdateRaftVoterResponse:
    leadership = response.leadership
    endpoint = leader_endpoint(leadership, listener_name) or QuorumEndpoint("", "", 0)
    leader = update_raft_voter.CurrentLeader(
        leader_id=leadership.leader_id, leader_epoch=leadership.epoch, host=endpoint.host, port=endpoint.port
    )
    return update_raft_voter.UpdateRaftVoterResponse(error_code=int(response.error), current_leader=leader)


def ask_add(
    request: AddRaftVoterRequest, address: QuorumAddress, timeout_ms: int
) -> add_raft_voter.AddRaftVoterRequest:
    voter = request.voter
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=address.cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=[add_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        ack_when_committed=request.is_acknowledged_when_committed,
    )


def ask_remove(request: RemoveRaftVoterRequest, address: QuorumAddress) -> remove_raft_voter.RemoveRaftVoterRequest:
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=address.cluster_id,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
    )


def ask_update(request: UpdateRaftVoterRequest, address: QuorumAddress) -> update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=address.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=[update_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=request.min_kraft_version, max_supported_version=request.max_kraft_version
        ),
    )


def read_change(
    message: add_raft_voter.AddRaftVoterResponse | remove_raft_voter.RemoveRaftVoterResponse, address: QuorumAddress
) -> VoterChangeResponse:
    return VoterChangeResponse(message.error_code, message.error_message)


def read_update(message: update_raft_voter.UpdateRaftVoterResponse, address: QuorumAddress) -> UpdateRaftVoterResponse:
    leader = message.current_leader
    if leader is None:
        return UpdateRaftVoterResponse(message.error_code)
    leadership = Leadership(NO_NODE, leader.leader_epoch)
    if leader.leader_id >= 0:
        is_named = bool(leader.host) and 0 < leader.port < 2**16
        endpoints = (QuorumEndpoint(address.listener_name, leader.host, leader.port),) if is_named else ()
        leadership = Leadership(leader.leader_id, leader.leader_epoch, endpoints)
    return UpdateRaftVoterResponse(message.error_code, leadership)


def read_versions(message: ApiVersionsResponse, address: QuorumAddress) -> KRaftVersionsResponse:
    for feature in message.supported_features:
        if feature.name == KRAFT_VERSION:
            return KRaftVersionsResponse(message.error_code, feature.min_version, feature.max_version)
    return KRaftVersionsResponse(message.error_code)
