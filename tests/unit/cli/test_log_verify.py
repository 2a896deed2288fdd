from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from support.logs.sample_log import GOLDEN, copy_sample
from support.terminals import run_on_terminal
from tailrace.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


def run(capsys: Captured, *arguments: str | Path) -> tuple[int, str]:
    code = main(["log", "verify", *map(str, arguments)])
    return code, capsys.readouterr().out


def contents(directory: Path) -> dict[Path, tuple[bytes, int]]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def damage(sample: Path) -> Path:
    log = sorted(sample.glob("*.log"))[0]
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    return log


def test_a_good_partition(capsys: Captured, sample: Path) -> None:
    before = contents(sample)
    total = sum(log.stat().st_size for log in sample.glob("*.log"))
    segments = len(list(sample.glob("*.log")))
    assert run(capsys, sample) == (0, f"{segments} segments, 16 batches, {total:,} bytes: no findings\n")
    assert contents(sample) == before, "nothing was written"


def test_a_damaged_batch_is_one_line_and_exit_code_1(capsys: Captured, sample: Path) -> None:
    log = damage(sample)
    code, out = run(capsys, sample)
    assert code == 1
    finding, summary = out.splitlines()
    assert finding.startswith(f"error: {log} at position 0: batch of magic 2 with last offset 2 has CRC ")
    assert summary.endswith(" bytes: 1 error")


def test_notes_are_shown_and_harmless(capsys: Captured, sample: Path) -> None:
    (sample / "00000000000000000000.log.deleted").write_bytes(b"")
    code, out = run(capsys, sample)
    assert code == 0
    assert out.startswith(f"note: {sample}/00000000000000000000.log.deleted: is to be deleted")
    assert out.endswith("no errors, 1 note\n")


def test_json(capsys: Captured, sample: Path) -> None:
    log = damage(sample)
    (sample / "stranger").write_bytes(b"")
    code, out = run(capsys, sample, "--json")
    assert code == 1
    note, error, summary = (json.loads(line) for line in out.splitlines())
    assert note["severity"] == "note"
    assert error == {
        "type": "finding",
        "directory": str(sample),
        "file": log.name,
        "position": 0,
        "problem": error["problem"],
        "severity": "error",
    }
    assert (summary["type"], summary["errors"], summary["notes"], summary["batches"]) == ("summary", 1, 1, 16)


def test_a_directory_of_partitions(capsys: Captured, sample: Path) -> None:
    copy_sample(sample.parent / "t-1")
    (sample.parent / "lost+found").mkdir()
    (sample.parent / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 32\n")
    code, out = run(capsys, sample.parent)
    assert (code, " 32 batches, " in out) == (0, True)
    (sample.parent / "recovery-point-offset-checkpoint").write_text("0\n7\nt 0 32\n")
    code, out = run(capsys, sample.parent)
    assert code == 1
    assert f"error: {sample.parent}/recovery-point-offset-checkpoint: has 1 entries, but says '7'" in out


def test_several_directories(capsys: Captured, sample: Path) -> None:
    second = copy_sample(sample.parent / "t-1")
    assert " 32 batches, " in run(capsys, sample, f"{second}/")[1]


def test_what_kafka_wrote(capsys: Captured) -> None:
    assert run(capsys, GOLDEN / "transactions")[1] == "6 segments, 26 batches, 7,727 bytes: no findings\n"
    assert run(capsys, GOLDEN / "log-dirs" / "clean")[0] == 0


def test_an_empty_partition_is_fine(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert run(capsys, tmp_path / "t-0") == (0, "0 segments, 0 batches, 0 bytes: no findings\n")


@pytest.mark.parametrize(
    ("name", "words"), [("missing", "does not exist"), ("file", "is not a directory"), ("empty", "holds no")]
)
def test_what_is_no_directory_of_a_log(capsys: Captured, tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert main(["log", "verify", str(tmp_path / name)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {tmp_path / name} {words}" in captured.err
    assert "hint: give a partition's directory" in captured.err


def test_what_is_no_regular_file_is_a_finding_and_is_not_waited_for(capsys: Captured, sample: Path) -> None:
    for name in ("00000000000000009999.log", "00000000000000000000.snapshot", "leader-epoch-checkpoint"):
        (sample / name).unlink(missing_ok=True)
        os.mkfifo(sample / name)
    code, out = run(capsys, sample)
    assert code == 1
    assert out.count("cannot be read: not a regular file") == 3


def test_hostile_names_are_escaped(capsys: Captured, sample: Path) -> None:
    (sample / "\x1b[2Jgone").write_bytes(b"")
    _, out = run(capsys, sample)
    assert "\x1b" not in out
    assert r"\x1b[2Jgone" in out


def test_a_terminal_gets_colour_and_a_bar(sample: Path) -> None:
    damage(sample)
    code, shown = run_on_terminal([sys.executable, "-m", "tailrace", "log", "verify", sample], columns=200)
    assert code == 1
    assert "1 error" in shown
    assert "\x1b[1;31merror: " in shown


def test_help_teaches_with_examples(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["log", "verify", "--help"])
    assert "tailrace log verify data" in capsys.readouterr().out
