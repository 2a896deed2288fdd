"""Opening only some of the partitions, as tools do."""

from __future__ import annotations

import pytest

from support.logs.managers import P0, P1, ManagedWorld
from tailrace.storage.cleaner.checkpoints import CleanerCheckpoints

CLEANER_FILE = "/a/cleaner-offset-checkpoint"


@pytest.fixture
def managed() -> ManagedWorld:
    """`P0` and `P1` in one directory, with some records."""
    managed = ManagedWorld(("/a",))
    managed.start()
    for partition in (P0, P1):
        managed.create(partition)
        managed.append(partition, 5)
        managed.flush(partition)
    return managed


def restart_with_p0(managed: ManagedWorld) -> None:
    managed.new()
    managed.start(is_wanted=lambda partition: partition == P0)


@pytest.mark.spec("LM-38")
def test_the_others_stay_closed_and_what_is_known_of_them_stays(managed: ManagedWorld) -> None:
    managed.write(CLEANER_FILE, b"0\n3\norders 0 1\norders 1 2\ngone 0 3\n")
    managed.shutdown()
    restart_with_p0(managed)
    assert managed.manager.partitions() == [P0]
    assert managed.manager.unloadable == {}
    checkpoints = CleanerCheckpoints(managed.manager._store)
    checkpoints.read(managed.manager.directories.at("/a"))
    assert [checkpoints.get("/a", each) for each in (P0, P1)] == [1, 2]
    managed.shutdown()
    lines = managed.read("/a/recovery-point-offset-checkpoint").decode().splitlines()
    assert sorted(lines[2:]) == ["orders 0 5", "orders 1 5"]
    assert ".kafka_cleanshutdown" in managed.names("/a"), "it was shut down cleanly before"


@pytest.mark.spec("LM-38")
def test_after_a_crash_there_is_no_marker_while_others_are_not_recovered(managed: ManagedWorld) -> None:
    managed.world.kill()
    restart_with_p0(managed)
    managed.shutdown()
    assert ".kafka_cleanshutdown" not in managed.names("/a")
    managed.new()
    managed.start()
    managed.shutdown()
    assert ".kafka_cleanshutdown" in managed.names("/a")
