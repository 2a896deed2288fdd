"""The metadata quorum: its voters and observers, and changes of the voters (KIP-853).

Works on brokers (`Cluster`), which forward requests to the active controller, and on controllers (`Controllers`).

A change whose response is lost is sent again. The quorum then refuses it if it was made: `add_voter` and `remove_voter`
look at the voters in that case.

One thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.client.address import Address
from tailrace.client.caller import Caller
from tailrace.client.errors import DUPLICATE_VOTER, NONE, REQUEST_TIMED_OUT, VOTER_NOT_FOUND, error_of
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

METADATA_TOPIC: Final = "__cluster_metadata"
UNKNOWN_TIME_MS: Final = -1


class QuorumReplica(NamedTuple):
    """Times are those of the leader's clock, UNKNOWN_TIME_MS if unknown."""

    node_id: int
    directory_id: DirectoryId
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]


class VoterListener(NamedTuple):
    """Where the other voters reach a controller."""

    name: str
    host: str
    port: int


class QuorumAdmin:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def describe(self) -> QuorumDescription:
        wanted = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[wanted])

        def ask() -> QuorumDescription:
            response: DescribeQuorumResponse = self._caller.call(request)
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)
            found = response.topics[0].partitions[0]
            if found.error_code != NONE:
                raise error_of(found.error_code, found.error_message)
            endpoints = {
                node.node_id: tuple(f"{each.name}://{Address(each.host, each.port)}" for each in node.listeners)
                for node in response.nodes
            }
            return QuorumDescription(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                tuple(sorted(map(_replica, found.current_voters))),
                tuple(sorted(map(_replica, found.observers))),
                endpoints,
            )

        return self._caller.retry("describing the quorum", ask)

    def add_voter(
        self, cluster_id: str, node_id: int, directory_id: DirectoryId, listeners: Sequence[VoterListener]
    ) -> None:
        """Returns when the new voters are committed. Waits for an observer that has not caught up."""
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=int(self._caller.timeout_s * 1000),
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in listeners],
        )

        def ask() -> None:
            response: AddRaftVoterResponse = self._caller.call(request)
            if response.error_code == DUPLICATE_VOTER and self._is_voter(node_id, directory_id):
                self._await_commit()
                return
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)

        self._caller.retry(f"adding controller {node_id}", ask)

    def remove_voter(self, cluster_id: str | None, node_id: int, directory_id: DirectoryId) -> None:
        """Returns when the new voters are committed."""
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id)
        attempts = 0

        def ask() -> None:
            nonlocal attempts
            attempts += 1
            response: RemoveRaftVoterResponse = self._caller.call(request)
            if response.error_code == VOTER_NOT_FOUND and attempts > 1 and not self._is_voter(node_id, directory_id):
                self._await_commit()
                return
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)

        self._caller.retry(f"removing controller {node_id}", ask)

    def _await_commit(self) -> None:
        """Wait until what the leader has in its log now is committed, voters included."""
        quorum = self.describe()
        end_offset = max((each.log_end_offset for each in quorum.voters if each.node_id == quorum.leader_id), default=0)

        def ask() -> None:
            if self.describe().high_watermark < end_offset:
                raise error_of(REQUEST_TIMED_OUT, "the change of the voters is not committed yet")

        self._caller.retry("waiting for the commit", ask)

    def _is_voter(self, node_id: int, directory_id: DirectoryId) -> bool:
        return any((each.node_id, each.directory_id) == (node_id, directory_id) for each in self.describe().voters)


def _replica(found: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        found.replica_id,
        DirectoryId(found.replica_directory_id),
        found.log_end_offset,
        found.last_fetch_timestamp,
        found.last_caught_up_timestamp,
    )
