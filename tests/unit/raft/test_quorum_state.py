"""The file `quorum-state`: Kafka's bytes both ways, and bytes that are nobody's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.env import Mode, write_fully
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import DirectoryId
from tailrace.raft.quorum_state import QuorumState
from tailrace.sim import World

PATH = "/data/quorum-state"
GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1-quorum"
V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
V1 = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'


def written(data: bytes) -> World:
    world = World()
    file = world.disk.open(PATH, Mode.REPLACE)
    write_fully(file, (data,), 0)
    return world


@pytest.mark.parametrize(("name", "version"), [("static", 0), ("dynamic", 1)])
def test_what_kafka_wrote_is_read_and_written_the_same(name: str, version: int) -> None:
    path = GOLDEN / name / "__cluster_metadata-0" / "quorum-state"
    state = QuorumState.read(RealFiles(), str(path))
    assert state is not None
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (1, 1, -1)
    world = World()
    state.write(world.disk, PATH, version)
    file = world.disk.open(PATH, Mode.READ)
    assert file.read_at(file.size(), 0) == path.read_bytes()


def test_every_field_is_kept() -> None:
    assert QuorumState.read(written(V0).disk, PATH) == QuorumState(2, leader_id=1, voters=(1,))
    voted = DirectoryId.parse("J8aAPcfLQt2bqs1JT_rMgQ")
    assert QuorumState.read(written(V1).disk, PATH) == QuorumState(2, voted_id=1, voted_directory_id=voted)
    assert QuorumState.read(World().disk, PATH) is None


def test_a_state_without_voters_is_one() -> None:
    data = V0.replace(b'[{"voterId":1}]', b"null")
    assert QuorumState.read(written(data).disk, PATH) == QuorumState(2, leader_id=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"7",
        b"[" * 100_000,
        b"\xff\xfe",
        b"x" * (1 << 20) + b"x",
        V0.replace(b'"data_version":0', b'"data_version":2'),
        V0.replace(b'"data_version":0', b'"data_version":true'),
        V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":2147483648'),
        V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":-1'),
        V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":2.0'),
        V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":' + b"9" * 5000),
        V0.replace(b'"leaderId":1', b'"leaderId":"1"'),
        V0.replace(b'[{"voterId":1}]', b"[1]"),
        V0.replace(b'[{"voterId":1}]', b'{"voterId":1}'),
        V1.replace(b'"J8aAPcfLQt2bqs1JT_rMgQ"', b'"short"'),
        V1.replace(b'"J8aAPcfLQt2bqs1JT_rMgQ"', '"é"'.encode()),
        V1.replace(b'"J8aAPcfLQt2bqs1JT_rMgQ"', b"3"),
        V1.replace(b'"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ",', b""),
    ],
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match="quorum-state"):
        QuorumState.read(written(data).disk, PATH)


@settings(max_examples=examples(300))
@given(at=st.integers(0, len(V1) - 1), byte=st.integers(0, 255), length=st.integers(0, len(V1)))
@example(at=0, byte=0, length=0)
def test_any_bytes_are_a_state_or_a_typed_error(at: int, byte: int, length: int) -> None:
    data = bytearray(V1)
    data[at] = byte
    with suppress(CorruptCheckpointError):
        QuorumState.read(written(bytes(data[:length])).disk, PATH)
