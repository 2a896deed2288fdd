"""Segments through tasks: pieces that meet, pieces that do not, files that cannot be read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.audit.scripted_audit import Script, damage, scripted
from support.logs.data_dirs import DataDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.config.log import LogConfig
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.job import planning, waves
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.memory import AuditMemory
from tailrace.spark.auditing.progress import READ, AuditProgress
from tailrace.spark.auditing.rules import CRC, RULES, UNREADABLE
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()
ONE_SEGMENT = LogConfig(segment_bytes=1 << 20, segment_index_bytes=80_000, index_interval_bytes=500)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return scripted(monkeypatch)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    def in_small_pieces(files: Any, segment: Any) -> list[int]:
        return planning.split_positions(files, segment, 10_000)

    monkeypatch.setattr(waves, "split_positions", in_small_pieces)
    directory = DataDirectory(tmp_path / "data")
    directory.add("large-0", 400, config=ONE_SEGMENT)
    directory.add("small-0")
    return directory


def run(data: DataDirectory, state: Path | None = None, told: Any = None) -> AuditReport:
    memory = None if state is None else AuditMemory(str(state))
    try:
        places = find_places(FILES, [str(data)])
        audit = AuditRun(LocalSpark(), FILES, places, memory=memory, told=told, pause=lambda _: None)  # type: ignore[arg-type]
        audit.read()
        return audit.report([str(data)], frozenset(RULES), notes=True)
    finally:
        if memory is not None:
            memory.close()


def log_of(data: DataDirectory, folder: str = "large-0", base: int = 0) -> Path:
    return data / folder / f"{base:020d}.log"


class TestPieces:
    def test_a_large_segment_is_many_pieces(self, data: DataDirectory, script: Script) -> None:
        report = run(data)
        assert report.is_clean
        assert len({start for base, start in script.read if base == 0}) > 4
        assert report.figures["large"].bytes == log_of(data).stat().st_size
        assert (report.figures["large"].files, report.figures["large"].batches) == (1, 400)
        assert report.figures["small"].batches == 60
        assert report.read_bytes == report.bytes
        assert report.segments == 1 + len(data.bases("small-0"))

    def test_pieces_that_do_not_meet_are_read_again_as_one(
        self, data: DataDirectory, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lying(files: Any, segment: Any) -> list[int]:
            found = planning.split_positions(files, segment, 10_000)
            return [found[0], found[1] + 7] if found else []

        monkeypatch.setattr(waves, "split_positions", lying)
        report = run(data)
        assert report.is_clean
        assert report.figures["large"].batches == 400
        assert script.pieces[-1].start == 0
        assert script.pieces[-1].end is None

    def test_pieces_of_two_files_are_read_again_as_one(self, data: DataDirectory, script: Script) -> None:
        def replaced() -> None:
            copy = data / "copy"
            shutil.copy(log_of(data), copy)
            copy.rename(log_of(data))

        script.before_piece[2] = replaced
        report = run(data)
        assert report.is_clean
        assert report.figures["large"].batches == 400
        assert any((piece.base_offset, piece.start, piece.end) == (0, 0, None) for piece in script.pieces[3:])

    def test_findings_of_all_pieces(self, data: DataDirectory, script: Script) -> None:
        size = log_of(data).stat().st_size
        for at in (100, size // 2, size - 20):
            damage(log_of(data), at)
        found = [finding for finding in run(data).findings if finding.rule == CRC]
        assert len(found) == 3
        assert {finding.file for finding in found} == {str(log_of(data))}

    def test_many_waves(self, data: DataDirectory, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(planning, "WAVE_BYTES_PER_CORE", 10_000)
        damage(log_of(data))
        told: list[AuditProgress] = []
        report = run(data, told=told.append)
        assert report.by_rule == {CRC: 1}
        assert report.figures["large"].batches == 400
        read = [each for each in told if each.step == READ]
        assert len(read) > 2
        assert [each.done for each in read] == sorted(each.done for each in read)
        assert read[-1].done == read[-1].whole == report.bytes


class TestUnreadable:
    def test_a_file_that_cannot_be_read(
        self, data: DataDirectory, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        victim = data.bases("small-0")[1]
        audited = script.audit_piece

        def refused(piece: Any) -> Any:
            if piece.base_offset == victim:
                raise PermissionError(13, "Permission denied")
            return audited(piece)

        monkeypatch.setattr("tailrace.spark.auditing.job.tasks.audit_piece", refused)
        (finding,) = [each for each in run(data).findings if each.rule == UNREADABLE]
        assert finding.file == str(log_of(data, "small-0", victim))
        assert finding.words == "cannot be read: Permission denied"

    def test_a_fault_of_ours_costs_one_segment(
        self, data: DataDirectory, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(piece: Any) -> Any:
            if piece.partition.topic == "large":
                raise ZeroDivisionError("by zero")
            return script.audit_piece(piece)

        monkeypatch.setattr("tailrace.spark.auditing.job.tasks.audit_piece", broken)
        damage(log_of(data, "small-0"))
        assert run(data).by_rule == {UNREADABLE: 1, CRC: 1}

    def test_a_name_that_leads_nowhere(self, data: DataDirectory, script: Script) -> None:
        log = log_of(data, "small-0")
        log.unlink()
        log.symlink_to(data / "nowhere")
        (finding,) = [each for each in run(data).findings if each.rule == UNREADABLE]
        assert finding.file == str(log)


class TestMemory:
    def test_immutable_segments_are_read_once(self, data: DataDirectory, script: Script, tmp_path: Path) -> None:
        first = run(data, tmp_path / "state")
        script.pieces.clear()
        second = run(data, tmp_path / "state")
        assert {piece.next_base for piece in script.pieces} == {None}
        assert second.skipped_segments == len(data.bases("small-0")) - 1
        assert (first.skipped_segments, second.figures) == (0, first.figures)

    def test_what_was_found_is_found_again(self, data: DataDirectory, script: Script, tmp_path: Path) -> None:
        damage(log_of(data, "small-0"))
        first, second = run(data, tmp_path / "state"), run(data, tmp_path / "state")
        assert first.findings == second.findings != ()
        assert second.skipped_segments > 0

    def test_a_segment_that_was_touched_is_read_again(
        self, data: DataDirectory, script: Script, tmp_path: Path
    ) -> None:
        run(data, tmp_path / "state")
        damage(log_of(data, "small-0"))
        script.pieces.clear()
        assert run(data, tmp_path / "state").by_rule == {CRC: 1}
        assert 0 in [piece.base_offset for piece in script.pieces if piece.partition.topic == "small"]

    def test_a_kill_costs_one_wave(
        self, data: DataDirectory, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(planning, "WAVE_BYTES_PER_CORE", 5_000)

        def killed() -> None:
            raise KeyboardInterrupt

        script.before_piece[9] = killed
        with pytest.raises(KeyboardInterrupt):
            run(data, tmp_path / "state")
        script.before_piece.clear()
        kept = len((tmp_path / "state" / "audited.jsonl").read_text().splitlines())
        assert run(data, tmp_path / "state").skipped_segments == kept

    def test_what_changed_while_it_was_read_is_not_kept(
        self, data: DataDirectory, script: Script, tmp_path: Path
    ) -> None:
        target = log_of(data, "small-0")

        def touched() -> None:
            os.utime(target, ns=(1, 1))

        script.before_every = touched
        run(data, tmp_path / "state")
        script.before_every = None
        script.pieces.clear()
        run(data, tmp_path / "state")
        assert 0 in [piece.base_offset for piece in script.pieces if piece.partition.topic == "small"]
