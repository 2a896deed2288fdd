from __future__ import annotations

import json
import os
import re
import shutil
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from support.logs.data_dirs import CLUSTER, DIRECTORY, DataDirectory, contents
from support.logs.sample_log import GOLDEN, GOLDEN_PARTITIONS
from support.terminals import run_on_terminal
from tailrace.cli import dir_facts, log_dirs
from tailrace.cli.dir_facts import Cleaning
from tailrace.cli.dir_text import Pictures, bar, percent, shares, shortened
from tailrace.cli.main import main
from tailrace.env.real import RealFile, RealFiles
from tailrace.model.ids import TopicPartition
from tailrace.storage.cleaner.uncleanable import UNCLEANABLE_FILE, Uncleanable

Captured = pytest.CaptureFixture[str]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    data = DataDirectory(tmp_path / "data")
    data.add("orders-0", 100)
    data.add("customers-0", 90)
    return data


def run(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = main(["log", "dirs", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def items(capsys: Captured, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    found, out, _ = run(capsys, *arguments, "--json")
    assert found == code
    return [json.loads(line) for line in out.splitlines()]


def partitions(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{each['topic']}-{each['partition']}": each for each in found if each["type"] == "partition"}


def on_a_terminal(directory: object, columns: int = 120, limit: int | None = None) -> str:
    """As it is drawn, with colours."""
    facts = log_dirs.read(str(directory), (), ())
    console = Console(file=StringIO(), width=columns, force_terminal=True, color_system="standard", highlight=False)
    Pictures(console).show(facts, sorted(facts.partitions, key=log_dirs.ORDERS["size"])[:limit])  # type: ignore[arg-type]
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


# What is told


def test_a_directory_and_its_partitions(capsys: Captured, data: DataDirectory) -> None:
    before = contents(data.path)
    directory, *found = items(capsys, data)
    logs = {name: sum(path.stat().st_size for path in (data / name).glob("*.log")) for name in data.ends}
    assert directory == {
        "type": "directory",
        "path": str(data),
        "cluster_id": CLUSTER,
        "node_id": 1,
        "directory_id": DIRECTORY,
        "in_use": False,
        "pid": None,
        "clean_shutdown": True,
        "partitions": 2,
        "segments": len(data.bases("orders-0")) + len(data.bases("customers-0")),
        "log_bytes": sum(logs.values()),
        "disk_bytes": directory["disk_bytes"],
        "free_bytes": directory["free_bytes"],
        "total_bytes": shutil.disk_usage(data.path).total,
    }
    assert directory["disk_bytes"] >= directory["log_bytes"]
    assert found[0] == {
        "type": "partition",
        "directory": str(data),
        "topic": "orders",
        "partition": 0,
        "log_bytes": logs["orders-0"],
        "disk_bytes": found[0]["disk_bytes"],
        "segments": len(data.bases("orders-0")),
        "log_start": 0,
        "log_end": 100,
        "recovery_point": 100,
        "high_watermark": 100,
        "compacts": False,
        "cleaner_checkpoint": None,
        "clean_bytes": None,
        "dirty_bytes": None,
        "waiting_bytes": None,
        "dirty_ratio": None,
        "uncleanable": None,
        "problem": None,
    }
    assert [each["topic"] for each in found] == ["orders", "customers"], "the largest first"
    assert contents(data.path) == before, "nothing was written, not even a .lock"


def test_what_kafka_wrote(capsys: Captured, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "log-dirs" / "clean", tmp_path / "data")
    for path in GOLDEN_PARTITIONS:
        shutil.copytree(path, tmp_path / "data" / path.name)
    found = partitions(items(capsys, tmp_path / "data"))
    assert len(found) == len(GOLDEN_PARTITIONS)
    assert found["segments-0"]["log_start"] == 17, "from the log-start checkpoint"
    assert found["compacted-0"]["cleaner_checkpoint"] == 117
    checkpointed = {name: each for name, each in found.items() if each["high_watermark"] is not None}
    assert len(checkpointed) > 10
    assert {name: each["log_end"] for name, each in checkpointed.items()} == {
        name: each["high_watermark"] for name, each in checkpointed.items()
    }


def test_clean_dirty_and_what_waits(capsys: Captured, data: DataDirectory) -> None:
    bases = data.bases("customers-0")
    sizes = [(data / f"customers-0/{base:020d}.log").stat().st_size for base in bases]
    data.cleaned(customers_0=bases[2])
    found = partitions(items(capsys, data))
    customers = found["customers-0"]
    assert customers["compacts"]
    assert customers["clean_bytes"] == sum(sizes[:2])
    assert customers["dirty_bytes"] == sum(sizes[2:-1])
    assert customers["waiting_bytes"] == sizes[-1], "the active segment"
    assert customers["dirty_ratio"] == round(sum(sizes[2:-1]) / sum(sizes[:-1]), 4)
    assert not found["orders-0"]["compacts"]


def test_what_is_not_replicated_waits(capsys: Captured, data: DataDirectory) -> None:
    bases = data.bases("customers-0")
    data.cleaned(customers_0=0)
    data.checkpoint("replication-offset-checkpoint", {"customers-0": bases[1] + 1})
    found = partitions(items(capsys, data))["customers-0"]
    assert found["dirty_bytes"] == (data / f"customers-0/{0:020d}.log").stat().st_size
    assert found["dirty_bytes"] + found["waiting_bytes"] == found["log_bytes"]


@pytest.mark.parametrize("checkpoint", [10**9, 0])
def test_a_cleaner_checkpoint_outside_of_the_log_counts_as_none(
    capsys: Captured, data: DataDirectory, checkpoint: int
) -> None:
    data.cleaned(customers_0=checkpoint)
    assert partitions(items(capsys, data))["customers-0"]["dirty_ratio"] == 1.0


def test_topics_that_compact_though_nothing_says_so(capsys: Captured, data: DataDirectory) -> None:
    data.add("__consumer_offsets-7", 3)
    found = partitions(items(capsys, data, "--compacted", "orders"))
    assert {name: each["compacts"] for name, each in found.items()} == {
        "orders-0": True,
        "__consumer_offsets-7": True,
        "customers-0": False,
    }


def test_why_a_log_cannot_be_cleaned(capsys: Captured, data: DataDirectory) -> None:
    why = Uncleanable("CorruptMessageError: \x1b[31mhow", 1_700_000_000_000, 1_700_000_100_000, 3, 60_000)
    entry = {"topic": "customers", "partition": 0, **why._asdict()}
    (data / UNCLEANABLE_FILE).write_text(json.dumps({"version": 0, "partitions": [entry]}))
    assert partitions(items(capsys, data))["customers-0"]["uncleanable"] == {
        "reason": why.reason,
        "since_ms": why.since_ms,
        "failed_ms": why.failed_ms,
        "failures": 3,
        "retry_at_ms": why.retry_at_ms,
    }
    shown = COLOURS.sub("", on_a_terminal(data, columns=70))
    assert "\x1b" not in shown
    assert r"\x1b[31mhow" in shown
    assert "failed 3 times since 2023-11-14T22:13:20Z" in shown
    assert "▒ dirty and cannot be cleaned" in shown


def test_a_directory_in_use(capsys: Captured, data: DataDirectory) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    lock = RealFiles().lock(str(data / ".lock"))
    try:
        directory = items(capsys, data)[0]
        assert (directory["in_use"], directory["pid"], directory["clean_shutdown"]) == (True, None, False)
        assert "in use: a process holds its .lock" in on_a_terminal(data)
    finally:
        lock.release()
    assert "not shut down cleanly" in on_a_terminal(data)


def test_what_else_is_there_is_listed(capsys: Captured, data: DataDirectory) -> None:
    uuid = "0b5f3c2e9d3c4c5a8b7f6e5d4c3b2a10"
    for suffix in ("delete", "stray", "future"):
        shutil.copytree(data / "orders-0", data / f"orders-1.{uuid}-{suffix}")
    for name in (
        "lost+found",
        "nodash",
        "x-y",
        "__cluster_metadata-0",
        "remote-log-index-cache",
        "a-b.c-delete",
    ):
        (data / name).mkdir()
    (data / "notes.txt").write_text("hello")
    (data / "circle-0").symlink_to("circle-0")
    (data / "nowhere-0").symlink_to("nothing")
    (data / "orders-77").write_text("a file, not a partition")
    found = {each["name"]: each for each in items(capsys, data) if each["type"] == "other"}
    assert {name: each["kind"] for name, each in found.items()} == {
        f"orders-1.{uuid}-delete": "deleted, to be removed",
        f"orders-1.{uuid}-stray": "stray, not served",
        f"orders-1.{uuid}-future": "being moved here",
        "lost+found": "unknown directory",
        "nodash": "unknown directory",
        "x-y": "unknown directory",
        "a-b.c-delete": "unknown directory",
        "__cluster_metadata-0": "log of the cluster's metadata",
        "remote-log-index-cache": "index cache of tiered storage",
        "circle-0": "unknown file",
        "nowhere-0": "unknown file",
        "notes.txt": "unknown file",
        "orders-77": "unknown file",
    }
    assert found["notes.txt"]["bytes"] == 5
    assert found["lost+found"]["bytes"] is None
    assert found[f"orders-1.{uuid}-delete"]["bytes"] > 10_000
    assert "also here" in on_a_terminal(data)


# Choosing


def test_order_and_number(capsys: Captured, data: DataDirectory) -> None:
    data.cleaned(customers_0=0)
    data.add("alpha-0", 2)
    expected = {
        "size": ["orders", "customers", "alpha"],
        "name": ["alpha", "customers", "orders"],
        "dirty": ["customers", "alpha", "orders"],
    }
    for order, topics in expected.items():
        found = [each for each in items(capsys, data, "--sort", order) if each["type"] == "partition"]
        assert [each["topic"] for each in found] == topics
    directory, *found = items(capsys, data, "--limit", 1)
    assert directory["partitions"] == 3
    assert [each["topic"] for each in found] == ["orders"]
    assert "… and 2 more" in on_a_terminal(data, limit=1)


def test_a_topic(capsys: Captured, data: DataDirectory) -> None:
    assert list(partitions(items(capsys, data, "--topic", "customers"))) == ["customers-0"]
    code, out, err = run(capsys, data, "--topic", "customers", "--topic", "customer")
    assert code == 1
    assert "topic=customers" in out
    assert "error: no partition of the topic customer is there\nhint: " in err


def test_several_directories(capsys: Captured, data: DataDirectory, tmp_path: Path) -> None:
    other = DataDirectory(tmp_path / "other", node=2, clean=False)
    other.add("orders-1", 5)
    found = items(capsys, data, f"{other}/")
    assert [(each["path"], each["node_id"]) for each in found if each["type"] == "directory"] == [
        (str(data), 1),
        (str(other), 2),
    ]
    assert partitions(found)["orders-1"]["directory"] == str(other)


# Bad input


@pytest.mark.parametrize(
    ("name", "problem", "hint"),
    [
        ("missing", "does not exist", "an entry of log.dirs"),
        ("file", "is not a directory", "an entry of log.dirs"),
        ("empty", "is no data directory: it is empty", "an entry of log.dirs"),
        ("strange", "is no data directory: it holds nothing of a broker", "an entry of log.dirs"),
        ("data/orders-0", "is no data directory: it holds a log's files itself", "give the one above it"),
    ],
)
def test_what_is_no_data_directory(
    capsys: Captured, data: DataDirectory, tmp_path: Path, name: str, problem: str, hint: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange" / "src").mkdir(parents=True)
    code, out, err = run(capsys, tmp_path / name, data)
    assert code == 1
    assert err.startswith(f"error: {tmp_path / name} {problem}")
    assert hint in err.splitlines()[1]
    assert "topic=orders" in out, "the other directory is shown"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("meta.properties", "version=9\n"),
        ("meta.properties", "version=1\n"),
        ("recovery-point-offset-checkpoint", "0\n7\norders 0 1\n"),
        ("replication-offset-checkpoint", "\xff"),
        ("log-start-offset-checkpoint", "1\n0\n"),
        ("cleaner-offset-checkpoint", "0\n1\norders zero 1\n"),
        (UNCLEANABLE_FILE, "{"),
        (UNCLEANABLE_FILE, '{"version": 0, "partitions": [{"topic": "orders"}]}'),
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_told(
    capsys: Captured, data: DataDirectory, file: str, content: str
) -> None:
    (data / file).write_bytes(content.encode("latin-1"))
    code, out, err = run(capsys, data)
    assert code == 1
    assert err.startswith(f"error: {data / file} ")
    assert "\nhint: " in err
    assert "partition=0" in out


def test_an_unreadable_partition_is_named_and_the_others_are_told(capsys: Captured, data: DataDirectory) -> None:
    log = sorted((data / "orders-0").glob("*.log"))[-1]
    log.unlink()
    os.mkfifo(log)
    code, out, err = run(capsys, data, "--json")
    assert code == 1
    assert f"{log}: not a regular file" in err
    found = partitions([json.loads(line) for line in out.splitlines()])
    assert found["customers-0"]["problem"] is None
    assert found["orders-0"]["log_end"] is None
    assert "not a regular file" in found["orders-0"]["problem"]


def test_damage_at_the_end_of_a_log_is_named(capsys: Captured, data: DataDirectory) -> None:
    log = sorted((data / "orders-0").glob("*.log"))[-1]
    with log.open("ab") as file:
        file.write(b"\xff" * 100)
    code, out, err = run(capsys, data)
    assert code == 1
    assert f"error: {log}: no batch stands at position " in err
    assert f"hint: `tailrace log verify {data / 'orders-0'}` tells" in err
    assert "log_end=100" in out


def test_a_partition_without_segments(capsys: Captured, data: DataDirectory) -> None:
    (data / "new-0").mkdir()
    data.checkpoint("log-start-offset-checkpoint", {"new-0": 7})
    found = partitions(items(capsys, data))["new-0"]
    assert (found["segments"], found["log_start"], found["log_end"]) == (0, 7, 7)


def test_a_segment_that_goes_while_we_look(
    capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = dir_facts.find_log_end, []

    def once_gone(*arguments: Any) -> Any:
        looks.append(arguments)
        if len(looks) == 1:
            raise FileNotFoundError
        return look(*arguments)

    monkeypatch.setattr(dir_facts, "find_log_end", once_gone)
    assert partitions(items(capsys, data, "--topic", "orders"))["orders-0"]["log_end"] == 100
    assert len(looks) == 2


def test_a_hostile_name_is_escaped(capsys: Captured, data: DataDirectory) -> None:
    (data / "\x1b[2Jgone").mkdir()
    _, out, _ = run(capsys, data)
    assert "\x1b" not in out
    assert r"name=\"\u001b[2Jgone\"".replace('\\"', '"') in out
    assert "\x1b[2J" not in on_a_terminal(data)


# How it looks


@pytest.mark.parametrize("columns", [66, 80, 120, 200])
def test_a_row_fits_its_terminal(data: DataDirectory, columns: int) -> None:
    data.add("a-topic-with-a-name-that-is-longer-than-anybody-would-like-it-to-be-0", 50)
    data.cleaned(customers_0=20)
    shown = COLOURS.sub("", on_a_terminal(data, columns=columns)).splitlines()
    head = next(place for place, line in enumerate(shown) if line.startswith("  partition"))
    rows = shown[head : head + 4]
    assert all(len(row) <= columns for row in rows), rows
    assert [row.split()[0][-2:] for row in rows[1:]] == ["-0"] * 3
    assert ("high watermark" in rows[0]) == ("recovery point" in rows[0]) == (columns >= 200)


def test_parts_of_a_bar() -> None:
    assert shares((0, 0, 0), 10) == [0, 0, 0]
    assert shares((1, 1, 2), 8) == [2, 2, 4]
    assert shares((10**9, 1, 1), 10) == [8, 1, 1], "what is there can be seen"
    assert shares((1, 0, 0), 10) == [10, 0, 0]
    for parts in ((3, 5, 7), (1, 10**6, 3), (999, 1, 500)):
        assert sum(shares(parts, 13)) == 13
    cleaning = Cleaning(0, 50, 30, 20, 0.375, None)
    assert str(bar(cleaning, 10)) == "█████▓▓▓░░"


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0.0, "0 %"), (0.0001, "1 %"), (0.5, "50 %"), (0.9999, "99 %"), (1.0, "100 %")]
)
def test_percent(ratio: float, shown: str) -> None:
    assert str(percent(Cleaning(0, 1, 1, 1, ratio, None))).strip() == shown


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("orders-0", 8) == "orders-0"
    assert shortened("orders-of-yesterday-17", 12) == "orders…ay-17"
    assert len(shortened(str(TopicPartition("x" * 200, 2**31 - 1)), 16)) == 16


def test_little_is_read_of_each_partition(
    capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that ten thousand take a second or two."""
    read: list[int] = []
    read_at = RealFile.read_at

    def watched(file: RealFile, size: int, position: int) -> bytes:
        found = read_at(file, size, position)
        read.append(len(found))
        return found

    monkeypatch.setattr(RealFile, "read_at", watched)
    run(capsys, data, "--topic", "nothing")
    beside = len(read)
    assert run(capsys, data)[0] == 0
    assert len(read) - 2 * beside <= 2 * 4
    assert sum(read[2 * beside :]) < 2 * 4096


def test_a_terminal_gets_the_picture(data: DataDirectory) -> None:
    code, shown = run_on_terminal([sys.executable, "-m", "tailrace", "log", "dirs", str(data)], columns=120)
    assert code == 0
    assert COLOURS.sub("", shown).replace("\r\n", "\n") == COLOURS.sub("", on_a_terminal(data))
