"""Directories that our engine compacted, read by Kafka's DumpLogSegments.

One run of the tool reads all files, of before and after each clean; two more check the indexes. What it prints of a
directory after a clean is held against what a plain model makes of what it printed before.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from support.compaction.expected_dump import compacted, is_value, shape, table
from support.kafka.compacted_directories import CASES, OLD_FORMATS, Cleaned, write_and_clean
from support.kafka.dump_view import Fields, aborted_in, batch_fields, check_record, without_records
from support.kafka.tools import FileDump, check_indexes, dump_log_segments
from support.logs.log_writer import CODECS
from tailrace.env.real import RealFiles
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.verify import verify_directory

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

FILES = RealFiles()
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class Directory(NamedTuple):
    """What Kafka says of the files of one directory, in order of their names."""

    path: Path
    dumps: dict[str, FileDump]

    def of(self, suffix: str) -> list[FileDump]:
        return [dump for name, dump in sorted(self.dumps.items()) if name.endswith(suffix)]

    @property
    def batches(self) -> list[Fields]:
        return [batch for dump in self.of(".log") for batch in dump.batches]


class Judged(NamedTuple):
    """One clean."""

    cleaned: Cleaned
    before: Directory
    after: Directory


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Cleaned]]:
    folder = tmp_path_factory.mktemp("compacted")
    return {name: write_and_clean(folder, name, case) for name, case in (CASES | OLD_FORMATS).items()}


@pytest.fixture(scope="module")
def everything(written: dict[str, list[Cleaned]], kafka_jars: None) -> dict[str, list[Judged]]:
    files = [
        file
        for cleans in written.values()
        for cleaned in cleans
        for directory in (cleaned.before, cleaned.after)
        for file in sorted(directory.iterdir())
        if file.suffix in DUMPED
    ]
    by_directory: dict[Path, dict[str, FileDump]] = {}
    for file, dump in dump_log_segments(files, allow_gaps=True, allow_index_complaints=True).items():
        by_directory.setdefault(file.parent, {})[file.name] = dump

    def directory(path: Path) -> Directory:
        return Directory(path, by_directory[path])

    return {
        name: [Judged(cleaned, directory(cleaned.before), directory(cleaned.after)) for cleaned in cleans]
        for name, cleans in written.items()
    }


@pytest.fixture(params=CASES)
def judged(request: pytest.FixtureRequest, everything: dict[str, list[Judged]]) -> list[Judged]:
    return everything[request.param]


@pytest.mark.spec("LM-13", "LM-20", "LM-21", "LM-42")
@pytest.mark.spec("RF-13", "RF-14", "RF-15")
def test_kafka_finds_what_compaction_must_leave(judged: list[Judged]) -> None:
    for each in judged:
        wanted = compacted(each.before.batches, each.cleaned.clean)
        assert [shape(batch) for batch in each.after.batches] == wanted
        assert table(each.after.batches) == table(each.before.batches)


@pytest.mark.spec("RF-13")
def test_kafka_reads_every_batch_and_record_as_we_do(judged: list[Judged]) -> None:
    for dump in (dump for each in judged for dump in each.after.of(".log")):
        data = dump.path.read_bytes()
        for batch, printed in zip(batches(data), dump.batches, strict=True):
            assert batch_fields(batch) == without_records(printed)
            for record, fields in zip(records_of(data, batch), printed["records"], strict=True):
                check_record(record, fields, batch.is_control, dump.path.name)


@pytest.mark.spec("LM-13")
def test_old_formats(everything: dict[str, list[Judged]]) -> None:
    """The latest record of each key, tombstones too: the segments are younger than `delete.retention.ms`."""
    for each in everything["old-formats"]:
        records = [record for batch in each.before.batches for record in batch["records"]]
        newest = {record["key"]: record["offset"] for record in records if record["offset"] < each.cleaned.clean.end}
        wanted = [record for record in records if record["offset"] >= newest.get(record["key"], -1)]
        left = [record for batch in each.after.batches for record in batch["records"]]
        assert [kept_of(record) for record in left] == [kept_of(record) for record in wanted]
        assert {batch["magic"] for batch in each.after.batches} == {0, 1, 2}
        assert any(not is_value(record) for record in left)


def kept_of(record: Fields) -> Fields:
    """All of a record but its CRC in the old formats."""
    return {name: value for name, value in record.items() if name != "crc"}


# -- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-28")
def test_kafka_would_take_every_index_as_it_is(written: dict[str, list[Cleaned]]) -> None:
    indexes = [
        file
        for cleans in written.values()
        for cleaned in cleans
        for file in sorted(cleaned.after.iterdir())
        if file.suffix in (".index", ".timeindex")
    ]
    assert sum(file.stat().st_size > 0 for file in indexes) > 80
    check_indexes(indexes, allow_index_complaints=True)


def test_index_entries_agree_with_the_log(judged: list[Judged]) -> None:
    """But for the times of batches without records, which no record says any more.

    Kafka's cleaner enters them too, and its tool takes them for a mismatch in its own directories.
    """
    for each in judged:
        for dump in each.after.of(".index"):
            assert dump.index_complaints == []
        for dump in each.after.of(".timeindex"):
            log = each.after.dumps[dump.path.with_suffix(".log").name]
            empty = {batch["lastOffset"] for batch in log.batches if not batch["count"]}
            unsaid = [entry["timestamp"] for entry in dump.entries if entry["offset"] in empty]
            wanted = [f"Index timestamp: {timestamp}, log timestamp: -1" for timestamp in unsaid]
            assert [line for line in dump.index_complaints if line.startswith("Index ")] == wanted
            assert len(dump.index_complaints) == len(wanted) + bool(wanted)


@pytest.mark.spec("LM-21")
def test_aborted_transactions(judged: list[Judged]) -> None:
    """An entry goes with the clean that meets no batch of its transaction any more; the others stay as they were."""
    for each in judged:
        met = {(entry.producer_id, entry.last_offset) for entry in aborted_in(each.before.batches)}
        wanted = [entry for entry in aborted_entries(each.before) if (entry.producer_id, entry.last_offset) in met]
        assert aborted_entries(each.after) == wanted
        assert len(wanted) == len(met)


def aborted_entries(directory: Directory) -> list[AbortedTxn]:
    return [
        AbortedTxn(entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
        for dump in directory.of(".txnindex")
        for entry in dump.entries
    ]


# -- what the directories must hold for the tests above to mean something ---------------------------------------------


def test_our_own_verification_agrees(written: dict[str, list[Cleaned]]) -> None:
    for cleans in written.values():
        for cleaned in cleans:
            assert list(verify_directory(FILES, str(cleaned.after))) == []


def test_every_kind_of_batch_was_cleaned(everything: dict[str, list[Judged]]) -> None:
    after = {name: [batch for each in everything[name] for batch in each.after.batches] for name in CASES}
    stored = [batch for found in after.values() for batch in found]
    for batch in stored:
        batch["lost"] = batch["lastOffset"] - batch["baseOffset"] + 1 - batch["count"]
    for codec in CODECS:
        assert any(batch["lost"] and batch["compresscodec"] == codec for batch in after[f"overwritten-{codec}"])
        assert any(batch["deleteHorizonMs"] and batch["compresscodec"] == codec for batch in stored)
    assert any(not batch["count"] and batch["isTransactional"] for batch in after["transactions"])
    assert any(not batch["count"] and batch["producerId"] >= 0 for batch in after["idempotent"])
    assert any(batch["isControl"] and batch["deleteHorizonMs"] for batch in stored)
    assert any(not is_value(record) for batch in after["tombstones"] for record in batch["records"])
    kinds = {marker["endTxnMarker"] for batch in stored if batch["isControl"] for marker in batch["records"]}
    assert kinds == {"COMMIT", "ABORT"}
    last = everything["transactions"][-1].after.batches
    assert not [batch for batch in last if batch["isTransactional"] and batch["deleteHorizonMs"]]
    assert segments_made(everything["overwritten-none"][-1]) < 0
    assert segments_made(everything["full-indexes"][0]) > 0
    assert sum(len(aborted_entries(each.after)) for each in everything["transactions"]) > 3


def segments_made(judged: Judged) -> int:
    return len(judged.after.of(".log")) - len(judged.before.of(".log"))
