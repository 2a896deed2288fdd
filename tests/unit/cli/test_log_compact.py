from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.logs.data_dirs import DataDirectory, contents, last_values
from support.logs.sample_log import GOLDEN
from support.terminals import run_on_terminal
from tailrace.cli import compact_run, log_compact
from tailrace.cli.compact_plan import make_plan
from tailrace.cli.compact_run import INTERRUPTED, CompactionRun, Settings
from tailrace.cli.main import main
from tailrace.env.real import RealFiles
from tailrace.storage.cleaner.uncleanable import UNCLEANABLE_FILE
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.verify import verify_directory

Captured = pytest.CaptureFixture[str]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
KEYS = 5


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """`customers` was compacted before; `orders` and `clicks` are not known to be."""
    data = DataDirectory(tmp_path / "data")
    data.add("customers-0", 90)
    data.add("orders-0", 60)
    data.add("clicks-0", 60, keyless=True)
    data.cleaned(customers_0=10)
    return data


def run(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = main(["log", "compact", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def items(capsys: Captured, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    found, out, err = run(capsys, *arguments, "--json")
    assert found == code, err
    return [json.loads(line) for line in out.splitlines()]


def cleaner_points(data: DataDirectory) -> dict[str, int]:
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)}


def settings(**changes: Any) -> Settings:
    usual = {
        "delete_retention_ms": 1000,
        "segment_bytes": 1 << 30,
        "min_dirty_ratio": 0.0,
        "threads": 1,
        "dedupe_buffer_bytes": 4 << 20,
        "all_committed": False,
    }
    return Settings.of(**{**usual, **changes})


# What it does


def test_the_last_record_of_each_key_stays(capsys: Captured, data: DataDirectory) -> None:
    before, bases = data.records("customers-0"), data.bases("customers-0")
    sizes = [(data / f"customers-0/{base:020d}.log").stat().st_size for base in bases]
    plan, partition, summary = items(capsys, data)
    after = data.records("customers-0")
    assert last_values(after) == last_values(before)
    inactive = [record for record in after if record.offset < bases[-1]]
    assert len(inactive) == KEYS
    assert [record for record in after if record.offset >= bases[-1]] == [
        record for record in before if record.offset >= bases[-1]
    ]
    assert plan == {
        "type": "plan",
        "directories": [str(data)],
        "topics": {"customers": "cleaned before"},
        "left_topics": ["clicks", "orders"],
        "partitions": 1,
    }
    assert partition == {
        "type": "partition",
        "directory": str(data),
        "topic": "customers",
        "partition": 0,
        "outcome": "compacted",
        "reason": None,
        "bytes_before": sum(sizes),
        "bytes_after": sum(path.stat().st_size for path in (data / "customers-0").glob("*.log")),
        "segments_before": len(bases),
        "segments_after": 2,
        "records_before": bases[-1],
        "records_after": KEYS,
        "keyless_dropped": 0,
        "passes": 1,
    }
    assert (summary["compacted"], summary["failed"], summary["not_shut_down_cleanly"]) == (1, 0, [])
    assert cleaner_points(data) == {"customers-0": bases[-1]}
    assert list(verify_directory(RealFiles(), str(data / "customers-0"))) == []


@pytest.mark.spec("LM-38")
def test_the_directory_is_left_as_a_broker_would_leave_it(capsys: Captured, data: DataDirectory) -> None:
    items(capsys, data)
    assert (data / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":105}', "the epoch stays"
    names = {path.name for path in (data / "customers-0").iterdir()}
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert not (data / UNCLEANABLE_FILE).exists()
    RealFiles().lock(str(data / ".lock")).release()


def test_other_partitions_are_not_touched(capsys: Captured, data: DataDirectory) -> None:
    (data / "lost+found").mkdir()
    shutil.copytree(data / "orders-0", data / "orders-1.0b5f3c2e9d3c4c5a8b7f6e5d4c3b2a10-delete")
    data.cleaned(customers_0=10, orders_0=7)
    os.truncate(next((data / "orders-0").glob("*.index")), 0)  # which opening the log would mend
    before = contents(data.path)
    items(capsys, data, "--topic", "customers")
    after = contents(data.path)
    for files in (before, after):
        for name in list(files):
            if name.startswith("customers-0/") or name in ("cleaner-offset-checkpoint", ".lock"):
                del files[name]
    assert after.pop("log-start-offset-checkpoint") == b"0\n0\n"
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert sorted(after.pop(name).splitlines()) == sorted(before.pop(name).splitlines())
    assert after == before
    assert cleaner_points(data)["orders-0"] == 7


def test_a_second_time_there_is_nothing_to_do(capsys: Captured, data: DataDirectory) -> None:
    items(capsys, data)
    before = contents(data / "customers-0")
    _, partition, _ = items(capsys, data)
    assert (partition["outcome"], partition["passes"]) == ("nothing to do", 0)
    assert contents(data / "customers-0") == before, "opening and closing it has changed nothing"


def test_topics_by_name(capsys: Captured, data: DataDirectory) -> None:
    plan, *partitions, _ = items(capsys, data, "--topic", "orders", "--topic", "customers")
    assert plan["topics"] == {"customers": "asked for", "orders": "asked for"}
    assert [each["outcome"] for each in partitions] == ["compacted", "compacted"]


def test_internal_topics_compact(capsys: Captured, data: DataDirectory) -> None:
    data.add("__consumer_offsets-3", 60)
    plan, *_ = items(capsys, data)
    assert plan["topics"] == {"__consumer_offsets": "internal", "customers": "cleaned before"}


def test_several_directories_of_one_broker(capsys: Captured, data: DataDirectory, tmp_path: Path) -> None:
    other = DataDirectory(tmp_path / "other")
    meta = (other / "meta.properties").read_text()
    (other / "meta.properties").write_text(meta.replace("tuacq", "other"))
    other.add("customers-1", 90)
    _, *partitions, summary = items(capsys, data, f"{other}/", "--threads", 2)
    assert [(each["directory"], each["outcome"]) for each in partitions] == [
        (str(data), "compacted"),
        (str(other), "compacted"),
    ]
    assert summary["partitions"] == 2


def test_what_is_not_replicated_stays(capsys: Captured, data: DataDirectory) -> None:
    bases = data.bases("customers-0")
    data.checkpoint("replication-offset-checkpoint", {"customers-0": bases[2] + 1})
    before = data.records("customers-0")
    items(capsys, data)
    after = data.records("customers-0")
    assert [each for each in after if each.offset >= bases[2]] == [each for each in before if each.offset >= bases[2]]
    assert len(after) < len(before)


def test_without_a_high_watermark_nothing_is_known_to_be_replicated(capsys: Captured, data: DataDirectory) -> None:
    (data / "replication-offset-checkpoint").unlink()
    _, partition, summary = items(capsys, data)
    assert (partition["outcome"], partition["passes"]) == ("no high watermark", 0)
    assert summary["without_high_watermark"] == 1
    _, partition, _ = items(capsys, data, "--all-committed")
    assert partition["outcome"] == "compacted"


def test_a_log_that_is_not_dirty_enough_is_left_alone(capsys: Captured, data: DataDirectory) -> None:
    data.cleaned(customers_0=data.bases("customers-0")[-2])
    assert items(capsys, data, "--min-dirty-ratio", 0.9)[1]["outcome"] == "nothing to do"
    assert items(capsys, data, "--min-dirty-ratio", 0)[1]["outcome"] == "compacted"


def test_several_passes_are_one_partition(capsys: Captured, data: DataDirectory, monkeypatch: Any) -> None:
    def small(memory: int, dice: Any, load_factor: float) -> OffsetMap:
        return OffsetMap(24 * 40, dice, load_factor)

    monkeypatch.setattr("tailrace.storage.compaction.offset_map.OffsetMap", small)
    data.add("keyed-0", 200, keys=100)
    _, partition, _ = items(capsys, data, "--topic", "keyed")
    assert partition["passes"] > 2
    last = data.bases("keyed-0")[-1]
    assert partition["records_before"] == last
    assert partition["records_after"] == len([each for each in data.records("keyed-0") if each.offset < last]) == 100


def test_a_directory_of_kafkas(capsys: Captured, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(GOLDEN / "log-dirs" / "clean", data)
    for name in ("compacted", "transactions"):
        shutil.copytree(GOLDEN / name / f"{name}-0", data / f"{name}-0")
    (data / "cleaner-offset-checkpoint").write_text("0\n1\ncompacted 0 50\n")
    marker, transactions = (data / ".kafka_cleanshutdown").read_bytes(), contents(data / "transactions-0")
    _, partition, _ = items(capsys, data)
    assert partition["outcome"] == "compacted"
    assert (data / ".kafka_cleanshutdown").read_bytes() == marker
    assert contents(data / "transactions-0") == transactions
    assert list(verify_directory(RealFiles(), str(data / "compacted-0"))) == []


# After an unclean stop


@pytest.mark.spec("LM-38")
def test_a_directory_that_was_not_shut_down_cleanly_stays_so(capsys: Captured, tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data", clean=False)
    data.add("customers-0", 90)
    data.add("orders-0", 60)
    torn = sorted((data / "customers-0").glob("*.log"))[-1]
    with torn.open("ab") as file:
        file.write(b"\x00" * 7 + b"torn")
    data.checkpoint("recovery-point-offset-checkpoint", {"customers-0": 20, "orders-0": 0})
    orders = contents(data / "orders-0")
    *_, partition, summary = items(capsys, data, "--topic", "customers")
    assert partition["outcome"] == "compacted"
    assert summary["not_shut_down_cleanly"] == [str(data)]
    assert not (data / ".kafka_cleanshutdown").exists(), "orders was not recovered"
    assert contents(data / "orders-0") == orders
    assert b"torn" not in torn.read_bytes(), "customers was"
    points = (data / "recovery-point-offset-checkpoint").read_text()
    assert sorted(points.splitlines()[2:]) == ["customers 0 90", "orders 0 0"]
    items(capsys, data, "--topic", "customers", "--topic", "orders")
    assert (data / ".kafka_cleanshutdown").exists(), "now every log was"


# Bad input


def refused(capsys: Captured, *arguments: object) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert re.match(r"error: .+\nhint: .+\n$", err), err
    return err


def test_a_directory_in_use(capsys: Captured, data: DataDirectory) -> None:
    before = contents(data / "customers-0")
    lock = RealFiles().lock(str(data / ".lock"))
    try:
        assert f"{data} is in use: another process holds its .lock\nhint: stop the broker first" in refused(
            capsys, data
        )
    finally:
        lock.release()
    assert contents(data / "customers-0") == before


def test_a_broker_that_starts_at_the_same_moment(
    capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.cli.compact_plan.lock_holder", lambda path: None)
    lock = RealFiles().lock(str(data / ".lock"))
    try:
        code, _, err = run(capsys, data)
    finally:
        lock.release()
    assert code == 1
    assert f"error: {data} is used by another process" in err
    assert "hint: stop the broker first" in err


def test_no_directory_is_made_or_given_an_identity(capsys: Captured, data: DataDirectory, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert "missing does not exist" in refused(capsys, tmp_path / "missing")
    assert "file is not a directory" in refused(capsys, tmp_path / "file")
    assert "empty has no meta.properties" in refused(capsys, tmp_path / "empty")
    assert not (tmp_path / "missing").exists()
    assert not list((tmp_path / "empty").iterdir())
    (data / "meta.properties").write_text("broker.id=1\nversion=0\n")
    assert "meta.properties has version '0'" in refused(capsys, data)
    assert not (data / ".lock").exists()


def test_directories_of_two_brokers(capsys: Captured, data: DataDirectory, tmp_path: Path) -> None:
    other = DataDirectory(tmp_path / "other", node=2)
    assert "not one broker's" in refused(capsys, data, other)


def test_the_same_directory_twice(capsys: Captured, data: DataDirectory) -> None:
    code, _, err = run(capsys, data, data)
    assert code == 1
    assert "are one directory" in err


def test_a_topic_that_is_not_there(capsys: Captured, data: DataDirectory) -> None:
    err = refused(capsys, data, "--topic", "customer")
    assert err == "error: no partition of customer is there\nhint: there are clicks, customers, orders\n"


def test_nothing_is_known_to_compact(capsys: Captured, data: DataDirectory) -> None:
    (data / "cleaner-offset-checkpoint").unlink()
    assert "name those whose cleanup.policy is compact with --topic" in refused(capsys, data)


def test_a_damaged_cleaner_checkpoint(capsys: Captured, data: DataDirectory) -> None:
    (data / "cleaner-offset-checkpoint").write_text("0\n7\n")
    assert "hint: name the topics to compact with --topic" in refused(capsys, data)
    code, _, err = run(capsys, data, "--topic", "customers")
    assert code == 0
    assert "warning: " in err
    assert cleaner_points(data) == {"customers-0": data.bases("customers-0")[-1]}


def test_a_damaged_replication_checkpoint(capsys: Captured, data: DataDirectory) -> None:
    (data / "replication-offset-checkpoint").write_text("0\n7\n")
    assert "replication-offset-checkpoint" in refused(capsys, data)


def test_a_topic_that_does_not_look_compacted(capsys: Captured, data: DataDirectory) -> None:
    before = contents(data / "clicks-0")
    err = refused(capsys, data, "--topic", "clicks")
    assert "has a record without a key at offset 1, which compaction would remove" in err
    assert "--drop-keyless" in err
    assert contents(data / "clicks-0") == before
    _, partition, _ = items(capsys, data, "--topic", "clicks", "--drop-keyless")
    assert partition["keyless_dropped"] == data.bases("clicks-0")[-1] // 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--threads", "0"),
        ("--min-dirty-ratio", "2"),
        ("--min-dirty-ratio", "nan"),
        ("--segment-bytes", "1x"),
        ("--delete-retention-ms", "-1"),
        ("--dedupe-buffer-size", "big"),
    ],
)
def test_wrong_usage(capsys: Captured, data: DataDirectory, arguments: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, data, *arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "arguments", [("--segment-bytes", "100"), ("--dedupe-buffer-size", "1m"), ("--threads", "1000")]
)
def test_settings_that_a_broker_would_not_take(
    capsys: Captured, data: DataDirectory, arguments: tuple[str, str]
) -> None:
    code, out, err = run(capsys, data, *arguments)
    assert (code, out) == (1, "")
    assert re.match(r"error: (segment.bytes|log.cleaner.dedupe.buffer.size)=.+\nhint: ", err), err


# What goes wrong


def damage(data: DataDirectory, name: str) -> Path:
    log = sorted((data / name).glob("*.log"))[1]
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    return log


def test_a_damaged_partition_is_named_and_the_others_are_compacted(capsys: Captured, data: DataDirectory) -> None:
    log = damage(data, "customers-0")
    before = contents(data / "customers-0")
    code, out, err = run(capsys, data, "--topic", "customers", "--topic", "orders", "--json")
    assert code == 1
    _, customers, orders, summary = (json.loads(line) for line in out.splitlines())
    assert (customers["outcome"], orders["outcome"], summary["failed"]) == ("failed", "compacted", 1)
    assert log.name in customers["reason"]
    assert f"error: {data}/customers-0 cannot be cleaned: CorruptMessageError: " in err
    assert f"hint: the log is as it was; `tailrace log verify {data}/customers-0` tells" in err
    assert contents(data / "customers-0") == before
    assert (data / ".kafka_cleanshutdown").exists()
    assert main(["log", "dirs", str(data), "--json", "--topic", "customers"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[1])
    assert shown["uncleanable"]["reason"] == customers["reason"]


def test_a_partition_that_cannot_be_opened(capsys: Captured, data: DataDirectory) -> None:
    (data / "customers-0" / "partition.metadata").write_text("version: 0\ntopic_id: garbage\n")
    code, out, err = run(capsys, data, "--topic", "customers", "--topic", "orders", "--json")
    assert code == 1
    _, customers, orders, summary = (json.loads(line) for line in out.splitlines())
    assert (customers["outcome"], orders["outcome"]) == ("failed", "compacted")
    assert "partition.metadata" in customers["reason"]
    assert f"error: {data}/customers-0 cannot be cleaned: " in err
    assert summary["not_shut_down_cleanly"] == [str(data)], "nobody has proven that log"


def test_a_cleaner_that_dies(capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> OffsetMap:
        raise MemoryError("no memory for keys")

    monkeypatch.setattr("tailrace.storage.compaction.offset_map.OffsetMap", no_memory)
    before = contents(data / "customers-0")
    code, _, err = run(capsys, data)
    assert code == 1
    assert "no memory for keys" in err
    assert "error: " in err
    assert contents(data / "customers-0") == before
    assert (data / ".kafka_cleanshutdown").exists()


def test_a_log_that_nobody_cleans(capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.cleaner.worker.CleanerWorker.start", lambda worker: None)
    monkeypatch.setattr(compact_run, "STALLED_TICKS", 2)
    monkeypatch.setattr(compact_run, "TICK_MS", 1)
    code, _, err = run(capsys, data)
    assert code == 1
    assert "no cleaner thread takes it on" in err
    assert (data / ".kafka_cleanshutdown").exists()


# Interrupts


def test_an_interrupt_ends_it_well(data: DataDirectory) -> None:
    before = contents(data / "customers-0")
    plan = make_plan(RealFiles(), [str(data)], [], drops_keyless=False)

    def at_once(compaction: CompactionRun) -> None:
        if compaction.work:
            compaction.interrupt()

    compaction = CompactionRun(plan, settings(), at_once)
    compaction.interrupt()
    compaction.run()
    assert [work.outcome for work in compaction.work.values()] == [INTERRUPTED]
    assert compaction.opened == 0, "before a log was open"
    assert contents(data / "customers-0") == before
    assert (data / ".kafka_cleanshutdown").exists()

    compaction = CompactionRun(plan, settings(), at_once)
    opened = compaction._opened

    def interrupted_when_open() -> None:
        opened()
        compaction.interrupt()

    compaction._opened = interrupted_when_open  # type: ignore[method-assign]
    compaction.run()
    (work,) = compaction.work.values()
    assert work.outcome == INTERRUPTED
    assert contents(data / "customers-0") == before
    assert (data / ".kafka_cleanshutdown").exists()
    RealFiles().lock(str(data / ".lock")).release()


def test_the_signal(capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = CompactionRun._opened

    def signalled_when_open(compaction: CompactionRun) -> None:
        opened(compaction)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CompactionRun, "_opened", signalled_when_open)
    before = signal.getsignal(signal.SIGINT)
    code, out, err = run(capsys, data)
    assert code == 130
    assert "outcome=interrupted" in out
    assert err == f"{log_compact.ENDING}\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_ends_it_at_once(
    capsys: Captured, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = CompactionRun._opened

    def signalled_when_open(compaction: CompactionRun) -> None:
        opened(compaction)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CompactionRun, "_opened", signalled_when_open)
    assert run(capsys, data)[0] == 130
    assert not (data / ".kafka_cleanshutdown").exists()


# How it looks


def on_a_terminal(columns: int, *arguments: object) -> tuple[int, str]:
    command = [sys.executable, "-m", "tailrace", "log", "compact", *map(str, arguments)]
    code, shown = run_on_terminal(command, columns=columns, stderr=subprocess.DEVNULL)
    return code, COLOURS.sub("", shown)


def test_a_terminal_gets_a_bar_and_a_table(data: DataDirectory) -> None:
    data.add("__consumer_offsets-7", 2)
    code, shown = on_a_terminal(80, data)
    assert code == 0
    assert "━━━" in shown, "a progress bar was drawn"
    lines = [line.rpartition("\r")[2] for line in shown.replace("\r\n", "\n").splitlines()]
    assert "  customers           cleaned before" in lines
    assert "  left as they are: clicks, orders" in lines
    (row,) = (line for line in lines if line.startswith("  customers-0"))
    assert re.search(r"KiB → .* KiB +\d+ → 5 +5 → 2 +\d\d %$", row), row
    assert "  __consumer_offsets-7: nothing to compact; active segments stay as they are" in lines
    assert re.search(r" records, 6 → 3 segments: done in \d+\.\d s$", lines[-1])


def test_a_terminal_gets_the_trouble_too(data: DataDirectory) -> None:
    damage(data, "customers-0")
    (data / ".kafka_cleanshutdown").unlink()
    code, shown = on_a_terminal(120, data)
    assert code == 1
    assert "1 partition could not be cleaned" in shown
    assert f"{data} is not marked as shut down cleanly" in shown.replace("\r\n  ", " ").replace("  ", " ")


def test_a_pipe_gets_lines(capsys: Captured, data: DataDirectory) -> None:
    code, out, err = run(capsys, data)
    assert (code, err) == (0, "")
    plan, partition, summary = out.splitlines()
    assert plan == f"plan directories={data} topics=customers left_topics=clicks,orders partitions=1"
    assert partition.startswith(f"partition directory={data} topic=customers partition=0 outcome=compacted ")
    assert summary.startswith("summary partitions=1 compacted=1 failed=0 ")


def test_logging_is_left_as_it_was(capsys: Captured, data: DataDirectory) -> None:
    logger = logging.getLogger("tailrace")
    before = (list(logger.handlers), logger.propagate)
    run(capsys, data)
    assert (list(logger.handlers), logger.propagate) == before
