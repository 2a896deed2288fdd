"""Formatting data directories: Kafka's files, one cluster id, nobody else's directories."""

from __future__ import annotations

import errno
import random
import re
from pathlib import Path
from typing import Any

import pytest

from golden.formatted import THREE_CONTROLLERS
from support.metadata.quorum import DIRECTORY, ENDPOINTS, LOG_DIRECTORY, QuorumWorld
from tailrace.config.broker import BrokerConfig
from tailrace.config.table import ConfigError
from tailrace.env import Env, InlineJobs, Mode, write_fully
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptCheckpointError, ForeignLogDirError, LogDirLockedError, StorageError
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.bootstrap import feature_records, read_bootstrap_records
from tailrace.raft.format import FIRST_SNAPSHOT, Formatted, format_directories
from tailrace.raft.initial_controllers import initial_controllers
from tailrace.raft.snapshot import SnapshotHead, SnapshotReader
from tailrace.raft.voters import QuorumEndpoint, Voter
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.sim.clock import SimClock
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.manager.log_directories import LogDirectories, NodeIdentity
from tailrace.storage.manager.meta_properties import MetaProperties

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1-quorum"
CONTROLLERS = initial_controllers(THREE_CONTROLLERS, "CONTROLLER")
KAFKAS_FEATURES = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def formatted(world: World, directories: list[str] | None = None, **options: Any) -> Formatted:
    return format_directories(world.env, directories or [DIRECTORY], DIRECTORY, 1, **options)


def meta(world: World, directory: str = DIRECTORY) -> MetaProperties:
    found = MetaProperties.read(world.disk, f"{directory}/meta.properties")
    assert found is not None
    return found


@pytest.mark.spec("RP-26")
def test_a_cluster_id_is_made_once_and_kept() -> None:
    ids = set()
    for seed in range(50):
        world = World(seed, directories=())
        found = formatted(world, ["/a", "/b"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]{22}", found.cluster_id)
        for directory in ("/a", "/b", DIRECTORY):
            assert meta(world, directory).cluster_id == found.cluster_id
        world.restart()
        assert formatted(world, ["/a", "/b", "/new"]) == found
        assert meta(world, "/new").cluster_id == found.cluster_id
        ids.add(found.cluster_id)
    assert len(ids) == 50


@pytest.mark.spec("RP-26")
@pytest.mark.parametrize("given", ["", "x" * 23, "AAAAAAAAAAAAAAAAAAAAAA==", "a b", "a/b", "é"])
def test_a_bad_cluster_id_is_refused(given: str) -> None:
    world = World()
    with pytest.raises(ConfigError, match="cluster id"):
        formatted(world, cluster_id=given)
    assert world.disk.list(DIRECTORY) == []


@pytest.mark.spec("RP-26")
def test_a_given_cluster_id_is_taken() -> None:
    world = World()
    assert formatted(world, cluster_id="my-cluster_1").cluster_id == "my-cluster_1"
    assert meta(world).cluster_id == "my-cluster_1"


def test_an_existing_directory_is_left_as_it_is() -> None:
    world = World()
    found = formatted(world)
    before = {entry.name: world.disk.modified_ms(f"{DIRECTORY}/{entry.name}") for entry in world.disk.list(DIRECTORY)}
    assert before.keys() == {".lock", "meta.properties", "bootstrap.checkpoint"}
    world.clock.advance(1000)
    assert formatted(world, standalone=ENDPOINTS) == found
    after = {entry.name: world.disk.modified_ms(f"{DIRECTORY}/{entry.name}") for entry in world.disk.list(DIRECTORY)}
    assert after == before


@pytest.mark.parametrize("name", ["static", "dynamic", "formatted-standalone"])
def test_kafkas_directories_are_taken_as_they_are(name: str) -> None:
    env = Env(files=RealFiles(), clock=SimClock(), jobs=InlineJobs(), random=random.Random(0))
    path = str(GOLDEN / name)
    of_kafka = MetaProperties.read(env.files, f"{path}/meta.properties")
    assert of_kafka is not None
    assert of_kafka.directory_id is not None
    found = format_directories(env, [path], path, 1)
    assert found == (of_kafka.cluster_id, 1, of_kafka.directory_id)


def test_bootstrap_records_are_kafkas_bytes() -> None:
    """With Kafka's times and features, every byte of the file that its tool writes."""
    world = World()
    data = (GOLDEN / "static" / "bootstrap.checkpoint").read_bytes()
    formatted(world, features=KAFKAS_FEATURES)
    file = world.disk.open(f"{DIRECTORY}/bootstrap.checkpoint", Mode.READ)
    ours = file.read_at(file.size(), 0)
    pairs = list(zip(batches(ours), batches(data), strict=True))
    assert len(pairs) == 3
    for mine, theirs in pairs:
        assert mine._replace(crc=0, base_timestamp=0, max_timestamp=0) == theirs._replace(
            crc=0, base_timestamp=0, max_timestamp=0
        )
        records = slice(mine.position + HEADER_BYTES, mine.position + mine.size)
        assert ours[records] == data[records]


def test_what_kafka_formatted_is_what_a_standalone_gets() -> None:
    """The voters' record aside, which has an id of its own."""
    world = World()
    found = formatted(world, standalone=[QuorumEndpoint("CONTROLLER", "127.0.0.1", 21193)])
    name = "00000000000000000000-0000000000.checkpoint"
    mine = SnapshotReader(world.disk, f"{LOG_DIRECTORY}/{name}")
    theirs = SnapshotReader(RealFiles(), str(GOLDEN / "formatted-standalone" / "__cluster_metadata-0" / name))
    voter = Voter(1, found.directory_id, (QuorumEndpoint("CONTROLLER", "127.0.0.1", 21193),))
    assert mine.head() == SnapshotHead(world.clock.now_ms(), 1, (voter,))
    assert theirs.head().voters[0].endpoints == voter.endpoints
    assert list(mine.records()) == list(theirs.records()) == []


def test_every_directory_gets_what_is_needed() -> None:
    world = World()
    formatted(world, ["/a", DIRECTORY], standalone=ENDPOINTS)
    assert [entry.name for entry in world.disk.list("/a")] == [".lock", "bootstrap.checkpoint", "meta.properties"]
    assert world.disk.exists(LOG_DIRECTORY)
    assert meta(world, "/a").directory_id != meta(world).directory_id


def test_the_log_manager_takes_what_was_formatted() -> None:
    world = World()
    found = formatted(world, ["/a"])
    directories = LogDirectories(
        world.env, BrokerConfig(log_dirs=("/a", DIRECTORY)), NodeIdentity(found.cluster_id, found.node_id)
    )
    directories.open()
    assert [directory.id for directory in directories] == [meta(world, "/a").directory_id, meta(world).directory_id]


def test_the_features_of_a_new_cluster() -> None:
    world = World()
    formatted(world, features={"group.version": 1, "share.version": 0})
    records = read_bootstrap_records(world.disk, DIRECTORY)
    assert [(r.name, r.feature_level) for r, _ in records if isinstance(r, FeatureLevelRecord)] == [
        ("metadata.version", 30),
        ("group.version", 1),
    ]
    assert read_bootstrap_records(world.disk, "/nowhere") == feature_records({})
    assert len(feature_records({})) == 1


def test_directories_of_others_are_refused() -> None:
    world = World()
    formatted(world)
    with pytest.raises(ForeignLogDirError, match="belongs to node 1, not 2"):
        format_directories(world.env, [DIRECTORY], DIRECTORY, 2)
    with pytest.raises(ForeignLogDirError, match="belongs to cluster"):
        formatted(world, cluster_id="another")
    other = MetaProperties("another", 1, meta(world).directory_id)
    world.disk.make_dir("/other")
    other.write(world.disk, "/other/meta.properties", 0)
    with pytest.raises(ForeignLogDirError, match="/other belongs to cluster another"):
        formatted(world, ["/other"])


def test_a_metadata_log_without_owner_is_refused() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.stop()
    rig.disk.unlink(f"{DIRECTORY}/meta.properties")
    with pytest.raises(ForeignLogDirError, match=r"no meta\.properties"):
        rig.format()


def test_no_cluster_id_is_made_while_a_directory_cannot_be_read() -> None:
    world = World(directories=())
    formatted(world, ["/a"])
    known = meta(world, "/a").cluster_id
    world.disk.unlink(f"{DIRECTORY}/meta.properties")
    world.disk.faults.fail_next("open", "/a/meta.properties", errno.EIO)
    with pytest.raises(StorageError, match="/a"):
        formatted(world, ["/a"])
    assert formatted(world, ["/a"]).cluster_id == known
    write_fully(world.disk.open("/a/meta.properties", Mode.REPLACE), (b"version=7\n",), 0)
    assert formatted(world, ["/a"]).cluster_id == known  # the log manager takes /a offline
    with pytest.raises(CorruptCheckpointError):
        format_directories(world.env, ["/a", DIRECTORY], "/a", 1)


def test_a_directory_that_another_process_holds_is_left_alone() -> None:
    world = World()
    lock = world.disk.lock(f"{DIRECTORY}/.lock")
    with pytest.raises(LogDirLockedError):
        formatted(world)
    lock.release()
    formatted(world)


def test_a_directory_from_before_directory_ids_gets_one() -> None:
    world = World()
    text = b"version=1\nnode.id=1\ncluster.id=uViM5VGiQUWqVVgvr1gYxQ\n"
    write_fully(world.disk.open(f"{DIRECTORY}/meta.properties", Mode.REPLACE), (text,), 0)
    found = formatted(world)
    assert found.cluster_id == "uViM5VGiQUWqVVgvr1gYxQ"
    assert meta(world).directory_id is not None
    assert not world.disk.exists(f"{DIRECTORY}/bootstrap.checkpoint")


@pytest.mark.spec("RP-26")
def test_power_lost_at_any_moment_leaves_one_that_can_be_formatted() -> None:
    def run(seed: int, crash_at: int | None) -> int:
        world = World(seed)
        world.disk.crash_at(crash_at)
        try:
            first = formatted(world, ["/data/a", "/data/b"], standalone=ENDPOINTS)
        except SimulatedCrash:
            world.restart()
            world.disk.crash_at(None)
            kept = [
                MetaProperties.read(world.disk, f"{directory}/meta.properties")
                for directory in ("/data", "/data/a", "/data/b")
            ]
            first = formatted(world, ["/data/a", "/data/b"], standalone=ENDPOINTS)
            assert {each.cluster_id for each in kept if each is not None} <= {first.cluster_id}
        world.restart()
        assert formatted(world, ["/data/a", "/data/b"]) == first
        assert len(read_bootstrap_records(world.disk, DIRECTORY)) == 1
        return world.disk.ops

    for seed in range(4):
        for crash_at in range(World(seed).disk.ops + 1, run(seed, None) + 1):
            run(seed, crash_at)


def test_initial_controllers_are_in_the_first_snapshot_of_every_node() -> None:
    for node_id in (1, 2, 3, 4):
        world = World(node_id)
        found = format_directories(world.env, ["/a"], DIRECTORY, node_id, initial_controllers=CONTROLLERS)
        head = SnapshotReader(world.disk, f"{LOG_DIRECTORY}/{FIRST_SNAPSHOT.name}").head()
        assert head == SnapshotHead(world.clock.now_ms(), 1, CONTROLLERS)
        ids = {voter.node_id: voter.directory_id for voter in CONTROLLERS}
        assert meta(world).directory_id == found.directory_id
        assert found.directory_id == ids.get(node_id, found.directory_id)
        assert (found.directory_id in ids.values()) is (node_id in ids)
        assert meta(world, "/a").directory_id not in ids.values()
        assert not world.disk.exists("/a/__cluster_metadata-0")


def test_a_quorum_of_one_initial_controller_elects_itself() -> None:
    rig = QuorumWorld()
    controller = CONTROLLERS[0]._replace(endpoints=ENDPOINTS)
    assert rig.format(initial_controllers=(controller,)).directory_id == controller.directory_id
    quorum = rig.start()
    assert quorum.is_leader
    assert rig.is_ready


def test_a_voters_directory_id_that_another_directory_has_is_refused() -> None:
    world = World()
    world.disk.make_dir("/a")
    MetaProperties("cluster", 1, CONTROLLERS[0].directory_id).write(world.disk, "/a/meta.properties", 0)
    with pytest.raises(ForeignLogDirError, match="is that of another directory"):
        formatted(world, ["/a"], initial_controllers=CONTROLLERS)
    assert not world.disk.exists(f"{DIRECTORY}/meta.properties")


def test_a_snapshot_without_owner_is_refused() -> None:
    world = World()
    world.disk.make_dir(LOG_DIRECTORY)
    world.disk.open(f"{LOG_DIRECTORY}/00000000000000000045-0000000001.checkpoint", Mode.REPLACE).close()
    with pytest.raises(ForeignLogDirError, match=r"no meta\.properties"):
        formatted(world)


def test_after_a_crash_directories_can_be_formatted_in_another_way() -> None:
    """Voters and features of a formatting that did not end are not those of the next one."""

    def run(crash_at: int | None) -> int:
        world = World(crash_at or 0)
        world.disk.crash_at(crash_at)
        try:
            formatted(world, ["/data/a"], initial_controllers=CONTROLLERS, features={"group.version": 1})
        except SimulatedCrash:
            world.restart()
            world.disk.crash_at(None)
            if not world.disk.exists(f"{DIRECTORY}/meta.properties"):
                formatted(world, ["/data/a"])
                assert len(read_bootstrap_records(world.disk, DIRECTORY)) == 1
                if world.disk.exists(LOG_DIRECTORY):
                    assert world.disk.list(LOG_DIRECTORY) == []
                world.restart()
                assert not world.disk.exists(f"{LOG_DIRECTORY}/{FIRST_SNAPSHOT.name}")
            else:
                found = formatted(world, ["/data/a"], initial_controllers=CONTROLLERS, features={"group.version": 1})
                assert found.directory_id == CONTROLLERS[0].directory_id
                world.restart()
                assert SnapshotReader(world.disk, f"{LOG_DIRECTORY}/{FIRST_SNAPSHOT.name}").head().voters == CONTROLLERS
        return world.disk.ops

    for crash_at in range(World().disk.ops + 1, run(None) + 1):
        run(crash_at)
