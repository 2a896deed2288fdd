"""A quorum over damaged files: it starts, or says why not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.quorum import DIRECTORY, LOG_DIRECTORY, QuorumWorld
from tailrace.model.ids import DirectoryId
from tailrace.raft.snapshot import SnapshotId, SnapshotReader

SMALL = {"internal_metadata_log_segment_bytes": 600}


def filled() -> dict[str, bytes]:
    rig = QuorumWorld(standalone=True, **SMALL)
    rig.start()
    for n in range(8):
        rig.append(f"topic-{n}", f"other-{n}")
        rig.jobs.run_all()
        if n == 4:
            rig.snapshot()
            rig.jobs.run_all()
    rig.world.kill()
    return {name: rig.read(name) for name in rig.files()}


FILLED = filled()


@settings(max_examples=examples(80))
@given(st.data())
def test_any_damage_is_a_start_or_a_typed_error(data: st.DataObject) -> None:
    rig = QuorumWorld(standalone=True, **SMALL)
    rig.format()
    files = dict(FILLED)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(files)))
        damaged = bytearray(files[name])
        if damaged and data.draw(st.booleans()):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        else:
            del damaged[data.draw(st.integers(0, len(damaged))) :]
        files[name] = bytes(damaged)
    for name, content in files.items():
        rig.write(f"{LOG_DIRECTORY}/{name}", content)
    rig.start(directory_id=_voter_in(FILLED[SnapshotId(0, 0).name]))
    assert rig.is_ready or rig.memory.failures


@pytest.mark.parametrize(
    "name", [f"{2**63 - 1:020d}-0000000001", f"{2**63 - 2:020d}-{2**31 - 1:010d}", "9" * 20 + "-1"]
)
def test_a_snapshot_with_an_impossible_name(name: str) -> None:
    rig = QuorumWorld(standalone=True, **SMALL)
    rig.start()
    rig.stop()
    rig.write(f"{LOG_DIRECTORY}/{name}.checkpoint", FILLED[SnapshotId(0, 0).name])
    rig.start(directory_id=_voter_in(FILLED[SnapshotId(0, 0).name]))
    assert rig.is_ready or rig.memory.failures


def _voter_in(data: bytes) -> DirectoryId:
    rig = QuorumWorld()
    rig.write(f"{DIRECTORY}/x", data)
    return SnapshotReader(rig.disk, f"{DIRECTORY}/x").head().voters[0].directory_id
