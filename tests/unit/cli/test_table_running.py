"""`tailrace pipeline table` while it runs: what it shows, and how it ends. The job is a stand-in."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.tables.sample_runs import FIRST, REPORT, STATUS, plain
from tailrace.cli.interrupts import Interrupts
from tailrace.cli.table_run import follow
from tailrace.cli.table_shows import BarShow, LineShow
from tailrace.spark.errors import ForeignTableError
from tailrace.spark.tables.job.report import Progress, TableReport
from tailrace.spark.tables.job.status import TableStatus

Captured = pytest.CaptureFixture[str]


def progress(report: TableReport, doing: str = "reading") -> Progress:
    return Progress(doing, 1, 5, 20, 100, report)


def test_a_line_for_each_batch_and_a_summary(capsys: Captured) -> None:
    show = LineShow(as_json=True)
    with show:
        show.told(progress(TableReport("orders", "tables/orders", "delta", "append")))
        show.told(progress(FIRST, "committing"))
        show.told(progress(FIRST, "waiting"))
    show.end(REPORT)
    first, second, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["batch"], first["rows"], first["records"], first["offsets"]) == (1, 22, 22, {"0": 20, "1": 2})
    assert (second["batch"], second["rows"], second["records"]) == (2, 20, 20)
    assert (summary["type"], summary["rows"], summary["records_per_s"]) == ("summary", 42, 42)
    assert summary["removed"] == {"files": 3, "bytes": 700, "versions": 1}


def test_a_bar_and_a_summary_for_people(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with BarShow("orders") as show:
        for doing in ("reading", "committing", "compacting", "retaining", "waiting"):
            show.told(progress(REPORT, doing))
        show.ending()
        show.told(progress(REPORT))
    show.end(REPORT)
    out = plain(capsys.readouterr().out)
    assert "✓ tables/orders: 42 records of orders in 2.0 s" in out
    assert re.search(r"dead letters +3", out)
    assert re.search(r"offsets +0: 0–30 +1: 0–12", out)
    assert re.search(r"removed +1 version, 3 files, 700 B", out)


def test_the_bar_tells_what_is_left_and_never_a_share_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with BarShow("orders") as show:
        show.told(progress(FIRST))
        (task,) = show.bars.tasks
        assert (task.total, task.completed, task.fields["more"].split(" · ")[0]) == (20, 5, "95 records left")
        show.told(Progress("waiting", 1, 0, 0, 0, FIRST))
        assert (task.total, task.fields["more"]) == (None, "")
        show.ending()
        show.told(progress(FIRST))
        assert task.description == "ending after this batch; Ctrl-C again ends at once"


class StubJob:
    """Fails, or runs until it is stopped."""

    def __init__(self, looks: int, error: Exception | None = None) -> None:
        self._looks = looks
        self._error = error
        self.is_stopped = False
        self.report = REPORT
        self.interrupts: Interrupts | None = None

    def wait(self, timeout_s: float | None = None) -> bool:
        self._looks -= 1
        if self._looks > 0:
            return False
        if self._error is not None:
            raise self._error
        assert self.interrupts is not None
        self.interrupts.asked = True
        return False

    def stop(self) -> TableReport:
        self.is_stopped = True
        return REPORT

    def status(self) -> TableStatus:
        return STATUS


def test_it_goes_on_until_it_is_asked_to_end(tmp_path: Path) -> None:
    job, interrupts, metrics = StubJob(3), Interrupts(), tmp_path / "orders.prom"
    job.interrupts = interrupts
    report = follow(job, LineShow(as_json=True), str(metrics), nullcontext(interrupts), clock=lambda: 0.0)
    assert report is REPORT
    assert job.is_stopped
    assert metrics.exists()


def test_a_job_that_fails_ends_it() -> None:
    job = StubJob(2, ForeignTableError("it is another's"))
    with pytest.raises(ForeignTableError):
        follow(job, LineShow(as_json=True), None, nullcontext(Interrupts()))
