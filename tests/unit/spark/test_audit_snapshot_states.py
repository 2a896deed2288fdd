from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.logs.sample_log import ABORTING, COMMITTING, open_sample
from support.logs.verification import FILES
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import batch_of
from tailrace.record.control import COMMIT, end_txn_marker
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer, check_snapshot
from tailrace.spark.auditing.rules import SNAPSHOT_STATE
from tailrace.storage import names
from tailrace.storage.origin import Origin

OPEN, PLAIN, FENCED = 21, 22, 23
END = 12


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A log with producers of every kind, and the snapshot that its close makes."""
    log = open_sample(tmp_path / "t-0")

    def write(producer_id: int, sequence: int, count: int = 2, *, transactional: bool) -> None:
        records = [(1000, b"k", b"v")] * count
        fields = {"producer_id": producer_id, "producer_epoch": 4, "base_sequence": sequence}
        log.append_as_leader([batch_of(records, transactional=transactional, **fields)], 0)

    def end(producer_id: int, epoch: int) -> None:
        marker = end_txn_marker(
            COMMIT, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=3, timestamp=2000
        )
        log.append_as_leader([marker], 0, Origin.COORDINATOR)

    write(COMMITTING, 0, transactional=True)  # 0 and 1
    write(PLAIN, 0, transactional=False)
    write(PLAIN, 2, transactional=False)  # 4 and 5
    end(COMMITTING, 4)  # 6
    write(OPEN, 0, transactional=True)  # 7 and 8
    write(FENCED, 0, 1, transactional=True)  # 9
    end(FENCED, 5)  # 10
    write(ABORTING, 0, 1, transactional=True)  # 11
    log.close()
    return Folder(TopicPartition("t", 0), str(tmp_path / "t-0"), str(tmp_path))


LOGGED = {
    COMMITTING: LoggedProducer(4, 1, 1, 3),
    PLAIN: LoggedProducer(4, 3, 5),
    OPEN: LoggedProducer(4, 1, 8, open_from=7),
    FENCED: LoggedProducer(5, coordinator_epoch=3),
    ABORTING: LoggedProducer(4, 0, 11, open_from=11),
}


def single(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_a_snapshot_that_is_right(folder: Folder) -> None:
    assert check_snapshot(FILES, folder, END, LOGGED) == []
    assert check_snapshot(FILES, folder, END, {PLAIN: LOGGED[PLAIN]}) == []
    assert check_snapshot(FILES, folder, END, {}) == []


@pytest.mark.parametrize(
    ("producer_id", "change", "words"),
    [
        (PLAIN, {"epoch": 5}, "epoch 4, but by the log it is 5"),
        (PLAIN, {"last_sequence": 7}, "last sequence 3, but by the log it is 7"),
        (PLAIN, {"last_offset": 4}, "offset of the last batch 5, but by the log it is 4"),
        (COMMITTING, {"coordinator_epoch": 4}, "coordinator epoch 3, but by the log it is 4"),
        (OPEN, {"open_from": None}, "open transaction from offset 7, but by the log it is none"),
        (COMMITTING, {"open_from": 0}, "open transaction from offset none, but by the log it is 0"),
    ],
)
def test_a_snapshot_that_says_otherwise(
    folder: Folder, producer_id: int, change: dict[str, int | None], words: str
) -> None:
    logged = LOGGED | {producer_id: replace(LOGGED[producer_id], **change)}  # type: ignore[arg-type]
    found = single(check_snapshot(FILES, folder, END, logged))
    assert (found.rule, found.file) == (SNAPSHOT_STATE, names.join(folder.path, names.snapshot_name(END)))
    assert found.words == f"producer {producer_id}: {words}"


def test_several_that_differ_are_one_finding(folder: Folder) -> None:
    logged = {producer_id: replace(each, epoch=9) for producer_id, each in LOGGED.items()}
    assert "and 4 more producers differ" in single(check_snapshot(FILES, folder, END, logged)).words


def test_producers_may_be_forgotten_but_not_their_open_transactions(folder: Folder) -> None:
    assert check_snapshot(FILES, folder, END, LOGGED | {99: LoggedProducer(0, 5, 6)}) == []
    found = single(check_snapshot(FILES, folder, END, LOGGED | {99: LoggedProducer(0, 5, 6, open_from=6)}))
    assert found.words == "producer 99: is not in it, but its transaction from offset 6 on is open"
    assert found.offset == 6


def test_a_producer_that_came_back_has_no_coordinator_yet(folder: Folder) -> None:
    assert check_snapshot(FILES, folder, END, {PLAIN: replace(LOGGED[PLAIN], coordinator_epoch=6)}) == []


def test_a_producer_that_was_forgotten_early_and_got_only_a_marker_since(folder: Folder) -> None:
    logged = replace(LOGGED[FENCED], last_offset=9, last_sequence=0)
    assert check_snapshot(FILES, folder, END, {FENCED: logged}) == []


def test_snapshots_that_cannot_be_read_say_nothing(folder: Folder) -> None:
    assert check_snapshot(FILES, folder, 99, LOGGED) == []
    path = Path(folder.path) / names.snapshot_name(END)
    path.write_bytes(path.read_bytes()[:-1])
    assert check_snapshot(FILES, folder, END, LOGGED) == []
