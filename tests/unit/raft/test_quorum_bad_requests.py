"""Any values in requests of the quorum: a response or a typed error, and a quorum that goes on."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.quorum import QuorumWorld
from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.protocol.apis import APIS
from tailrace.protocol.codec import decode, encode
from tailrace.raft.consensus import ReplicaKey
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter
from tailrace.raft.wire import QuorumAddress, ask

NUMBERS = (-(2**31), -1, 0, 1, 2, 3, 2**31 - 2, 2**31 - 1)
OFFSETS = (*NUMBERS, -(2**63), 2**63 - 1)
VERSIONS = {1: 18, 52: 2, 53: 1, 54: 1, 59: 1, 80: 1, 81: 0, 82: 0}

numbers = st.sampled_from(NUMBERS)
offsets = st.sampled_from(OFFSETS)
directories = st.sampled_from([ZERO_DIRECTORY_ID, DirectoryId(bytes([2] * 16))])
keys = st.builds(ReplicaKey, numbers, directories)
endpoints = st.lists(
    st.builds(QuorumEndpoint, st.sampled_from(["CONTROLLER", "", "x"]), st.text(max_size=3), st.integers(0, 65535)),
    max_size=2,
).map(tuple)
voters = st.builds(Voter, numbers, directories, endpoints)
requests = st.one_of(
    st.builds(ms.VoteRequest, numbers, keys, keys, numbers, offsets, st.booleans()),
    st.builds(ms.BeginQuorumEpochRequest, numbers, numbers, keys, endpoints),
    st.builds(ms.EndQuorumEpochRequest, numbers, numbers, st.lists(keys, max_size=3).map(tuple), endpoints),
    st.builds(ms.FetchRequest, keys, numbers, offsets, numbers, offsets, numbers),
    st.builds(ms.FetchSnapshotRequest, keys, numbers, st.builds(SnapshotId, offsets, numbers), offsets, numbers),
    st.builds(ms.AddRaftVoterRequest, voters, st.booleans()),
    st.builds(ms.RemoveRaftVoterRequest, keys),
    st.builds(ms.UpdateRaftVoterRequest, numbers, voters, st.integers(-2, 2), st.integers(-2, 2)),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(requests, min_size=1, max_size=20), st.booleans())
def test_no_request_harms_a_quorum_of_one(sent: list[ms.InboundRequest], is_standalone: bool) -> None:
    rig = QuorumWorld(standalone=is_standalone)
    quorum = rig.start()
    epoch = quorum.epoch
    address = QuorumAddress(rig.format().cluster_id, "CONTROLLER")
    for request in sent:
        message = ask(request, address, 1 << 20, 1000)
        version = VERSIONS[message.KEY]
        answers: list[Any] = []
        arrived = decode(type(message), version, encode(message, version))
        forget = quorum.handle(arrived, version, "CONTROLLER", answers.append)
        rig.jobs.run_all()
        assert len(answers) <= 1
        for answer in answers:
            assert type(answer) is APIS[message.KEY].response
            encode(answer, version)
        forget()
    assert rig.memory.failures == []
    assert (quorum.is_leader, quorum.epoch) == (True, epoch)
    rig.append("after")
    rig.jobs.run_all()
    assert rig.memory.names == ["after"]
    assert rig.stop()
