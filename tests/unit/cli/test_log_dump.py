from __future__ import annotations

import base64
import io
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from suite.seeds import examples
from support.logs.sample_log import ABORTING, GOLDEN, GOLDEN_PARTITIONS, START_MS, TOPIC_ID, copy_sample
from support.terminals import run_on_terminal
from tailrace.cli.dump_items import log_items
from tailrace.cli.dump_text import Tables
from tailrace.cli.main import main
from tailrace.cli.output import shown_bytes
from tailrace.env.real import RealFiles
from tailrace.record.builder import batch_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


def dumped(capsys: Captured, *arguments: str | Path) -> str:
    assert main(["log", "dump", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def json_items(capsys: Captured, *arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dumped(capsys, "--json", *arguments).splitlines()]


def first_log(directory: Path) -> Path:
    return sorted(directory.glob("*.log"))[0]


# Against what Kafka's own tool said about the same files


def golden_case(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory.parent / "expected.json").read_text())
    return found


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_batches_are_dumped_as_kafka_dumps_them(capsys: Captured, directory: Path) -> None:
    for name, batches in golden_case(directory)["logs"].items():
        found = json_items(capsys, directory / name)
        assert len(found) == len(batches)
        for item, batch in zip(found, batches, strict=True):
            assert item["crc_ok"] is batch["isvalid"]
            assert item["position"] == batch["position"]
            assert item["bytes"] == batch["size"]
            assert item["magic"] == batch["magic"]
            assert item["codec"] == batch["compresscodec"]
            assert item["max_timestamp"] == batch["maxTimestamp"]
            assert int(item["crc"], 16) == batch["crc"]
            assert item["timestamp_type"] == (None if batch["magic"] == 0 else batch["timestampType"])
            if batch["magic"] < 2:
                assert item["last_offset"] == batch["offset"]
                continue
            assert item["base_offset"] == batch["baseOffset"]
            assert item["last_offset"] == batch["lastOffset"]
            assert item["records"] == batch["count"]
            assert item["leader_epoch"] == batch["partitionLeaderEpoch"]
            assert item["delete_horizon_ms"] == batch["deleteHorizonMs"]
            assert (item["producer_id"], item["producer_epoch"]) == (batch["producerId"], batch["producerEpoch"])
            assert (item["base_sequence"], item["last_sequence"]) == (batch["baseSequence"], batch["lastSequence"])
            assert (item["transactional"], item["control"]) == (batch["isTransactional"], batch["isControl"])


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_records_are_dumped_as_kafka_dumps_them(capsys: Captured, directory: Path) -> None:
    for name, batches in golden_case(directory)["logs"].items():
        found = [item for item in json_items(capsys, "--records", directory / name) if item["type"] == "record"]
        expected = [record for batch in batches for record in batch["records"]]
        assert [item["offset"] for item in found] == [record["offset"] for record in expected]
        for item, record in zip(found, expected, strict=True):
            assert item["timestamp"] == record["timestamp"]
            if "payload" in record and item["control"] is None:
                assert item["value"] == record["payload"]


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_indexes_and_snapshots_are_dumped_as_kafka_dumps_them(capsys: Captured, directory: Path) -> None:
    case = golden_case(directory)
    for name, entries in case["offset_indexes"].items():
        found = [item for item in json_items(capsys, directory / name) if item["type"] != "preallocated"]
        assert [(item["offset"], item["log_position"]) for item in found] == [
            (entry["offset"], entry["position"]) for entry in entries
        ]
    for name, entries in case["time_indexes"].items():
        found = [item for item in json_items(capsys, directory / name) if item["type"] != "preallocated"]
        assert [(item["timestamp"], item["offset"]) for item in found] == [
            (entry["timestamp"], entry["offset"]) for entry in entries
        ]
    for name, entries in case["transaction_indexes"].items():
        keys = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        assert [tuple(item[key] for key in keys) for item in json_items(capsys, directory / name)] == [
            (entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
            for entry in entries
        ]
    for name, entries in case["snapshots"].items():
        keys = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "coordinator_epoch")
        found = json_items(capsys, directory / name)
        assert sorted(tuple(item[key] for key in keys) for item in found) == sorted(
            (
                entry["producerId"],
                entry["producerEpoch"],
                entry.get("lastSequence", -1),
                entry.get("lastOffset", -1),
                entry["coordinatorEpoch"],
            )
            for entry in entries
        )


# What is shown


def test_a_directory_is_dumped_whole_and_in_order(capsys: Captured, sample: Path) -> None:
    files = list(dict.fromkeys(item["file"] for item in json_items(capsys, sample)))
    names = [file.removeprefix(f"{sample}/") for file in files]
    assert names[:2] == ["leader-epoch-checkpoint", "partition.metadata"]
    assert names[2:5] == [f"00000000000000000000.{kind}" for kind in ("log", "index", "timeindex")]
    offsets = [int(name[:20]) for name in names[2:]]
    assert offsets == sorted(offsets)
    assert {name.partition(".")[2] for name in names[2:]} == {"log", "index", "timeindex", "txnindex", "snapshot"}


def test_a_directory_of_partitions_begins_with_its_checkpoints(capsys: Captured, sample: Path) -> None:
    (sample.parent / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 32\n")
    (sample.parent / "meta.properties").write_text("version=1\n")
    items = json_items(capsys, sample.parent)
    assert items[0] == {
        "file": f"{sample.parent}/recovery-point-offset-checkpoint",
        "type": "checkpoint_offset",
        "topic": "t",
        "partition": 0,
        "offset": 32,
    }
    assert {item["file"].rpartition("/")[0] for item in items[1:]} == {str(sample)}


def test_small_files(capsys: Captured, sample: Path) -> None:
    assert [
        (item["epoch"], item["start_offset"]) for item in json_items(capsys, sample / "leader-epoch-checkpoint")
    ] == [
        (0, 0),
        (1, 15),
    ]
    assert json_items(capsys, sample / "partition.metadata")[0]["topic_id"] == str(TOPIC_ID)


def test_the_plain_line_of_a_batch(capsys: Captured, sample: Path) -> None:
    log = first_log(sample)
    lines = dumped(capsys, log, "--limit", "2").splitlines()
    assert lines[0] == f"# {log}"
    assert lines[1] == (
        "batch offsets=0..2 records=3 position=0 bytes=133 magic=2 epoch=0 codec=none clock=CreateTime "
        "max_timestamp=2023-11-14T22:13:20.002Z crc=ok"
    )
    assert lines[2].startswith("batch offsets=3..5 records=3 position=133 ")
    assert " codec=gzip " in lines[2]
    assert len(lines) == 3


def test_binary_keys_and_escape_sequences_are_harmless_text(capsys: Captured, sample: Path) -> None:
    text = dumped(capsys, sample, "--records")
    assert r"key=b'\xff\x00key'" in text
    assert r'value="quoted \"text\"\x1b[31m"' in text
    assert r'"head"=b' in text
    assert r'"none"=null' in text
    assert "control=abort by coordinator epoch 3" in text
    assert "\x1b" not in text


def test_bytes_that_are_not_utf8_are_base64_in_json(capsys: Captured, sample: Path) -> None:
    records = [item for item in json_items(capsys, sample, "--records") if item["type"] == "record"]
    odd = next(record for record in records if record["key_base64"] is not None)
    assert odd["key"] is None
    assert base64.b64decode(odd["key_base64"]) == b"\xff\x00key"
    assert (odd["value"], odd["value_base64"]) == ('quoted "text"\x1b[31m', None)
    assert odd["headers"] == [
        {"key": "head", "key_base64": None, "value": None, "value_base64": base64.b64encode(b"\xfe").decode()},
        {"key": "none", "key_base64": None, "value": None, "value_base64": None},
    ]
    marker = next(record for record in records if record["control"] == "abort")
    assert marker["coordinator_epoch"] == 3
    assert len({frozenset(record) for record in records}) == 1, "every record has the same keys"


def test_limit_counts_batches_and_not_their_records(capsys: Captured, sample: Path) -> None:
    items = json_items(capsys, first_log(sample), "--records", "--limit", "2")
    assert [item["type"] for item in items] == ["batch", "record", "record", "record"] * 2


@pytest.mark.parametrize("limit", ["0", "-3", "many"])
def test_a_limit_that_is_none_is_wrong_usage(limit: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["log", "dump", "somewhere", "--limit", limit])
    assert exit_info.value.code == 2


def test_room_for_later_entries_is_said_and_not_listed(capsys: Captured, sample: Path) -> None:
    for kind in ("index", "timeindex"):
        index = sample / f"00000000000000000000.{kind}"
        size = index.stat().st_size
        index.write_bytes(index.read_bytes() + bytes(240))
        assert json_items(capsys, index)[-1] == {
            "file": str(index),
            "type": "preallocated",
            "position": size,
            "bytes": 240,
        }
        index.write_bytes(bytes(240))
        assert [item["type"] for item in json_items(capsys, index)] == ["preallocated"]
    log = first_log(sample)
    log.write_bytes(log.read_bytes() + bytes(5000))
    assert json_items(capsys, log)[-1]["bytes"] == 5000


def test_a_time_index_that_says_timestamp_zero(capsys: Captured, tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000007.timeindex"
    index.write_bytes(bytes(12))
    (item,) = json_items(capsys, index)
    assert (item["timestamp"], item["offset"]) == (0, 7)


def test_files_on_their_way_out_are_dumped_too(capsys: Captured, sample: Path) -> None:
    log = first_log(sample)
    renamed = log.rename(log.with_name(log.name + ".deleted"))
    assert json_items(capsys, renamed)[0]["type"] == "batch"


# What cannot be shown


def failed(capsys: Captured, *arguments: str | Path) -> tuple[str, str]:
    assert main(["log", "dump", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err.startswith("error: ")
    return captured.out, captured.err


def test_a_file_that_is_missing(capsys: Captured, sample: Path) -> None:
    _, err = failed(capsys, sample / "00000000000000000001.log")
    assert "does not exist" in err
    assert "hint: " in err
    assert "00000000000000000000.index" in err
    _, err = failed(capsys, sample / "deeper" / "x.log")
    assert f"hint: {sample}/deeper does not exist either" in err


def test_a_file_of_another_kind(capsys: Captured, tmp_path: Path) -> None:
    stranger = tmp_path / "notes.txt"
    stranger.write_text("hello")
    _, err = failed(capsys, stranger)
    assert "none of a log's files" in err
    assert "hint: dump reads .log" in err
    _, err = failed(capsys, tmp_path)
    assert "holds no files of a log" in err
    os.mkfifo(tmp_path / "pipe.log")
    _, err = failed(capsys, tmp_path / "pipe.log")
    assert "no regular file" in err


def test_paths_that_cannot_be_looked_up(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "dangling.log").symlink_to(tmp_path / "nowhere")
    assert main(["log", "dump", str(tmp_path / "dangling.log"), "x" * 300, ""]) == 1
    err = capsys.readouterr().err
    assert f"error: {tmp_path}/dangling.log is a link to a file that does not exist" in err
    assert f"error: read {'x' * 300}: File name too long" in err
    assert "error: '' does not exist" in err


def test_text_with_the_name_of_a_log(capsys: Captured, tmp_path: Path) -> None:
    fake = tmp_path / "00000000000000000000.log"
    fake.write_text("this is plain text and not a log at all\n" * 10)
    out, err = failed(capsys, fake)
    assert out == ""
    assert f"{fake}: batch at position 0 has magic" in err


def test_a_truncated_log_is_shown_up_to_the_damage(capsys: Captured, sample: Path) -> None:
    log = first_log(sample)
    log.write_bytes(log.read_bytes()[:200])
    out, err = failed(capsys, log)
    assert out.count("batch offsets=") == 1
    assert "the batch at position 133 is not whole; the 67 bytes from there on are not shown" in err
    assert "hint: `tailrace log verify`" in err


def test_a_wrong_crc_is_shown_and_its_records_are_not(capsys: Captured, sample: Path) -> None:
    log = first_log(sample)
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    items = json_items(capsys, log, "--records")
    assert items[0]["crc_ok"] is False
    assert items[1]["type"] == "unreadable"
    assert items[2]["crc_ok"] is True
    assert " crc=WRONG (" in dumped(capsys, log)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("00000000000000000000.index", bytes(9), "not a multiple of its 8-byte entries"),
        ("00000000000000000000.timeindex", bytes(23) + b"\x01", "followed by other bytes"),
        ("00000000000000000000.txnindex", struct.pack(">hqqqq", 9, 1, 1, 1, 1), "has version 9"),
        ("0.index", bytes(8), "does not begin with the 20 digits"),
        ("00000000000000000000.snapshot", b"\x00\x01", "its header alone has 10"),
        ("leader-epoch-checkpoint", b"0\n1\n", "has 0 entries, but says '1'"),
        ("partition.metadata", b"nothing", "begins with 'nothing'"),
        ("recovery-point-offset-checkpoint", b"\xff\xfe", "is not UTF-8 text"),
        ("log-start-offset-checkpoint", b"0\n1\nt zero 1\n", "not topic partition offset"),
    ],
)
def test_damaged_small_files(capsys: Captured, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    _, err = failed(capsys, tmp_path / name)
    assert words in err
    assert err.count(str(tmp_path)) == 1, "the file is named once"


def test_one_bad_file_does_not_hide_the_others(capsys: Captured, sample: Path) -> None:
    (sample / "00000000000000000000.index").write_bytes(b"bad")
    out, err = failed(capsys, "missing.log", sample)
    assert err.count("error: ") == 2
    assert out.count("batch offsets=") == 16


def test_names_with_escape_sequences_are_harmless(capsys: Captured, tmp_path: Path) -> None:
    _, err = failed(capsys, tmp_path / "\x1b[31mred.log")
    assert "\x1b" not in err


@settings(max_examples=examples(150))
@given(data=st.binary(max_size=300), kind=st.sampled_from(["log", "index", "timeindex", "txnindex", "snapshot"]))
def test_any_bytes_are_dumped_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str) -> None:
    path = tmp_path_factory.mktemp("any") / f"00000000000000000000.{kind}"
    path.write_bytes(bytes(batch_of([(START_MS, b"k", b"v")])) + data if kind == "log" else data)
    stdout, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert main(["log", "dump", "--records", str(path)]) in (0, 1)
    finally:
        sys.stdout = stdout


# On a terminal


def drawn(path: Path, width: int, *, with_records: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False, color_system=None)
    Tables(console, with_records=with_records).write(
        str(path), log_items(RealFiles(), str(path), with_records=with_records)
    )
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_wide_terminal_gets_a_table_and_a_narrow_one_lines(sample: Path) -> None:
    wide = drawn(first_log(sample), 140).splitlines()
    assert wide[1].split()[:4] == ["offsets", "records", "position", "bytes"]
    assert "magic" not in wide[1], "a column that says nothing but the usual is left out"
    assert wide[2].split()[:2] == ["0..2", "3"]
    narrow = drawn(first_log(sample), 60)
    assert "batch offsets=0..2" in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines()[1:])


def test_records_stand_under_their_batch(sample: Path) -> None:
    lines = drawn(first_log(sample), 200, with_records=True).splitlines()
    assert lines[1].strip().startswith("batch offsets=0..2")
    assert lines[2].split() == ["offset", "timestamp", "key", "value"]
    assert lines[3].split()[0] == "0"
    assert '"key-0"' in lines[3]


def test_the_terminal_is_asked_for(sample: Path) -> None:
    """The whole way: a process whose output is a terminal."""
    code, shown = run_on_terminal([sys.executable, "-m", "tailrace", "log", "dump", sample / "partition.metadata"])
    assert code == 0
    assert "topic id" in shown


# The rest


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", '""'),
        (b'a "b" \\c', r'"a \"b\" \\c"'),
        ("größe".encode(), '"größe"'),
        (b"tab\there", r'"tab\there"'),
        ("\u202eevil".encode(), r'"\u202eevil"'),
        (b"\xff", r"b'\xff'"),
    ],
)
def test_bytes_for_people(data: bytes | None, text: str) -> None:
    assert shown_bytes(data) == text


def test_help_teaches_with_examples(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["log", "dump", "--help"])
    assert "tailrace log dump data/orders-0" in capsys.readouterr().out


def test_the_group_alone_shows_its_commands(capsys: Captured) -> None:
    assert main(["log"]) == 2
    assert "dump" in capsys.readouterr().err


def test_offset_checkpoints_of_kafka(capsys: Captured) -> None:
    items = json_items(capsys, GOLDEN / "log-dirs" / "clean" / "recovery-point-offset-checkpoint")
    assert {(item["topic"], item["offset"]) for item in items} >= {("codecs", 290), ("empty", 0)}


def test_an_aborted_transaction(capsys: Captured, sample: Path) -> None:
    (item,) = json_items(capsys, next(sample.glob("*.txnindex")))
    assert (item["producer_id"], item["first_offset"], item["last_offset"]) == (ABORTING, 25, 27)
