from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tailrace.cli import crash_show
from tailrace.cli.crash_picture import picture
from tailrace.cli.crash_show import LoggedLines
from tailrace.cli.crash_story import Idempotence, Offsets, SegmentFacts
from tailrace.cli.main import main
from tailrace.storage.append import AppendResult

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One run, in a process of its own as a newcomer starts it."""
    parent = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "tailrace", "demo", "--crash", "--dir", str(parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return parent, done.stdout


def test_it_tells_the_story(shown: tuple[Path, str]) -> None:
    _, out = shown
    words = " ".join(out.split())
    for expected in (
        "45,500 records in batches of every codec",
        "known and not written twice",
        "OUT_OF_ORDER_SEQUENCE",
        "high watermark 65,002 ┘",
        "log end 68,002 ┘",
        "last stable offset 48,002 47,000 1,000",
        "is at offset 45,000",
        "nothing is lost",
        "cut 20000 bytes",
        "no findings.",
    ):
        assert expected in words, expected
    assert "\x1b" not in out, "a pipe gets no colours"


def test_what_it_left_can_be_verified_and_dumped(shown: tuple[Path, str], capsys: Captured) -> None:
    parent, out = shown
    assert f"log verify {parent}/orders-0" in out
    assert main(["log", "verify", str(parent)]) == 0
    assert "4 segments, 138 batches, " in capsys.readouterr().out
    assert main(["log", "dump", str(parent), "--limit", "1"]) == 0
    assert "checkpoint_offset topic=orders partition=0 offset=57502" in capsys.readouterr().out


def test_a_log_that_exists_is_never_touched(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "precious").write_text("kept")
    assert main(["demo", "--crash", "--dir", str(tmp_path)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "orders-0").iterdir()] == ["precious"]


def test_a_place_that_cannot_be_written(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--crash", "--dir", str(tmp_path / "file" / "below")]) == 1
    assert capsys.readouterr().err.startswith("error: make the demo's log: ")


def test_a_surprise_is_not_hidden(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    """Were a batch written twice, the demo would say so and fail."""

    def naive(self: object) -> object:
        return Idempotence(AppendResult(0, 0, -1, 0), AppendResult(1, 1, -1, 0), None)

    monkeypatch.setattr(crash_show.Story, "write_idempotently", naive)
    assert main(["demo", "--crash", "--dir", str(tmp_path)]) == 1
    assert "WRITTEN TWICE" in capsys.readouterr().out


def test_the_picture_is_to_scale() -> None:
    segments = [SegmentFacts("a.log", 0, 50, 10, 1, 1, 0), SegmentFacts("b.log", 50, 100, 10, 1, 1, 0)]
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(picture(segments, Offsets(0, 60, 80, 100, 50), 51))
    lines = captured.get().splitlines()
    assert lines[0].rstrip() == "█" * 24 + "▊" + "█" * 26
    assert [at for at, character in enumerate(lines[1]) if character == "▲"] == [0, 30, 40, 50]
    assert lines[2].startswith("└ log start 0")
    assert lines[3].rstrip() == "last stable offset 60 ┘         │         │".rjust(51)
    assert lines[4].rstrip() == "high watermark 80 ┘         │".rjust(51)
    assert lines[5].rstrip() == "log end 100 ┘".rjust(51)


def test_logged_lines_are_taken_off_stderr_and_given_back() -> None:
    logger = logging.getLogger("tailrace.storage.loader")
    with LoggedLines() as logged:
        logger.warning("cut %d bytes", 7)
    assert logged.lines == ["cut 7 bytes"]
    assert logging.getLogger("tailrace").handlers == []
    assert logging.getLogger("tailrace").propagate


def test_help_teaches_with_examples(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert "tailrace demo --crash --dir data" in capsys.readouterr().out
