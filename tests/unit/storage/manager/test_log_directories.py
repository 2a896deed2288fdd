"""Data directories: made, locked, identified, and refused when they are somebody else's."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from support.logs.managers import IDENTITY, P0, ManagedWorld, broker_config
from tailrace.config.broker import BrokerConfig
from tailrace.env.real import real_env
from tailrace.model.errors import (
    DuplicateLogDirError,
    ForeignLogDirError,
    LogDirLockedError,
    LogDirNotFoundError,
    LogDirUnavailableError,
    NoLiveLogDirError,
)
from tailrace.model.ids import DirectoryId
from tailrace.storage.manager.log_directories import LogDirectories, NodeIdentity
from tailrace.storage.manager.meta_properties import MetaProperties, new_directory_id

KAFKAS = b"""#
#Sun Nov 15 09:09:15 UTC 2026
node.id=1
directory.id=tuacqoTjB3mTQZiJ6MPutw
version=1
cluster.id=uViM5VGiQUWqVVgvr1gYxQ
"""
LOCKER = """
import sys
from tailrace.config.broker import BrokerConfig
from tailrace.env.real import real_env
from tailrace.storage.manager.log_directories import LogDirectories, NodeIdentity
directories = LogDirectories(real_env(), BrokerConfig(log_dirs=(sys.argv[1],)), NodeIdentity("c", 1))
directories.open()
print("locked", flush=True)
sys.stdin.readline()
"""


def real_directories(*paths: Path, cordoned: tuple[str, ...] = ()) -> LogDirectories:
    config = BrokerConfig(log_dirs=tuple(map(str, paths)), cordoned_log_dirs=cordoned)
    return LogDirectories(real_env(), config, NodeIdentity("c", 1))


# -- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-32")
def test_missing_directories_are_made_durably() -> None:
    run = ManagedWorld(("/deep/er/a", "/b"))
    run.start()
    run.restart(power=True)
    assert "meta.properties" in run.names("/deep/er/a")


@pytest.mark.spec("LM-01", "LM-32")
def test_duplicates_are_found_by_canonical_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(DuplicateLogDirError, match="one directory"):
        real_directories(tmp_path / "a", tmp_path / "link").open()
    real_directories(tmp_path / "a").open()  # nothing was left locked


@pytest.mark.spec("LM-01")
def test_duplicates_on_the_simulated_disk() -> None:
    run = ManagedWorld(("/a", "/a/./"))
    with pytest.raises(DuplicateLogDirError):
        run.start()


@pytest.mark.spec("LM-32")
@pytest.mark.parametrize("op", ["make_dir", "list", "sync_dir", "create", "rename"])
def test_a_failing_directory_goes_offline_and_the_start_goes_on(op: str) -> None:
    run = ManagedWorld()
    run.disk.fail_next(op, lambda path: path.startswith("/a"), times=None)  # type: ignore[arg-type]
    if op == "sync_dir":
        run.disk.faults.heal()
        run.disk.fail_next("sync_dir", "/a", times=None)
    run.start()
    assert run.has_started
    assert [directory.path for directory in run.manager.directories.live] == ["/b"]
    assert run.create(P0, is_new=True).dir == "/b/orders-0"


@pytest.mark.spec("LM-27", "LM-32")
def test_all_failing_stops_the_start() -> None:
    run = ManagedWorld()
    run.disk.fail_next("make_dir", times=None)
    with pytest.raises(NoLiveLogDirError, match=r"/a.*; .*/b"):
        run.start()


def test_a_file_in_the_place_of_a_directory() -> None:
    run = ManagedWorld()
    run.write("/a", b"")
    run.start()
    assert [directory.path for directory in run.manager.directories.offline] == ["/a"]


def test_directories_are_found_by_path_and_id() -> None:
    run = ManagedWorld()
    manager = run.start()
    a = manager.directories.at("/a/")
    assert a.id is not None
    assert manager.directories.with_id(a.id) is a
    with pytest.raises(LogDirNotFoundError) as refused:
        manager.directories.at("/c")
    assert refused.value.code == 57
    with pytest.raises(LogDirNotFoundError):
        manager.directories.with_id(DirectoryId(bytes(16)))


def test_placement_by_count() -> None:
    directories = LogDirectories(real_env(), broker_config(("/a", "/b", "/c")), IDENTITY)
    assert directories.for_new_partition({"/a": 3, "/b": 2, "/c": 2}).path == "/b"
    directories.at("/b").is_cordoned = True
    assert directories.for_new_partition({"/a": 3, "/b": 2, "/c": 2}).path == "/c"
    for directory in directories:
        directory.is_cordoned = True
    with pytest.raises(LogDirUnavailableError):
        directories.for_new_partition({})


# -- the lock --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-01")
def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LogDirLockedError, match="first"):
            real_directories(second, first).open()
        real_directories(second).open()  # it was given back
        other.kill()
        other.wait()
    real_directories(first).open()  # a killed process holds nothing


@pytest.mark.spec("LM-01")
def test_a_second_manager_in_one_process_is_refused() -> None:
    run = ManagedWorld()
    run.start()
    run.new()
    with pytest.raises(LogDirLockedError):
        run.start()


@pytest.mark.spec("LM-01")
def test_the_lock_ends_with_shutdown_and_with_the_process() -> None:
    run = ManagedWorld()
    run.start()
    run.shutdown()
    run.new()
    run.start()
    run.restart()
    assert run.has_started


def test_a_disk_that_refuses_the_lock() -> None:
    run = ManagedWorld()
    run.disk.fail_next("create", "/a/.lock", errno.EIO)
    run.start()
    assert [directory.path for directory in run.manager.directories.live] == ["/b"]


# -- meta.properties -------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-03")
def test_written_as_kafka_writes_it() -> None:
    run = ManagedWorld()
    run.world.clock.set(1_794_733_755_000)
    MetaProperties("uViM5VGiQUWqVVgvr1gYxQ", 1, DirectoryId.parse("tuacqoTjB3mTQZiJ6MPutw")).write(
        run.disk, "/meta.properties", run.world.clock.now_ms()
    )
    assert run.read("/meta.properties") == KAFKAS


@pytest.mark.spec("LM-03")
def test_each_directory_keeps_an_id_of_its_own() -> None:
    run = ManagedWorld()
    run.start()
    ids = [directory.id for directory in run.manager.directories]
    assert len(set(ids)) == 2
    run.restart(power=True)
    assert [directory.id for directory in run.manager.directories] == ids


@pytest.mark.spec("LM-03")
@pytest.mark.parametrize("identity", [NodeIdentity("other", 1), NodeIdentity(IDENTITY.cluster_id, 2)])
def test_another_clusters_or_nodes_directory_is_refused(identity: NodeIdentity) -> None:
    run = ManagedWorld()
    run.start()
    before = run.read("/a/meta.properties")
    run.world.kill()
    run.new(identity=identity)
    with pytest.raises(ForeignLogDirError, match="belongs to"):
        run.start()
    assert run.read("/a/meta.properties") == before
    run.new()
    run.start()  # nothing was left locked


@pytest.mark.spec("LM-03")
def test_one_id_twice_is_refused() -> None:
    run = ManagedWorld()
    run.start()
    run.world.kill()
    run.write("/b/meta.properties", run.read("/a/meta.properties"))
    run.new()
    with pytest.raises(ForeignLogDirError, match="same id"):
        run.start()


@pytest.mark.spec("LM-03")
def test_a_file_without_an_id_is_given_one() -> None:
    run = ManagedWorld(("/a",))
    run.disk.make_dir("/a")
    run.write("/a/meta.properties", b"version=1\nnode.id : 1\ncluster.id uViM5VGiQUWqVVgvr1gYxQ\n")
    run.start()
    stored = MetaProperties.read(run.disk, "/a/meta.properties")
    assert stored == MetaProperties(*IDENTITY, run.manager.directories.at("/a").id)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"version=0\nbroker.id=1\n",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=x\nnode.id=-1\n",
        b"version=1\ncluster.id=x\nnode.id=99999999999\n",
        b"version=1\ncluster.id=uViM5VGiQUWqVVgvr1gYxQ\nnode.id=1\ndirectory.id=short\n",
        b"x" * (1 << 17),
    ],
)
def test_a_damaged_file_takes_its_directory_offline(content: bytes) -> None:
    run = ManagedWorld()
    run.start()
    run.world.kill()
    run.write("/a/meta.properties", content)
    run.new()
    run.start()
    assert [directory.path for directory in run.manager.directories.offline] == ["/a"]
    assert run.read("/a/meta.properties") == content


def test_escapes_are_read_and_written() -> None:
    run = ManagedWorld()
    meta = MetaProperties("a=b:c#d\\e", 5, DirectoryId(bytes(range(16))))
    meta.write(run.disk, "/meta.properties", 0)
    assert MetaProperties.read(run.disk, "/meta.properties") == meta


def test_no_id_that_a_command_line_misreads() -> None:
    class Dice:
        def __init__(self) -> None:
            self.numbers = [5, 0xF8 << 120, 1 << 100, 2 << 100]  # reserved, begins with a dash, taken, good

        def getrandbits(self, bits: int) -> int:
            return self.numbers.pop(0)

    taken = DirectoryId((1 << 100).to_bytes(16, "big"))
    assert new_directory_id(Dice(), {taken}) == DirectoryId((2 << 100).to_bytes(16, "big"))  # type: ignore[arg-type]
