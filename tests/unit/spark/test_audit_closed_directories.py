"""Directories that were shut down cleanly: their checkpoints are of logs that lie there, files end where logs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audit.logs import LogDirectory, Partition, busy, shortened, table
from support.audit.pieces import audited, batch, faults_of
from support.spark.local_rdds import LocalSpark
from tailrace.record.batch import set_base_offset
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import (
    CHECKPOINT,
    COMPACTED_GAP,
    LEFTOVER,
    LOST_START,
    OFFSET_GAP,
    RULES,
    TRAILING_BYTES,
)
from tailrace.spark.source.files.read_only import ReadOnlyFiles

MARKER = ".kafka_cleanshutdown"
RECOVERY, CLEANER = "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"
HIGH_WATERMARKS, LOG_STARTS = "replication-offset-checkpoint", "log-start-offset-checkpoint"
ENDS = {"busy-0": 87, "table-0": 72}


def findings(directory: LogDirectory) -> list[Finding]:
    files = ReadOnlyFiles()
    run = AuditRun(LocalSpark(), files, find_places(files, [str(directory)]), pause=lambda _: None)  # type: ignore[arg-type]
    run.read()
    return list(run.report([str(directory)], frozenset(RULES), notes=True).findings)


def places(directory: LogDirectory) -> list[tuple[str, str, int | None]]:
    return [(each.rule, Path(each.file).name, each.offset) for each in findings(directory)]


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    directory = LogDirectory(tmp_path / "data")
    directory.put("busy-0", busy())
    directory.put("table-0", table())
    assert directory.ends == ENDS
    return directory


class TestPointsBehindTheEnd:
    @pytest.mark.parametrize(
        ("file", "words"),
        [
            (RECOVERY, "says that busy-0 is durable up to 500, behind the end of its log at 87"),
            (CLEANER, "says that busy-0 is clean up to 500, behind the end of its log at 87"),
        ],
    )
    def test_are_told(self, directory: LogDirectory, file: str, words: str) -> None:
        directory.checkpoint(file, {**(ENDS if file == RECOVERY else directory.cleaned_ends), "busy-0": 500})
        (finding,) = findings(directory)
        assert (finding.rule, finding.file, finding.partition) == (CHECKPOINT, str(directory / file), "busy-0")
        assert (finding.offset, finding.words) == (500, words)
        (directory / MARKER).unlink()  # a log may have lost its end with its broker
        assert findings(directory) == []

    def test_the_end_itself_is_none(self, directory: LogDirectory) -> None:
        """As a cleaner's point is where a log was cut."""
        directory.checkpoint(CLEANER, ENDS)
        assert findings(directory) == []

    def test_do_not_hide_what_is_missing(self, directory: LogDirectory) -> None:
        directory.checkpoint(CLEANER, {**directory.cleaned_ends, "busy-0": 500})
        partition = directory / "busy-0"
        log = partition / f"{28:020d}.log"
        content = log.read_bytes()
        log.write_bytes(content[:390] + content[666:])
        for index in partition.glob(f"{28:020d}.*index"):
            index.write_bytes(b"")
        assert (COMPACTED_GAP, log.name, 33) in places(directory)
        assert (CHECKPOINT, CLEANER, 500) in places(directory)


class TestTheRecoveryPoint:
    def test_is_the_end_of_the_log(self, directory: LogDirectory) -> None:
        directory.checkpoint(RECOVERY, {**ENDS, "busy-0": 50})
        (finding,) = findings(directory)
        assert (finding.rule, finding.file, finding.offset) == (CHECKPOINT, str(directory / RECOVERY), 50)
        assert finding.words == "says that busy-0 is durable up to 50, but it was closed with batches up to 87"
        (directory / MARKER).unlink()  # nothing was flushed by a shutdown
        assert findings(directory) == []

    def test_a_quorum_has_none(self, directory: LogDirectory) -> None:
        directory.put("__cluster_metadata-0", busy())
        directory.checkpoint(RECOVERY, {**ENDS, "__cluster_metadata-0": 50})
        assert findings(directory) == []

    def test_what_hides_the_end_is_told_once(self, directory: LogDirectory) -> None:
        """The last batch of a log that nobody compacts lies beyond a gap."""
        partition = Partition(directory / "busy-0")
        *parts, last = partition.parts(-1)
        moved = bytearray(last)
        set_base_offset(moved, 0, 5000)
        partition.write(-1, [*parts, bytes(moved)])
        assert [rule for rule, _, _ in places(directory)] == [OFFSET_GAP]


class TestLostFirstSegment:
    @pytest.fixture
    def lost(self, directory: LogDirectory) -> LogDirectory:
        for file in (directory / "busy-0").glob(f"{0:020d}.*"):
            file.unlink()
        return directory

    def test_is_told_once(self, lost: LogDirectory) -> None:
        (finding,) = findings(lost)
        first = lost / "busy-0" / f"{28:020d}.log"
        assert (finding.rule, finding.file, finding.offset) == (LOST_START, str(first), 0)
        assert "the log begins at 0, and the first segment at 28" in finding.words

    def test_is_not_known_of_a_log_that_is_in_use(self, lost: LogDirectory) -> None:
        (lost / MARKER).unlink()
        assert findings(lost) == []

    @pytest.mark.parametrize("start", [1, 28, 40])
    def test_may_be_in_remote_storage(self, lost: LogDirectory, start: int) -> None:
        """Of such a log its start is noted wherever it is; or nobody knows, where the note is lost."""
        lost.checkpoint(LOG_STARTS, {"busy-0": start})
        assert findings(lost) == []
        (lost / LOG_STARTS).unlink()
        assert findings(lost) == []

    def test_may_have_been_deleted_just_before_the_end(self, lost: LogDirectory) -> None:
        (lost / "busy-0" / f"{0:020d}.log.deleted").write_bytes(b"")
        assert [rule for rule, _, _ in places(lost)] == [LEFTOVER]
        (lost / "busy-0" / f"{0:020d}.log.deleted").rename(lost / "busy-0" / f"{50:020d}.log.deleted")
        assert sorted(rule for rule, _, _ in places(lost)) == [LEFTOVER, LOST_START]  # that is of a compaction

    def test_a_quorum_notes_no_log_start(self, tmp_path: Path) -> None:
        directory = LogDirectory(tmp_path / "quorum")
        partition = directory.put("__cluster_metadata-0", busy())
        partition.file(0).unlink()
        assert LOST_START not in [rule for rule, _, _ in places(directory)]

    @pytest.mark.parametrize("start", [10, 28, 30, 57, 87])
    def test_what_was_deleted_is_not_lost(self, tmp_path: Path, start: int) -> None:
        """By the engine, which cuts the epochs; what the log start passed goes as by retention."""
        directory = LogDirectory(tmp_path / "deleted")
        directory.put("busy-0", shortened(start))
        for log_starts in ({}, {"busy-0": start}):  # Kafka notes only those within a segment
            directory.checkpoint(LOG_STARTS, log_starts)
            assert findings(directory) == []


class TestLogStarts:
    def test_are_not_held_against_high_watermarks(self, directory: LogDirectory) -> None:
        """They are noted apart: a broker that is stopped while it starts, after a kill, leaves both as they were."""
        directory.checkpoint(LOG_STARTS, {"busy-0": 80})
        directory.checkpoint(HIGH_WATERMARKS, {**ENDS, "busy-0": 60})
        assert findings(directory) == []

    def test_one_behind_the_end_is_told_once(self, directory: LogDirectory) -> None:
        directory.checkpoint(LOG_STARTS, {"busy-0": 500})
        assert places(directory) == [(CHECKPOINT, LOG_STARTS, 500)]


@pytest.mark.parametrize("file", [RECOVERY, CLEANER, HIGH_WATERMARKS, LOG_STARTS])
def test_two_lines_for_a_partition(directory: LogDirectory, file: str) -> None:
    offsets = {RECOVERY: 87, HIGH_WATERMARKS: 87, CLEANER: 0, LOG_STARTS: 0}
    lines = [f"busy 0 {offset}" for offset in (5, offsets[file])]
    if file in (RECOVERY, HIGH_WATERMARKS):
        lines.append("table 0 72")
    (directory / file).write_text("\n".join(("0", str(len(lines)), *lines, "")))
    found = [each for each in findings(directory) if each.rule == CHECKPOINT]
    assert [(each.file, each.offset) for each in found] == [(str(directory / file), offsets[file])]
    assert found[0].words == f"has 2 lines for busy-0, with offsets 5, {offsets[file]}"


class TestPartitionsWithoutAFolder:
    def test_one_that_has_a_recovery_point_is_lost(self, directory: LogDirectory) -> None:
        for file in (RECOVERY, HIGH_WATERMARKS, LOG_STARTS):
            directory.checkpoint(file, {**ENDS, "vanished-0": 55} if file != LOG_STARTS else {"vanished-0": 5})
        (finding,) = findings(directory)
        assert (finding.rule, finding.file) == (CHECKPOINT, str(directory / RECOVERY))
        assert finding.words == "has vanished-0 at offset 55, but there is no folder of it"
        (directory / MARKER).unlink()  # it may have been deleted a moment ago
        assert findings(directory) == []

    @pytest.mark.parametrize("file", [HIGH_WATERMARKS, LOG_STARTS])
    def test_others_may_have_been_deleted(self, directory: LogDirectory, file: str) -> None:
        directory.checkpoint(file, {**(ENDS if file == HIGH_WATERMARKS else {}), "vanished-0": 55})
        assert places(directory) == [(LEFTOVER, file, 55)]

    @pytest.mark.parametrize("ending", ["delete", "stray", "future"])
    def test_a_folder_of_another_kind_is_one(self, directory: LogDirectory, ending: str) -> None:
        directory.checkpoint(RECOVERY, {**ENDS, "vanished-0": 55})
        (directory / f"vanished-0.{'0' * 32}-{ending}").mkdir()
        assert [rule for rule, _, _ in places(directory)] == [LEFTOVER]

    def test_empty_ones_lost_nothing(self, directory: LogDirectory) -> None:
        directory.checkpoint(RECOVERY, {**ENDS, "vanished-0": 0})
        assert findings(directory) == []

    def test_nor_one_whose_broker_was_started_meanwhile(self, directory: LogDirectory) -> None:
        directory.checkpoint(RECOVERY, {**ENDS, "new-0": 55})
        files = ReadOnlyFiles()
        places = find_places(files, [str(directory)])
        (directory / MARKER).unlink()
        run = AuditRun(LocalSpark(), files, places, pause=lambda _: None)  # type: ignore[arg-type]
        run.read()
        assert run.report([str(directory)], frozenset(RULES), notes=True).findings == ()


@pytest.mark.parametrize("size", [1, 11, 61, 5000])
def test_zeros_behind_the_last_batch(tmp_path: Path, size: int) -> None:
    whole = bytes(batch(0, 3))
    data = whole + bytes(size)
    assert faults_of(audited(tmp_path / "t-0", data)) == []
    assert faults_of(audited(tmp_path / "t-0", data, is_closed=True)) == [(TRAILING_BYTES, len(whole), 3)]
    assert faults_of(audited(tmp_path / "t-0", bytes(size), is_closed=True)) == [(TRAILING_BYTES, 0, 0)]
