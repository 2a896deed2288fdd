"""What is found in data directories, formatted or not, and that looking changes nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from golden.formatted import GOLDEN, SHAPES
from support.metadata.quorum import DIRECTORY, ENDPOINTS, LOG_DIRECTORY
from tailrace.env import Mode, write_fully
from tailrace.env.real import RealFiles
from tailrace.raft.format import FIRST_SNAPSHOT, format_directories
from tailrace.raft.inspection import DirectoryState, Inspection, inspect_directories
from tailrace.sim import World
from tailrace.storage.manager.meta_properties import MetaProperties


def found(world: World, *directories: str, node_id: int = 1) -> Inspection:
    return inspect_directories(world.disk, directories, DIRECTORY, node_id)


def texts(inspection: Inspection) -> list[str]:
    assert all(problem.hint for problem in inspection.problems)
    return [problem.text for problem in inspection.problems]


@pytest.mark.parametrize("name", SHAPES)
def test_kafkas_directories_are_understood(name: str) -> None:
    node_id = int(SHAPES[name].properties["node.id"])
    directories = sorted(str(path) for path in (GOLDEN / name).iterdir())
    inspection = inspect_directories(RealFiles(), directories, directories[-1 if name[0] == "m" else 0], node_id)
    assert inspection.problems == ()
    assert [each.path for each in inspection.directories] == directories
    assert inspection.meta is not None
    assert inspection.meta.node_id == node_id
    assert inspection.beginning is not None
    assert inspection.beginning.features["metadata.version"] == {"release": 21, "features": 25}.get(name, 30)
    voters = inspection.beginning.head.voters if inspection.beginning.head is not None else ()
    expected = {"joining": [], "broker": [], "static": [], "release": []}
    assert [voter.node_id for voter in voters] == expected.get(name, [1, 2, 3] if name.startswith("con") else [1])


def test_directories_that_are_not_formatted_are_named() -> None:
    world = World(directories=(DIRECTORY, "/empty"))
    format_directories(world.env, [], DIRECTORY, 1, standalone=ENDPOINTS)
    world.disk.open("/file", Mode.REPLACE).close()
    operations = world.disk.ops
    inspection = found(world, "/missing", "/file", "/empty")
    assert world.disk.ops == operations
    states = {each.path: each.state for each in inspection.directories}
    assert states == {
        DIRECTORY: DirectoryState.FORMATTED,
        "/empty": DirectoryState.NOT_FORMATTED,
        "/file": DirectoryState.NOT_A_DIRECTORY,
        "/missing": DirectoryState.MISSING,
    }
    assert texts(inspection) == ["/empty is not formatted", "/file is not a directory", "/missing does not exist"]
    assert inspection.mismatches == ()


def test_mismatched_ids_are_problems() -> None:
    world = World()
    format_directories(world.env, ["/data/a"], DIRECTORY, 1, cluster_id="ours")
    first = MetaProperties.read(world.disk, f"{DIRECTORY}/meta.properties")
    assert first is not None
    MetaProperties("other", 2, first.directory_id).write(world.disk, "/data/a/meta.properties", 0)
    inspection = found(world, "/data/a")
    assert texts(inspection) == [
        "/data/a belongs to cluster other, and /data to cluster ours",
        "/data/a belongs to node 2, not 1",
        f"/data/a has the directory id of /data, {first.directory_id}",
    ]
    assert inspection.mismatches == inspection.problems
    assert texts(found(world, node_id=7)) == ["/data belongs to node 1, not 7"]


def test_damaged_and_unreadable_files_are_problems() -> None:
    world = World()
    format_directories(world.env, ["/data/a"], DIRECTORY, 1, standalone=ENDPOINTS)
    write_fully(world.disk.open("/data/a/meta.properties", Mode.REPLACE), (b"version=0\nbroker.id=1\n",), 0)
    inspection = found(world, "/data/a")
    assert inspection.directories[1].state is DirectoryState.UNREADABLE
    assert texts(inspection) == ["/data/a/meta.properties has version '0', not 1"]
    world.disk.faults.fail_next("open", f"{DIRECTORY}/meta.properties", errno.EIO)
    inspection = found(world)
    assert inspection.beginning is None
    assert "/data" in texts(inspection)[0]
    world.disk.open(f"{LOG_DIRECTORY}/{FIRST_SNAPSHOT.name}", Mode.WRITE).truncate(20)
    inspection = found(world)
    assert inspection.directories[0].state is DirectoryState.FORMATTED
    assert inspection.beginning is None
    assert FIRST_SNAPSHOT.name in texts(inspection)[0]


def test_first_files_that_cannot_be_opened_are_problems() -> None:
    world = World()
    format_directories(world.env, [], DIRECTORY, 1, standalone=ENDPOINTS)
    world.disk.faults.fail_next("open", f"{DIRECTORY}/bootstrap.checkpoint", errno.EACCES)
    inspection = found(world)
    assert inspection.meta is not None
    assert inspection.beginning is None
    assert "bootstrap.checkpoint" in texts(inspection)[0]


def test_what_the_log_no_longer_has_is_not_a_problem(tmp_path: Path) -> None:
    world = World()
    format_directories(world.env, [], DIRECTORY, 1, standalone=ENDPOINTS)
    world.disk.unlink(f"{LOG_DIRECTORY}/{FIRST_SNAPSHOT.name}")
    world.disk.unlink(f"{DIRECTORY}/bootstrap.checkpoint")
    inspection = found(world)
    assert inspection.problems == ()
    assert inspection.beginning == ({}, None)
