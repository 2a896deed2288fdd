"""What an audit is given that it cannot make sense of: each is told, and the rest goes on.

What brokers do to a directory meanwhile is in `test_audit_live`, and files that cannot be read or are of the future are
among the planted faults (`support.audit.injected_faults.unreadable_files`).
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.audit.scripted_audit import damage
from support.logs.data_dirs import CLUSTER, DataDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.spark.auditing.audit import AuditRun, audit
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.job import listing
from tailrace.spark.auditing.job.listing import PlaceError, find_places
from tailrace.spark.auditing.job.memory import StateFolderError
from tailrace.spark.auditing.job.places import FileStatus, replica_groups
from tailrace.spark.auditing.rules import CRC, GONE, MIXED_CLUSTERS, RULES, TRUNCATED, UNREADABLE
from tailrace.spark.report.html import ReportError
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.add("t-0")
    directory.add("quiet-0", 20)
    return directory


def run(*paths: object, rules: frozenset[str] = frozenset(RULES)) -> AuditReport:
    places = find_places(FILES, [str(path) for path in paths])
    audit = AuditRun(LocalSpark(), FILES, places, pause=lambda seconds: None)  # type: ignore[arg-type]
    audit.read()
    return audit.report([str(path) for path in paths], rules, notes=True)


def log_of(data: DataDirectory, base: int = 0) -> Path:
    return data / "t-0" / f"{base:020d}.log"


class TestMixedClusters:
    @pytest.fixture
    def other(self, tmp_path: Path) -> DataDirectory:
        """Another cluster's, with a partition of the same name that holds other records."""
        other = DataDirectory(tmp_path / "other", node=2)
        other.add("t-0", 90, 3)
        meta = other / "meta.properties"
        meta.write_text(meta.read_text().replace(CLUSTER, "another"))
        return other

    def test_are_told_and_not_compared(self, data: DataDirectory, other: DataDirectory) -> None:
        report = run(data, other)
        (finding,) = report.findings
        assert (finding.rule, finding.severity, finding.partition) == (MIXED_CLUSTERS, "warning", None)
        assert all(each in finding.words for each in (CLUSTER, "another", str(data), str(other)))
        assert (report.directories, report.partitions, report.is_clean) == (2, 3, False)
        assert replica_groups(find_places(FILES, [str(data), str(other)]).folders) == []

    def test_and_faults_in_them_are_found_all_the_same(self, data: DataDirectory, other: DataDirectory) -> None:
        damage(log_of(other))
        report = run(data, other)
        assert report.by_rule == {MIXED_CLUSTERS: 1, CRC: 1}
        assert [each.file for each in report.findings if each.rule == CRC] == [str(log_of(other))]

    def test_nobody_asked_about_them(self, data: DataDirectory, other: DataDirectory) -> None:
        assert run(data, other, rules=frozenset({CRC})).is_clean


class TestUnreadable:
    def test_a_file_whose_status_the_disk_refuses(self, data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """It costs that file, not its folder."""
        victim = log_of(data, data.bases("t-0")[1])
        status_of, open_file = listing.status_of, ReadOnlyFiles.open

        def status(path: str) -> FileStatus:
            if path == str(victim):
                raise OSError(errno.EIO, "Input/output error", path)
            return status_of(path)

        def opened(files: ReadOnlyFiles, path: str, mode: Any) -> Any:
            if path == str(victim):
                raise OSError(errno.EIO, "Input/output error", path)
            return open_file(files, path, mode)

        monkeypatch.setattr(listing, "status_of", status)
        monkeypatch.setattr(ReadOnlyFiles, "open", opened)
        report = run(data)
        assert [(each.rule, each.file) for each in report.findings] == [(UNREADABLE, str(victim))]
        assert report.findings[0].words == "cannot be read: Input/output error"
        assert report.figures["quiet"].batches == 20

    def test_a_folder_that_may_not_be_entered(self, data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        status_of = listing.status_of

        def status(path: str) -> FileStatus:
            if path.startswith(str(data / "t-0")):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return status_of(path)

        monkeypatch.setattr(listing, "status_of", status)
        report = run(data)
        assert [(each.rule, each.file) for each in report.findings] == [(UNREADABLE, str(data / "t-0"))]
        assert report.partitions == 1


class TestNothingThere:
    def test_a_partition_that_lost_all_its_segments(self, data: DataDirectory) -> None:
        for file in (data / "t-0").iterdir():
            file.unlink()
        (finding,) = run(data).findings
        assert (finding.rule, finding.file, finding.offset) == (TRUNCATED, str(data / "t-0"), 0)
        assert finding.words == "has no segment, but offsets 0 to 59 were committed"

    def test_one_of_which_everything_was_deleted_before(self, data: DataDirectory) -> None:
        for file in (data / "t-0").iterdir():
            file.unlink()
        data.checkpoint("log-start-offset-checkpoint", {"t-0": 60})
        assert run(data).is_clean

    def test_a_folder_that_goes_away_before_it_is_read(self, data: DataDirectory) -> None:
        places = find_places(FILES, [str(data)])
        shutil.rmtree(data / "t-0")
        audit = AuditRun(LocalSpark(), FILES, places, pause=lambda seconds: None)  # type: ignore[arg-type]
        audit.read()
        (finding,) = audit.report([], frozenset(RULES), notes=True).findings
        assert (finding.rule, finding.severity, finding.file) == (GONE, "note", str(data / "t-0"))

    def test_a_path_without_a_log_says_what_to_do(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        for name in ("photos", "nowhere"):
            with pytest.raises(PlaceError) as error:
                find_places(FILES, [str(tmp_path / name)])
            assert "log directories" in error.value.hint


class TestPlacesToWriteTo:
    @pytest.mark.parametrize("name", ["", "state", "t-0/state", "../link/state"])
    def test_nothing_is_remembered_in_a_log_directory(self, data: DataDirectory, name: str) -> None:
        (data.path.parent / "link").symlink_to(data.path)
        before = sorted(data.path.rglob("*"))
        with pytest.raises(StateFolderError, match="is in the log directory"):
            audit(str(data), session=LocalSpark(), state=str(data / name))  # type: ignore[arg-type]
        assert sorted(data.path.rglob("*")) == before

    def test_a_file_in_the_place_of_the_folder(self, data: DataDirectory, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("")
        with pytest.raises(StateFolderError, match=r"cannot be used: it is a file$"):
            audit(str(data), session=LocalSpark(), state=str(tmp_path / "state"))  # type: ignore[arg-type]

    def test_a_page_that_cannot_be_written(self, data: DataDirectory, tmp_path: Path) -> None:
        report = run(data)
        with pytest.raises(ReportError, match="cannot be written"):
            report.write_html(str(tmp_path / "no" / "such.html"))
        report.write_html(str(tmp_path / "audit.html"))
        assert [path.name for path in tmp_path.iterdir() if "audit" in path.name] == ["audit.html"]
