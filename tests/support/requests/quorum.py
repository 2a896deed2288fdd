"""Requests about the metadata quorum, for a server whose only voter is itself, with its directory id in the log.

Voters, candidates and observers send them to the controller's listener; some are for administrators on any listener.
A case is made for the epoch of the moment: what is valid in one epoch is stale in the next.

Kafka's process ends when a node that is no voter begins or ends an epoch, and for a FetchSnapshot of the leader itself
or without a partition; a Fetch of the leader itself is an error or not. Such requests are not among the cases: see
`tests/unit/broker/test_quorum_handlers.py` and `tests/unit/raft/test_quorum_bad_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from support.requests.case import UNKNOWN_ID, versions
from tailrace.protocol.message import Request
from tailrace.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_features,
    update_raft_voter,
    vote,
)

METADATA = "__cluster_metadata"
METADATA_ID = bytes(15) + b"\1"
SELF, OTHER = 1, 7
OTHER_DIRECTORY, NO_DIRECTORY = b"another's direct", bytes(16)
FAR = 2**40
"""An offset that no log of these tests reaches."""
LATE = 2**30
"""An epoch that no quorum of these tests reaches."""
FIRST_FETCH, FIRST_FETCH_WITH_STATE, FIRST_PRE_VOTE = 12, 15, 2
FIRST_WITH_FEATURES, FIRST_WITH_UPGRADE_TYPE = 3, 1
KRAFT_VERSION = "kraft.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
OWN_CLUSTER = "its own"
NOWHERE, ELSEWHERE = (("CONTROLLER", "127.0.0.1", 1),), (("OTHER", "127.0.0.1", 1),)

Changes = Mapping[str, Mapping[str, Any]]
"""By name of a case, what it changes in a valid request."""


class QuorumFacts(NamedTuple):
    cluster_id: str
    directory_id: bytes
    epoch: int
    snapshot: tuple[int, int]
    """End offset and epoch of one that the server has taken."""

    def cluster(self, wanted: str | None) -> str | None:
        return self.cluster_id if wanted == OWN_CLUSTER else wanted


NOMINAL = QuorumFacts("a cluster", UNKNOWN_ID, 1000, (500, 999))
"""In the fingerprint of a request, these are the facts of any server."""


class QuorumCase(NamedTuple):
    name: str
    version: int
    request: Callable[[QuorumFacts], Request]


def administrative_cases() -> Iterator[QuorumCase]:
    """On any listener."""
    yield from _cases("describe", describe_quorum.DescribeQuorumRequest, _described, {"the quorum": {}})
    yield from _cases("list", api_versions.ApiVersionsRequest, _listed, {"the features": {}}, FIRST_WITH_FEATURES)
    yield from _cases(
        "change", update_features.UpdateFeaturesRequest, _changed_feature, FEATURES, FIRST_WITH_UPGRADE_TYPE
    )
    yield from _cases("add a voter", add_raft_voter.AddRaftVoterRequest, _added, ADDED)
    yield from _cases("remove a voter", remove_raft_voter.RemoveRaftVoterRequest, _removed, REMOVED)


def controller_cases() -> Iterator[QuorumCase]:
    """On the listener of a controller."""
    yield from _cases("fetch", fetch.FetchRequest, _fetched, FETCHED, FIRST_FETCH)
    yield from _cases("fetch a snapshot", fetch_snapshot.FetchSnapshotRequest, _snapshot_fetched, SNAPSHOTS)
    yield from _cases("update a voter", update_raft_voter.UpdateRaftVoterRequest, _updated, UPDATED)
    yield from _cases("begin an epoch", begin_quorum_epoch.BeginQuorumEpochRequest, _begun, BEGUN)
    yield from _cases("end an epoch", end_quorum_epoch.EndQuorumEpochRequest, _ended, ENDED)
    yield from _cases("vote", vote.VoteRequest, _voted, VOTES)
    pre_vote = partial(_voted, is_pre_vote=True)
    yield from _cases("pre-vote", vote.VoteRequest, pre_vote, VOTES, FIRST_PRE_VOTE)
    future = {"in a future epoch": {"epoch": 5}}  # last: Kafka begins an epoch for each
    yield from _cases("vote", vote.VoteRequest, _voted, future)
    yield from _cases("pre-vote", vote.VoteRequest, pre_vote, future, FIRST_PRE_VOTE)


def _cases(
    what: str, kind: type[Request], build: Callable[..., Request], changes: Changes, first: int = 0
) -> Iterator[QuorumCase]:
    for version in versions(kind, first):
        for name, changed in changes.items():
            yield QuorumCase(f"{what} {name}, v{version}", version, partial(build, version=version, **changed))


def _described(facts: QuorumFacts, version: int) -> Request:
    partitions = [describe_quorum.RequestPartitionData(partition_index=0)]
    topic = describe_quorum.RequestTopicData(topic_name=METADATA, partitions=partitions)
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def _listed(facts: QuorumFacts, version: int) -> Request:
    return api_versions.ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")


# -- features ----------------------------------------------------------------------------------------------------------

FEATURES: Changes = {
    f"{KRAFT_VERSION} to {level}, type {kind}{'' if is_tried else ', not only tried'}": {
        "level": level,
        "kind": kind,
        "is_tried": is_tried,
    }
    for level in (0, 1, 2, -1)
    for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    for is_tried in (True, False)
}
"""None of them changes the level of a quorum whose voters are in its log."""


def _changed_feature(facts: QuorumFacts, version: int, *, level: int, kind: int, is_tried: bool) -> Request:
    key = update_features.FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=level, upgrade_type=kind)
    return update_features.UpdateFeaturesRequest(feature_updates=[key], validate_only=is_tried)


# -- the log -----------------------------------------------------------------------------------------------------------

ABOUT: Changes = {
    "of another cluster": {"cluster": "another"},
    "of any cluster": {"cluster": None},
    "about another topic": {"topic": "nope"},
    "about partition 1": {"partitions": (1,)},
    "about two partitions": {"partitions": (0, 1)},
    "about no partition": {"partitions": ()},
}
EPOCHS: Changes = {"in a stale epoch": {"epoch": -1}, "in a future epoch": {"epoch": 5}}
FETCHED: Changes = {
    "from the start": {},
    "from offset 1": {"offset": 1, "last_epoch": None},
    "without an epoch before": {"last_epoch": -1},
    "beyond the end": {"offset": FAR, "last_epoch": 1},
    "from an offset below zero": {"offset": -1},
    "after an epoch below zero": {"last_epoch": -2},
    "after an epoch of the future": {"offset": 1, "last_epoch": LATE},
    "of a consumer": {"replica": -1},
    "without bytes": {"max_bytes": 0},
    **ABOUT,
    **EPOCHS,
}


def _fetched(
    facts: QuorumFacts,
    version: int,
    *,
    offset: int = 0,
    last_epoch: int | None = 0,
    epoch: int = 0,
    replica: int = OTHER,
    cluster: str | None = OWN_CLUSTER,
    topic: str = METADATA,
    partitions: tuple[int, ...] = (0,),
    max_bytes: int = 1 << 20,
) -> Request:
    wanted = [
        fetch.FetchPartition(
            partition=index,
            current_leader_epoch=facts.epoch + epoch,
            fetch_offset=offset,
            last_fetched_epoch=facts.epoch if last_epoch is None else last_epoch,
            partition_max_bytes=1 << 20,
            replica_directory_id=OTHER_DIRECTORY,
        )
        for index in partitions
    ]
    request = fetch.FetchRequest(max_wait_ms=0, max_bytes=max_bytes, cluster_id=facts.cluster(cluster))
    if version < FIRST_FETCH_WITH_STATE:
        request.replica_id = replica
    else:
        request.replica_state = fetch.ReplicaState(replica_id=replica)
    topic_id = METADATA_ID if topic == METADATA else UNKNOWN_ID
    request.topics = [fetch.FetchTopic(topic=topic, topic_id=topic_id, partitions=wanted)]
    return request


SNAPSHOTS: Changes = {
    "that is there": {},
    "of the bootstrap": {"snapshot": (0, 0)},
    "that is not there": {"snapshot": (FAR, 1)},
    "below zero": {"snapshot": (-1, -1)},
    "from beyond its end": {"position": FAR},
    "from below zero": {"position": -1},
    "of a consumer": {"replica": -1},
    **{name: changed for name, changed in ABOUT.items() if name != "about no partition"},
    **EPOCHS,
}


def _snapshot_fetched(
    facts: QuorumFacts,
    version: int,
    *,
    snapshot: tuple[int, int] | None = None,
    position: int = 0,
    epoch: int = 0,
    replica: int = OTHER,
    cluster: str | None = OWN_CLUSTER,
    topic: str = METADATA,
    partitions: tuple[int, ...] = (0,),
) -> Request:
    end_offset, snapshot_epoch = snapshot or facts.snapshot
    wanted = [
        fetch_snapshot.RequestPartitionSnapshot(
            partition=index,
            current_leader_epoch=facts.epoch + epoch,
            snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=end_offset, epoch=snapshot_epoch),
            position=position,
            replica_directory_id=OTHER_DIRECTORY,
        )
        for index in partitions
    ]
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=facts.cluster(cluster),
        replica_id=replica,
        max_bytes=1 << 20,
        topics=[fetch_snapshot.RequestTopicSnapshot(name=topic, partitions=wanted)],
    )


# -- voters ------------------------------------------------------------------------------------------------------------

KNOWN: Mapping[str, Any] = {"voter": SELF, "directory": None}
ADDED: Changes = {
    "of another cluster": {"cluster": "another"},
    "that is known": KNOWN,
    "that is known, of any cluster": {"cluster": None, **KNOWN},
    "that is known with another directory": {"voter": SELF},
    "without a directory": {"directory": NO_DIRECTORY},
    "-1": {"voter": -1},
    "without listeners": {"listeners": ()},
    "with another listener": {"listeners": ELSEWHERE},
    "that is not reached": {},
}


def _added(
    facts: QuorumFacts,
    version: int,
    *,
    cluster: str | None = OWN_CLUSTER,
    voter: int = OTHER,
    directory: bytes | None = OTHER_DIRECTORY,
    listeners: tuple[tuple[str, str, int], ...] = NOWHERE,
) -> Request:
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=facts.cluster(cluster),
        timeout_ms=500,
        voter_id=voter,
        voter_directory_id=facts.directory_id if directory is None else directory,
        listeners=[add_raft_voter.Listener(name=name, host=host, port=port) for name, host, port in listeners],
    )


REMOVED: Changes = {
    "of another cluster": {"cluster": "another"},
    "that is unknown": {"voter": OTHER, "directory": OTHER_DIRECTORY},
    "with another directory": {"directory": OTHER_DIRECTORY},
    "without a directory": {"directory": NO_DIRECTORY},
    "-1": {"voter": -1},
    "that is the last": {},
    "that is the last, of any cluster": {"cluster": None},
}


def _removed(
    facts: QuorumFacts,
    version: int,
    *,
    cluster: str | None = OWN_CLUSTER,
    voter: int = SELF,
    directory: bytes | None = None,
) -> Request:
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=facts.cluster(cluster),
        voter_id=voter,
        voter_directory_id=facts.directory_id if directory is None else directory,
    )


UPDATED: Changes = {
    "of another cluster": {"cluster": "another"},
    "that is unknown": {"voter": OTHER, "directory": OTHER_DIRECTORY},
    "with another directory": {"directory": OTHER_DIRECTORY},
    "without a directory": {"directory": NO_DIRECTORY},
    "-1": {"voter": -1},
    "without listeners": {"listeners": ()},
    "with another listener": {"listeners": ELSEWHERE},
    "that supports no dynamic voters": {"levels": (0, 0)},
    "with levels in disorder": {"levels": (1, 0)},
    **EPOCHS,
}


def _updated(
    facts: QuorumFacts,
    version: int,
    *,
    cluster: str | None = OWN_CLUSTER,
    epoch: int = 0,
    voter: int = SELF,
    directory: bytes | None = None,
    listeners: tuple[tuple[str, str, int], ...] = NOWHERE,
    levels: tuple[int, int] = (0, 1),
) -> Request:
    feature = update_raft_voter.KRaftVersionFeature(min_supported_version=levels[0], max_supported_version=levels[1])
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=facts.cluster(cluster),
        current_leader_epoch=facts.epoch + epoch,
        voter_id=voter,
        voter_directory_id=facts.directory_id if directory is None else directory,
        listeners=[update_raft_voter.Listener(name=name, host=host, port=port) for name, host, port in listeners],
        kraft_version_feature=feature,
    )


# -- elections ---------------------------------------------------------------------------------------------------------

RECEIVERS: Changes = {
    "to another voter": {"voter": OTHER},
    "to a voter with another directory": {"directory": OTHER_DIRECTORY},
    "to any directory": {"directory": NO_DIRECTORY},
}
VOTES: Changes = {
    "in this epoch": {},
    "of candidate -1": {"candidate": -1},
    "of the voter itself": {"candidate": SELF},
    "of a log below zero": {"last": (-1, -1)},
    "of a log of a later epoch": {"last": (LATE, 5)},
    "of an empty log": {"last": (0, 0)},
    **RECEIVERS,
    **ABOUT,
    "in a stale epoch": {"epoch": -1},
}


def _voted(
    facts: QuorumFacts,
    version: int,
    *,
    epoch: int = 0,
    candidate: int = OTHER,
    voter: int = SELF,
    directory: bytes | None = None,
    last: tuple[int, int] = (0, FAR),
    cluster: str | None = OWN_CLUSTER,
    topic: str = METADATA,
    partitions: tuple[int, ...] = (0,),
    is_pre_vote: bool = False,
) -> Request:
    wanted = [
        vote.RequestPartitionData(
            partition_index=index,
            replica_epoch=facts.epoch + epoch,
            replica_id=candidate,
            replica_directory_id=facts.directory_id if candidate == SELF else OTHER_DIRECTORY,
            voter_directory_id=facts.directory_id if directory is None else directory,
            last_offset_epoch=last[0],
            last_offset=last[1],
            pre_vote=is_pre_vote,
        )
        for index in partitions
    ]
    topics = [vote.RequestTopicData(topic_name=topic, partitions=wanted)]
    return vote.VoteRequest(cluster_id=facts.cluster(cluster), voter_id=voter, topics=topics)


BEGUN: Changes = {
    "of the leader itself": {},
    "of leader -1": {"leader": -1},
    "without endpoints": {"has_endpoints": False},
    **RECEIVERS,
    **ABOUT,
    "in a stale epoch": {"epoch": -1},
}


def _begun(
    facts: QuorumFacts,
    version: int,
    *,
    epoch: int = 0,
    leader: int = SELF,
    voter: int = SELF,
    directory: bytes | None = None,
    cluster: str | None = OWN_CLUSTER,
    topic: str = METADATA,
    partitions: tuple[int, ...] = (0,),
    has_endpoints: bool = True,
) -> Request:
    wanted = [
        begin_quorum_epoch.RequestPartitionData(
            partition_index=index,
            voter_directory_id=facts.directory_id if directory is None else directory,
            leader_id=leader,
            leader_epoch=facts.epoch + epoch,
        )
        for index in partitions
    ]
    endpoint = begin_quorum_epoch.LeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=1)
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=facts.cluster(cluster),
        voter_id=voter,
        topics=[begin_quorum_epoch.RequestTopicData(topic_name=topic, partitions=wanted)],
        leader_endpoints=[endpoint] if has_endpoints else [],
    )


ENDED: Changes = {
    "of the leader itself": {},
    "of leader -1": {"leader": -1},
    **ABOUT,
    "in a stale epoch": {"epoch": -1},
}


def _ended(
    facts: QuorumFacts,
    version: int,
    *,
    epoch: int = 0,
    leader: int = SELF,
    cluster: str | None = OWN_CLUSTER,
    topic: str = METADATA,
    partitions: tuple[int, ...] = (0,),
) -> Request:
    candidate = end_quorum_epoch.ReplicaInfo(candidate_id=SELF, candidate_directory_id=facts.directory_id)
    wanted = [
        end_quorum_epoch.RequestPartitionData(
            partition_index=index,
            leader_id=leader,
            leader_epoch=facts.epoch + epoch,
            preferred_successors=[SELF],
            preferred_candidates=[candidate],
        )
        for index in partitions
    ]
    topics = [end_quorum_epoch.RequestTopicData(topic_name=topic, partitions=wanted)]
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=facts.cluster(cluster), topics=topics)
