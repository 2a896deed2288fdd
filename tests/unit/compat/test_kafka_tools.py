"""The parser of DumpLogSegments' output, on texts that Kafka 4.3.1 printed (`dumps/`, shortened). Needs no Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.kafka import tools as kafka_tools
from support.kafka.tools import (
    KafkaComplaintError,
    check_indexes,
    dump_log_segments,
    parse_dump,
    parse_fields,
    parse_record,
)

DUMPS = Path(__file__).with_name("dumps")
LOGS = Path("/logs")


def sample(name: str) -> str:
    return (DUMPS / name).read_bytes().decode()


def fake_tool(monkeypatch: pytest.MonkeyPatch, output: str, errors: str = "") -> None:
    monkeypatch.setattr(kafka_tools, "run_tool", lambda *arguments: (output, errors))


def test_every_file_of_a_healthy_dump_is_there() -> None:
    dumps = parse_dump(sample("healthy.out"), sample("healthy.err"))
    assert [path.name for path in dumps] == [
        "00000000000000000000.log",
        "00000000000000000001.log",
        "00000000000000000023.index",
        "00000000000000000023.log",
        "00000000000000000023.snapshot",
        "00000000000000000023.timeindex",
        "00000000000000000180.log",
    ]
    assert not any(dump.index_complaints or dump.trailing_bytes for dump in dumps.values())


def test_batch_fields() -> None:
    batch = parse_dump(sample("healthy.out"))[LOGS / "00000000000000000023.log"].batches[0]
    assert {name: value for name, value in batch.items() if name != "records"} == {
        "baseOffset": 23,
        "lastOffset": 27,
        "count": 5,
        "baseSequence": 5,
        "lastSequence": 9,
        "producerId": 12,
        "producerEpoch": 3,
        "partitionLeaderEpoch": 0,
        "isTransactional": True,
        "isControl": False,
        "deleteHorizonMs": None,
        "position": 0,
        "timestampType": "CreateTime",
        "maxTimestamp": 1794733814244,
        "size": 474,
        "magic": 2,
        "compresscodec": "none",
        "crc": 3922361293,
        "isvalid": True,
    }
    assert [record["offset"] for record in batch["records"]] == [23, 24, 25, 26, 27]


def test_record_fields() -> None:
    records = parse_dump(sample("healthy.out"))[LOGS / "00000000000000000180.log"].records
    assert records[4] == {
        "offset": 184,
        "timestampType": "CreateTime",
        "timestamp": 1700010800006,
        "keySize": 13,
        "valueSize": 60,
        "sequence": -1,
        "headerKeys": ["a", "a", "empty"],
        "key": "three headers",
        "payload": "w" * 60,
    }
    assert "key" not in records[0]
    assert records[0]["payload"] == "null key"
    assert records[1]["key"] == "null value"
    assert "payload" not in records[1]
    assert (records[2]["key"], records[2]["payload"]) == ("", "")
    assert not {"key", "payload"} & records[6].keys()
    assert records[7]["headerKeys"] == ["null", ""]


def test_a_key_that_is_not_text_keeps_its_size() -> None:
    record = parse_dump(sample("healthy.out"))[LOGS / "00000000000000000180.log"].records[8]
    assert (record["keySize"], record["valueSize"], record["headerKeys"]) == (245, 200, ["binary"])
    assert record["payload"] == "".join(map(chr, range(10))) * 20


def test_a_cleaned_log_has_empty_batches_horizons_markers_and_gaps() -> None:
    dump = parse_dump(sample("healthy.out"), sample("healthy.err"))[LOGS / "00000000000000000001.log"]
    empty, marker, tombstones = dump.batches
    assert (empty["count"], empty["records"], empty["lastSequence"]) == (0, [], 2)
    assert marker["deleteHorizonMs"] == 1794820222598
    assert marker["records"][0]["endTxnMarker"] == "COMMIT"
    assert marker["records"][0]["coordinatorEpoch"] == 0
    assert [record["valueSize"] for record in tombstones["records"]] == [-1, 39, -1, 42]
    assert dump.gaps[0] == (60, 62)


def test_the_first_offset_of_a_segment_is_no_gap() -> None:
    assert parse_dump(sample("healthy.out"), sample("healthy.err"))[LOGS / "00000000000000000023.log"].gaps == []


def test_legacy_message_sets() -> None:
    batches = parse_dump(sample("healthy.out"))[LOGS / "00000000000000000000.log"].batches
    wrapper = batches[2]
    assert (wrapper["offset"], wrapper["magic"], wrapper["compresscodec"]) == (18, 1, "gzip")
    assert [record["offset"] for record in wrapper["records"]] == list(range(9, 19))
    assert wrapper["records"][0]["isValid"] is True
    assert wrapper["records"][0]["crc"] == 4022548353
    assert batches[3]["timestampType"] == "LogAppendTime"
    assert batches[3]["records"][0]["timestamp"] == batches[3]["maxTimestamp"]


def test_entries_of_indexes_and_snapshots() -> None:
    dumps = parse_dump(sample("healthy.out"))
    assert dumps[LOGS / "00000000000000000023.index"].entries[0] == {"offset": 29, "position": 474}
    assert dumps[LOGS / "00000000000000000023.timeindex"].entries[-1] == {"timestamp": 1794733814285, "offset": 44}
    assert dumps[LOGS / "00000000000000000023.snapshot"].entries == [
        {
            "producerId": 12,
            "producerEpoch": 3,
            "coordinatorEpoch": 0,
            "currentTxnFirstOffset": 18,
            "lastTimestamp": 1794733814243,
            "firstSequence": 0,
            "lastSequence": 4,
            "lastOffset": 22,
            "offsetDelta": 4,
            "timestamp": 1794733814243,
        }
    ]


def test_a_line_break_in_a_payload_does_not_end_the_record() -> None:
    head = "Dumping /logs/0.log\nbaseOffset: 0 position: 0 isvalid: true\n"
    one = "| offset: 0 CreateTime: 5 keySize: 3 valueSize: 9 sequence: -1 headerKeys: [] key: a\nb payload: one\n| two"
    [record] = parse_dump(f"{head}{one}\n")[LOGS / "0.log"].records
    assert (record["key"], record["payload"]) == ("a\nb", "one\n| two")


def test_a_key_that_looks_like_the_tools_own_words() -> None:
    line = "| offset: 0 CreateTime: 5 keySize: 11 valueSize: 3 sequence: 0 headerKeys: [] key:  payload: x payload: yes"
    record = parse_record(line)
    assert (record["key"], record["payload"]) == (" payload: x", "yes")


@pytest.mark.parametrize("line", ["offset: 5 position", "java.lang.Error: at x", "a: b: c d"])
def test_a_line_that_is_no_row_of_fields_is_refused(line: str) -> None:
    with pytest.raises(KafkaComplaintError):
        parse_fields(line)


def test_an_exception_is_a_complaint() -> None:
    with pytest.raises(KafkaComplaintError, match="CorruptRecordException"):
        parse_dump("", sample("zeros.err"))


def test_an_exception_in_the_output_is_a_complaint() -> None:
    text = "Dumping /logs/00000000000000000000.log\nLog starting offset: 0\njava.lang.IllegalStateException: no\n"
    with pytest.raises(KafkaComplaintError, match="IllegalStateException"):
        parse_dump(text)


def test_a_corrupt_snapshot_is_a_complaint() -> None:
    with pytest.raises(KafkaComplaintError, match="Snapshot is corrupt"):
        parse_dump(sample("corrupt-snapshot.out"), sample("corrupt-snapshot.err"))


def test_what_is_wrong_with_an_index_is_kept_with_its_file() -> None:
    dumps = parse_dump(sample("wrong-index.out"), sample("wrong-index.err"))
    assert dumps[LOGS / "00000000000000000000.index"].index_complaints == [
        "Mismatches in",
        "Index offset: 9, log offset: 8",
    ]
    complaints = dumps[LOGS / "00000000000000000000.timeindex"].index_complaints
    assert "Found timestamp mismatch in" in complaints
    assert "Found out of order timestamp in" in complaints
    assert complaints[-1] == "Indexed offset: 16, found log offset: 17"


@pytest.mark.parametrize(
    ("output", "errors", "allowance"),
    [
        ("wrong-index.out", "wrong-index.err", "allow_index_complaints"),
        ("torn.out", None, "allow_trailing_bytes"),
        ("healthy.out", "healthy.err", "allow_gaps"),
    ],
)
def test_a_complaint_raises_unless_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, errors: str | None, allowance: str
) -> None:
    def moved(text: str) -> str:
        return text.replace("/logs", str(tmp_path))

    files = [Path(line.removeprefix("Dumping ")) for line in moved(sample(output)).splitlines() if "Dumping" in line]
    for file in files:
        file.touch()
    fake_tool(monkeypatch, moved(sample(output)), moved(sample(errors)) if errors else "")
    with pytest.raises(KafkaComplaintError):
        dump_log_segments(files)
    assert list(dump_log_segments(files, **{allowance: True})) == files


def test_an_invalid_batch_raises_whatever_is_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000001.log"
    file.write_bytes(b"")
    fake_tool(monkeypatch, sample("corrupt.out").replace("/logs", str(tmp_path)))
    with pytest.raises(KafkaComplaintError, match="not valid"):
        dump_log_segments([file], allow_gaps=True, allow_trailing_bytes=True, allow_index_complaints=True)


def test_silence_about_a_file_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(b"")
    fake_tool(monkeypatch, "")
    with pytest.raises(KafkaComplaintError, match="said nothing"):
        dump_log_segments([file])


def test_a_transaction_index_with_a_cut_entry_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000088.txnindex"
    file.write_bytes(bytes(50))
    entry = "version: 0 producerId: 6 firstOffset: 3 lastOffset: 88 lastStableOffset: 11"
    fake_tool(monkeypatch, f"Dumping {file}\n{entry}\n")
    with pytest.raises(KafkaComplaintError, match="not the whole file"):
        dump_log_segments([file])


def index_checks(monkeypatch: pytest.MonkeyPatch, sanity: str, verify: tuple[str, str]) -> list[str]:
    """A tool that answers so to the two checks; the options it was run with."""
    runs: list[str] = []

    def run(tool: str, option: str, *arguments: str) -> tuple[str, str]:
        runs.append(option)
        return (sanity, "") if option == "--index-sanity-check" else verify

    monkeypatch.setattr(kafka_tools, "run_tool", run)
    return runs


def test_indexes_are_checked_in_both_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full, empty = tmp_path / "00000000000000000000.index", tmp_path / "00000000000000000007.index"
    full.write_bytes(bytes(8))
    empty.touch()
    named = f"Dumping {full}\nDumping {empty}\n"
    sane = f"Dumping {full}\n{full} passed sanity check.\nDumping {empty}\n{empty} is empty.\n"
    runs = index_checks(monkeypatch, sane, (named, ""))
    check_indexes([full, empty])
    assert runs == ["--index-sanity-check", "--verify-index-only"]
    index_checks(monkeypatch, named, (named, ""))
    with pytest.raises(KafkaComplaintError, match="sanity check"):
        check_indexes([full, empty])
    index_checks(monkeypatch, sane, (named, f"Mismatches in :{full}\n  Index offset: 9, log offset: 8\n"))
    with pytest.raises(KafkaComplaintError, match="Mismatches"):
        check_indexes([full, empty])
    index_checks(monkeypatch, sane, (f"Dumping {full}\n", ""))
    with pytest.raises(KafkaComplaintError, match="said nothing"):
        check_indexes([full, empty])


def test_many_files_go_in_several_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = [tmp_path / f"{n:020d}.log" for n in range(5)]
    for file in files:
        file.write_bytes(b"")
    runs: list[list[str]] = []

    def run(*arguments: str) -> tuple[str, str]:
        runs.append(arguments[-1].split(","))
        return "".join(f"Dumping {name}\n" for name in runs[-1]), ""

    monkeypatch.setattr(kafka_tools, "run_tool", run)
    monkeypatch.setattr(kafka_tools, "ARGUMENT_BYTES", 2 * (len(str(files[0])) + 1))
    assert list(dump_log_segments(files)) == files
    assert [len(run) for run in runs] == [2, 2, 1]
    assert all(sum(map(len, run)) + len(run) - 1 <= kafka_tools.ARGUMENT_BYTES for run in runs)


def test_a_comma_in_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="commas"):
        dump_log_segments([tmp_path / "a,b.log"])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path))
    monkeypatch.setattr(kafka_tools.shutil, "which", lambda program: None)
    assert "java" in str(kafka_tools.why_unavailable())
    monkeypatch.setattr(kafka_tools.shutil, "which", lambda program: "/bin/java" if program == "java" else None)
    assert "mvn" in str(kafka_tools.why_unavailable())
    (tmp_path / "done").touch()
    assert kafka_tools.why_unavailable() is None
    assert "mvn" in str(kafka_tools.why_silent())
    (tmp_path / "logging").mkdir()
    (tmp_path / "logging" / "done").touch()
    assert kafka_tools.why_silent() is None
