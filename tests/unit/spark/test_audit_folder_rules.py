from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.sample_log import GOLDEN_PARTITIONS, copy_sample
from support.logs.verification import FILES, edit, errors
from tailrace.env import File, Mode
from tailrace.model.errors import CorruptSnapshotError
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job import few_findings, snapshot_file
from tailrace.spark.auditing.job.folder_rules import FolderFacts, check_directory, check_ends, check_folder
from tailrace.spark.auditing.job.places import Folder, LogDirectory
from tailrace.spark.auditing.job.snapshot_file import read_snapshot
from tailrace.spark.auditing.rules import (
    CHECKPOINT,
    EPOCH_CHECKPOINT,
    GONE,
    LEFTOVER,
    METADATA,
    ORPHAN_INDEX,
    SNAPSHOT,
    SNAPSHOT_ORDER,
    STRAY_FILE,
    UNKNOWN_FORMAT,
    UNREADABLE,
)
from tailrace.spark.source.files.folders import Noted
from tailrace.storage import names, producer_snapshot
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.producer_entry import BatchMetadata, ProducerStateEntry


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


def listed(path: Path, topic: str = "t") -> Folder:
    files = frozenset(each.name for each in path.iterdir() if each.is_file())
    snapshots = sorted(names.offset_of(name) for name in files if name.endswith(names.SNAPSHOT_SUFFIX))
    return Folder(
        TopicPartition(topic, 0),
        str(path),
        str(path.parent),
        names=files,
        directories=frozenset(each.name for each in path.iterdir() if each.is_dir()),
        snapshots=tuple(snapshots),
    )


def checked(path: Path, topic: str = "t") -> list[Finding]:
    return check_folder(FILES, listed(path, topic))[1]


def single(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


# Nothing to find


def test_a_closed_log(sample: Path) -> None:
    facts, found = check_folder(FILES, listed(sample))
    assert found == []
    assert facts.epochs == (EpochEntry(0, 0), EpochEntry(1, 15))
    assert not facts.epochs_are_empty
    assert facts.snapshots == listed(sample).snapshots != ()
    assert check_ends(listed(sample), facts, 32, 0) == []


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_what_kafka_wrote(directory: Path) -> None:
    assert checked(directory) == []


def test_the_files_of_a_metadata_log(sample: Path) -> None:
    (sample / "quorum-state").write_text("{}")
    (sample / "00000000000000000045-0000000001.checkpoint").write_bytes(b"")
    assert checked(sample, "__cluster_metadata") == []
    assert [found.rule for found in checked(sample)] == [STRAY_FILE, STRAY_FILE]
    (sample / "00000000000000000046-0000000001-77.checkpoint.part").write_bytes(b"")
    (sample / "00000000000000000044-0000000001.checkpoint.deleted").write_bytes(b"")
    assert [found.rule for found in checked(sample, "__cluster_metadata")] == [LEFTOVER, LEFTOVER]


# Names


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("00000000000000000000.log.deleted", LEFTOVER),
        ("00000000000000000000.log.cleaned", LEFTOVER),
        ("00000000000000000000.index.swap", LEFTOVER),
        ("leader-epoch-checkpoint.tmp", LEFTOVER),
        ("notes.txt", STRAY_FILE),
        ("00000000000000000007.index", ORPHAN_INDEX),
        ("00000000000000000007.timeindex", ORPHAN_INDEX),
        ("00000000000000000007.txnindex", ORPHAN_INDEX),
    ],
)
def test_names(sample: Path, name: str, rule: str) -> None:
    (sample / name).write_bytes(b"")
    found = single(checked(sample))
    assert (found.file, found.rule, found.partition) == (str(sample / name), rule, "t-0")


def test_indexes_of_segments_on_their_way(sample: Path) -> None:
    (sample / "00000000000000000007.index").write_bytes(b"")
    (sample / "00000000000000000007.log.swap").write_bytes(b"")
    assert {found.rule for found in checked(sample)} == {LEFTOVER}
    (sample / "00000000000000000007.log.swap").rename(sample / "00000000000000000007.log.deleted")
    assert {found.rule for found in checked(sample)} == {LEFTOVER}


def test_folders_are_strangers(sample: Path) -> None:
    (sample / names.log_name(999)).mkdir()
    assert single(checked(sample)).rule == STRAY_FILE


def test_a_rule_is_told_so_often_only(sample: Path) -> None:
    for number in range(few_findings.MOST_OF_A_RULE + 7):
        (sample / f"stranger-{number:04}").write_bytes(b"")
    found = checked(sample)
    assert len(found) == few_findings.MOST_OF_A_RULE + 1
    assert found[-1].words == "and 7 more files like it"


# Small files


@pytest.mark.parametrize("text", ["version: 0\ntopic_id: nothing", "", "version: zero\n", "\xff" * 9000])
def test_partition_metadata(sample: Path, text: str) -> None:
    (sample / names.PARTITION_METADATA).write_text(text)
    found = single(checked(sample))
    assert (found.file, found.rule) == (str(sample / names.PARTITION_METADATA), METADATA)
    assert str(sample) not in found.words


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("0\n1\n0 0", EPOCH_CHECKPOINT, "ends in the middle of a line"),
        ("7\n0\n", UNKNOWN_FORMAT, "has version '7'"),
        ("-1\n0\n", EPOCH_CHECKPOINT, "has version '-1'"),
        ("0\n1\nzero 0\n", EPOCH_CHECKPOINT, "not epoch and start offset"),
        ("0\n3\n1 0\n0 15\n2 20\n", EPOCH_CHECKPOINT, "does not ascend"),
        ("0\n2\n1 5\n2 5\n", EPOCH_CHECKPOINT, "does not ascend"),
    ],
)
def test_leader_epochs(sample: Path, text: str, rule: str, words: str) -> None:
    (sample / names.LEADER_EPOCH_CHECKPOINT).write_text(text)
    facts, found = check_folder(FILES, listed(sample))
    assert (single(found).rule, found[0].file) == (rule, str(sample / names.LEADER_EPOCH_CHECKPOINT))
    assert words in found[0].words
    assert facts.epochs == ()
    assert errors(sample) != []


def test_an_empty_checkpoint_is_only_right_without_epochs(sample: Path) -> None:
    (sample / names.LEADER_EPOCH_CHECKPOINT).write_text("")
    facts, found = check_folder(FILES, listed(sample))
    assert found == []
    assert facts.epochs_are_empty
    assert check_ends(listed(sample), facts, 32, -1) == []
    assert single(check_ends(listed(sample), facts, None, 0)).rule == EPOCH_CHECKPOINT


@pytest.mark.parametrize("text", [None, "0\n0\n"])
def test_a_closed_log_with_epochs_has_a_checkpoint_of_them(sample: Path, text: str | None) -> None:
    checkpoint = sample / names.LEADER_EPOCH_CHECKPOINT
    checkpoint.unlink()
    if text is not None:
        checkpoint.write_text(text)
    closed = replace(listed(sample), is_closed=True)
    facts, found = check_folder(FILES, closed)
    assert found == []
    assert check_ends(closed, facts, 32, -1) == []
    found = check_ends(closed, facts, None, 0)
    assert (single(found).rule, found[0].file) == (EPOCH_CHECKPOINT, str(checkpoint))
    in_use = listed(sample)
    assert check_ends(in_use, check_folder(FILES, in_use)[0], 32, 0) == []


def test_what_lies_behind_the_end(sample: Path) -> None:
    folder = replace(listed(sample), noted=Noted(log_start=40), is_closed=True)
    facts = FolderFacts(epochs=(EpochEntry(0, 0), EpochEntry(1, 33)), snapshots=(15, 32, 33))
    found = check_ends(folder, facts, 32, 0)
    assert [(each.rule, each.offset) for each in found] == [
        (EPOCH_CHECKPOINT, 33),
        (SNAPSHOT_ORDER, 33),
        (CHECKPOINT, 40),
    ]
    assert check_ends(folder, facts, None, 0) == []
    assert check_ends(folder, facts, 40, 0) == []
    cut = replace(folder, noted=Noted(high_watermark=50, log_start=40))
    assert check_ends(cut, facts, 32, 0) == []  # the log itself is said to end too early
    lost_power = replace(folder, is_closed=False)
    assert check_ends(lost_power, facts, 32, 0) == []


class FailingFiles(type(FILES)):  # type: ignore[misc]
    def __init__(self, failing: str, error: OSError) -> None:
        self.failing = failing
        self.error = error

    def open(self, path: str, mode: Mode) -> File:
        if path.endswith(self.failing):
            raise self.error
        return super().open(path, mode)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [".snapshot", "leader-epoch-checkpoint", "partition.metadata"])
def test_files_that_the_disk_refuses(sample: Path, name: str) -> None:
    files = FailingFiles(name, PermissionError(13, "Permission denied"))
    found = check_folder(files, listed(sample))[1]
    assert {(each.rule, each.words) for each in found} == {(UNREADABLE, "cannot be read: Permission denied")}
    assert all(each.file.endswith(name) for each in found)


def test_snapshots_that_went_away(sample: Path) -> None:
    files = FailingFiles(".snapshot", FileNotFoundError(2, "No such file or directory"))
    facts, found = check_folder(files, listed(sample))
    assert {each.rule for each in found} == {GONE}
    assert facts.snapshots == ()


# Snapshots


def test_a_snapshot_of_another_offset(sample: Path) -> None:
    newest = sorted(sample.glob("*.snapshot"))[-1]
    newest.rename(sample / names.snapshot_name(1))
    found = single(checked(sample))
    assert (found.rule, found.offset) == (SNAPSHOT_ORDER, 1)


@pytest.mark.parametrize(
    ("at", "data", "rule"),
    [(12, b"\xff", SNAPSHOT), (0, b"\0\2", SNAPSHOT), (3, b"\x55", SNAPSHOT), (9, b"\x55", SNAPSHOT)],
)
def test_a_damaged_snapshot(sample: Path, at: int, data: bytes, rule: str) -> None:
    newest = sorted(sample.glob("*.snapshot"))[-1]
    edit(newest, at, data)
    found = single(checked(sample))
    assert (found.file, found.rule, found.offset) == (str(newest), rule, names.offset_of(newest.name))


def test_the_last_snapshot_of_a_broker_that_was_killed_over_it(sample: Path) -> None:
    before, newest = sorted(sample.glob("*.snapshot"))[-2:]
    whole = producer_snapshot.encode([ProducerStateEntry(n) for n in range(200)])
    for left in (b"", whole[:4096], whole[:8192]):
        newest.write_bytes(left)
        found = single(checked(sample))
        assert (found.file, found.rule) == (str(newest), LEFTOVER)
        closed = replace(listed(sample), is_closed=True)
        assert single(check_folder(FILES, closed)[1]).rule == SNAPSHOT
    newest.write_bytes(whole[:4095])
    assert single(checked(sample)).rule == SNAPSHOT
    newest.write_bytes(b"")
    before.write_bytes(b"")
    assert {found.file: found.rule for found in checked(sample)} == {str(newest): LEFTOVER, str(before): SNAPSHOT}


def test_a_snapshot_of_the_future(sample: Path) -> None:
    newest = sorted(sample.glob("*.snapshot"))[-1]
    newest.write_bytes(b"\0\2" + b"something else altogether")
    assert single(checked(sample)).rule == UNKNOWN_FORMAT


def test_a_snapshot_too_long_to_be_held(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "MOST_HELD_BYTES", 20)
    monkeypatch.setattr(snapshot_file, "_CHUNK_BYTES", 16)
    assert checked(sample) == []
    newest = sorted(sample.glob("*.snapshot"))[-1]
    edit(newest, 40, b"\xaa")
    assert single(checked(sample)).rule == SNAPSHOT
    monkeypatch.setattr(snapshot_file, "MAX_SNAPSHOT_BYTES", 30)
    assert all("no snapshot is longer" in found.words for found in checked(sample))


entries = st.builds(
    lambda pid, epoch, sequence, offset, delta, timestamp, coordinator, begun: ProducerStateEntry(
        pid, epoch, coordinator, timestamp, begun, (BatchMetadata(sequence, offset, delta, timestamp),)
    ),
    st.integers(-1, 5),
    st.integers(0, 3),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 3),
    st.integers(0, 99),
    st.integers(-1, 3),
    st.one_of(st.none(), st.integers(0, 9)),
)


@settings(max_examples=examples(300))
@given(states=st.lists(entries, max_size=5), seed=st.integers(0, 2**32), is_damaged=st.booleans())
def test_snapshots_are_read_as_the_log_reads_them(
    tmp_path_factory: pytest.TempPathFactory, states: list[ProducerStateEntry], seed: int, is_damaged: bool
) -> None:
    dice = random.Random(seed)
    data = bytearray(producer_snapshot.encode(states))
    if is_damaged:
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(8)] = dice.randbytes(dice.randrange(8))
    path = tmp_path_factory.mktemp("any") / "x.snapshot"
    path.write_bytes(data)
    try:
        expected = producer_snapshot.decode(data)
    except CorruptSnapshotError:
        with pytest.raises(CorruptSnapshotError):
            read_snapshot(FILES, str(path))
        return
    found = read_snapshot(FILES, str(path))
    assert found is not None
    assert [(int(each["producer_id"]), int(each["epoch"]), int(each["last_offset"])) for each in found] == [
        (entry.producer_id, entry.producer_epoch, entry.last_data_offset) for entry in expected
    ]
    assert found["open_from"].tolist() == [
        -1 if entry.txn_first_offset is None else entry.txn_first_offset for entry in expected
    ]


# Log directories


def directory_of(path: Path, *, is_whole: bool = True) -> LogDirectory:
    files = frozenset(each.name for each in path.iterdir() if each.is_file())
    folders = frozenset(each.name for each in path.iterdir() if each.is_dir())
    return LogDirectory(str(path), names=files, directories=folders, is_whole=is_whole)


def test_a_log_directory(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    (tmp_path / "recovery-point-offset-checkpoint.tmp").write_text("")
    for name in (".lock", ".kafka_cleanshutdown", "bootstrap.checkpoint", "cleaner-offset-checkpoint"):
        (tmp_path / name).write_text("")
    assert check_directory(FILES, directory_of(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("replication-offset-checkpoint", "0\n1\nt 0 -5\n", CHECKPOINT),
        ("log-start-offset-checkpoint", "0\n2\nt 0 5\n", CHECKPOINT),
        ("recovery-point-offset-checkpoint", "0\n1\nt 0 5", CHECKPOINT),
        ("cleaner-offset-checkpoint", "9\n1\nt 0 5\n", UNKNOWN_FORMAT),
        ("cleaner-offset-checkpoint", "\x80\n1\nt 0 5\n", CHECKPOINT),
        ("meta.properties", "version=1\nnode.id=1\n", CHECKPOINT),
        ("meta.properties", "version=one\nnode.id=1\n", CHECKPOINT),
        ("meta.properties", "version=2\nnode.id=1\ncluster.id=c\n", UNKNOWN_FORMAT),
        ("meta.properties", "version=0\nbroker.id=1\ncluster.id=c\n", UNKNOWN_FORMAT),
        ("readme", "", STRAY_FILE),
    ],
)
def test_small_files_of_a_log_directory(tmp_path: Path, name: str, text: str, rule: str) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    found = single(check_directory(FILES, directory_of(tmp_path)))
    assert (found.file, found.rule, found.partition) == (str(tmp_path / name), rule, None)
    assert str(tmp_path) not in found.words
    assert check_directory(FILES, directory_of(tmp_path, is_whole=False)) == []


def test_folders_of_a_log_directory(tmp_path: Path) -> None:
    digits = "0" * 32
    for name in (f"t-0.{digits}-delete", f"t-0.{digits}-stray", f"t-1.{digits}-future", "lost+found"):
        (tmp_path / name).mkdir()
    found = check_directory(FILES, directory_of(tmp_path))
    assert sorted(each.rule for each in found) == [LEFTOVER, LEFTOVER, LEFTOVER, STRAY_FILE]
    assert {each.severity for each in found} == {"note"}


def test_a_checkpoint_that_the_disk_refuses(tmp_path: Path) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    files = FailingFiles("checkpoint", PermissionError(13, "Permission denied"))
    assert single(check_directory(files, directory_of(tmp_path))).rule == UNREADABLE
    files = FailingFiles("checkpoint", FileNotFoundError(2, "No such file or directory"))
    assert check_directory(files, directory_of(tmp_path)) == []
