"""Partitions that cannot be cleaned: set aside, tried again, healed, and told about."""

from __future__ import annotations

import errno
import json
from itertools import pairwise

import pytest

from support.compaction.cleaners import BACKOFF_MS, CleanedWorld
from support.logs.managers import LOG_CONFIG, P0, P1
from tailrace.env import Mode
from tailrace.model.errors import CorruptCheckpointError
from tailrace.storage.cleaner.uncleanable import (
    LONGEST_PAUSE_MS,
    UNCLEANABLE_FILE,
    Uncleanable,
    UncleanablePartitions,
    read_uncleanable,
)

FILE = f"/a/{UNCLEANABLE_FILE}"


def flip(run: CleanedWorld) -> None:
    """Damage one byte of the first segment's data, or mend it."""
    path = next(iter(run.log().local.segments)).records.path
    file = run.disk.open(path, Mode.WRITE)
    byte = file.read_at(1, 200)
    file.write_at((bytes([byte[0] ^ 1]),), 200)


def damaged() -> CleanedWorld:
    run = CleanedWorld()
    run.dirty(P0)
    run.dirty(P1)
    flip(run)
    return run


@pytest.mark.spec("LM-24", "LM-29")
def test_a_damaged_log_is_set_aside_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    run = damaged()
    before = run.read(next(iter(run.log().local.segments)).records.path)
    assert run.clean() == [P1]
    (entry,) = run.cleaner.uncleanable("/a").values()
    assert entry.failures == 1
    assert "CorruptMessageError" in entry.reason
    assert "orders-0" in entry.reason
    assert "cannot be cleaned" in caplog.text
    assert run.gauge("uncleanable-partitions-count") == {("/a",): 1}
    dirty = sum(segment.size for segment in list(run.log().local.segments)[:-1])
    assert run.gauge("uncleanable-bytes") == {("/a",): dirty}
    assert run.read(next(iter(run.log().local.segments)).records.path) == before
    assert not [name for name in run.names("/a/orders-0") if name.endswith(".cleaned")]


@pytest.mark.spec("LM-24")
def test_it_is_tried_again_after_pauses_that_grow_and_heals() -> None:
    run = damaged()
    began = run.world.clock.monotonic_ms()
    run.clean()
    attempts = [began]
    while len(attempts) < 5:
        run.pass_time(BACKOFF_MS)
        if run.cleaner.uncleanable("/a")[P0].failures > len(attempts):
            attempts.append(run.world.clock.monotonic_ms())
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS, 8 * BACKOFF_MS]
    flip(run)
    run.pass_time(16 * BACKOFF_MS)
    run.run()
    assert P0 in run.cleaned
    assert run.cleaner.uncleanable("/a") == {}
    assert run.gauge("uncleanable-partitions-count") == {("/a",): 0}
    assert UNCLEANABLE_FILE not in run.names("/a")


def test_a_partition_is_not_tried_while_it_must_wait() -> None:
    run = damaged()
    run.clean()
    for _ in range(3):
        run.clean()
    assert run.cleaner.uncleanable("/a")[P0].failures == 1


def test_the_longest_pause() -> None:
    run = CleanedWorld()
    uncleanable = UncleanablePartitions(run.world.env, BACKOFF_MS)
    pauses = [uncleanable.failed("/a", P0, ValueError("no")).pause_ms for _ in range(100)]
    assert pauses[:3] == [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS


@pytest.mark.spec("LM-24")
def test_the_reason_can_be_read_from_the_directory() -> None:
    run = damaged()
    run.clean()
    found = read_uncleanable(run.disk, "/a")
    assert found == dict(run.cleaner.uncleanable("/a"))
    document = json.loads(run.read(FILE))
    assert document["partitions"][0]["topic"] == "orders"
    assert found[P0].retry_at_ms == found[P0].failed_ms + BACKOFF_MS


def test_a_full_disk_passes_and_so_does_the_trouble() -> None:
    run = CleanedWorld()
    run.dirty()
    run.disk.fail_next("write", "*.cleaned", errno.ENOSPC)
    assert run.clean() == []
    assert "No space" in run.cleaner.uncleanable("/a")[P0].reason
    assert not run.manager.directories.offline
    run.pass_time(BACKOFF_MS)
    run.run()
    assert run.cleaned == [P0]
    assert run.cleaner.uncleanable("/a") == {}


def test_a_start_tries_everything_anew() -> None:
    run = damaged()
    run.clean()
    assert UNCLEANABLE_FILE in run.names("/a")
    run.restart()
    assert UNCLEANABLE_FILE not in run.names("/a")
    assert run.cleaner.uncleanable("/a") == {}


@pytest.mark.parametrize("how", ["delete", "policy"])
def test_what_needs_no_cleaning_is_forgotten(how: str) -> None:
    run = damaged()
    run.clean()
    if how == "delete":
        run.delete(P0)
    else:
        run.manager.update_config("orders", LOG_CONFIG)
        run.clean()
    assert run.cleaner.uncleanable("/a") == {}
    assert UNCLEANABLE_FILE not in run.names("/a")


def test_a_file_that_cannot_be_written_is_only_that(caplog: pytest.LogCaptureFixture) -> None:
    run = damaged()
    run.disk.fail_next("open", f"{FILE}*", errno.EIO)
    assert run.clean() == [P1]
    assert "out of date" in caplog.text
    assert not run.manager.directories.offline


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 1, "partitions": []}',
        b'{"version": 0, "partitions": [{}]}',
        b'{"version": 0, "partitions": [{"topic": "t", "partition": "x"}]}',
        b'{"version": 0, "partitions": [{"topic": "t", "partition": Infinity}]}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_said_to_be_one(text: bytes) -> None:
    run = CleanedWorld()
    run.write(FILE, text)
    with pytest.raises(CorruptCheckpointError, match=UNCLEANABLE_FILE):
        read_uncleanable(run.disk, "/a")


def test_the_longest_reason_is_cut() -> None:
    run = CleanedWorld()
    entry = UncleanablePartitions(run.world.env, 1).failed("/a", P0, ValueError("x" * 10_000))
    assert isinstance(entry, Uncleanable)
    assert len(entry.reason) == 500
