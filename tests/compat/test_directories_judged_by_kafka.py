"""Directories that our engine wrote, read by Kafka's DumpLogSegments: every kind of file, every way a log may go.

One run of the tool reads all files, two more check the indexes. What it prints is held against what was put in, and
against what our own readers say. All logs were closed: the tool stumbles over the zeros at the end of an open log's
preallocated indexes, over Kafka's own too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import pytest

from support.kafka.dump_view import (
    Fields,
    aborted_in,
    batch_fields,
    by_producer,
    check_record,
    last_offset,
    producer_fields,
    producers_after,
    text,
    without_records,
)
from support.kafka.log_directories import DIRECTORIES
from support.kafka.tools import FileDump, KafkaComplaintError, check_indexes, dump_log_segments
from support.logs.log_writer import CODECS, TOPIC_ID, Marker, Scribe, Sent
from tailrace.env import Mode
from tailrace.env.real import RealFiles
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage import names, producer_snapshot
from tailrace.storage.checkpoint import CheckpointFile
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, raw_entries
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.verify import verify_directory

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

FILES = RealFiles()
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class Judged(NamedTuple):
    """One directory: what was put into it, and what Kafka says of its files, by name."""

    scribe: Scribe
    dumps: dict[str, FileDump]

    @property
    def directory(self) -> Path:
        return self.scribe.directory

    def of(self, suffix: str) -> list[FileDump]:
        """Of one kind of file, in order of offsets."""
        return [dump for name, dump in sorted(self.dumps.items()) if name.endswith(suffix)]

    @property
    def batches(self) -> list[Fields]:
        return [batch for dump in self.of(".log") for batch in dump.batches]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scribe]:
    folder = tmp_path_factory.mktemp("ours")
    scribes = {}
    for name, write in DIRECTORIES.items():
        scribes[name] = write(folder / f"{name}-0")
        scribes[name].close()
    return scribes


@pytest.fixture(scope="module")
def everything(written: dict[str, Scribe], kafka_jars: None) -> dict[str, Judged]:
    files = [file for scribe in written.values() for file in sorted(scribe.directory.iterdir())]
    dumps = dump_log_segments([file for file in files if file.suffix in DUMPED], allow_gaps=True)
    return {
        name: Judged(scribe, {file.name: dump for file, dump in dumps.items() if file.parent == scribe.directory})
        for name, scribe in written.items()
    }


@pytest.fixture(params=DIRECTORIES)
def judged(request: pytest.FixtureRequest, everything: dict[str, Judged]) -> Judged:
    return everything[request.param]


# -- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-01", "LS-10", "LS-11", "LS-12", "LS-13", "LS-25", "LS-33", "LS-35", "LS-41")
@pytest.mark.spec("RF-01", "RF-04", "RF-06", "RF-07", "RF-08", "RF-12", "RF-19")
def test_kafka_finds_what_was_put_in(judged: Judged) -> None:
    assert len(judged.batches) == len(judged.scribe.written)
    for batch, wanted in zip(judged.batches, judged.scribe.written, strict=True):
        assert last_offset(batch) == wanted.last
        assert {name: batch[name] for name in wanted.fields} == wanted.fields
        assert batch.get("baseOffset", wanted.first) == wanted.first
        assert batch.get("count", len(wanted.records)) == len(wanted.records)
        assert [record["offset"] for record in batch["records"]] == list(wanted.records)
        for record in batch["records"]:
            check_printed(record, wanted.records[record["offset"]])


def check_printed(record: Fields, wanted: Sent | Marker) -> None:
    if isinstance(wanted, Marker):
        assert (record["endTxnMarker"], record["coordinatorEpoch"]) == wanted
        return
    assert record["timestamp"] == wanted.timestamp
    assert record["keySize"] == (-1 if wanted.key is None else len(wanted.key))
    assert record["valueSize"] == (-1 if wanted.value is None else len(wanted.value))
    assert record.get("key") == text(wanted.key)
    assert record.get("payload") == text(wanted.value)
    assert record.get("headerKeys", []) == [name for name, _ in wanted.headers]


@pytest.mark.spec("RF-01", "RF-04", "RF-06", "RF-07")
def test_kafka_reads_every_batch_and_record_as_we_do(judged: Judged) -> None:
    for dump in judged.of(".log"):
        data = dump.path.read_bytes()
        for batch, printed in zip(batches(data), dump.batches, strict=True):
            assert batch_fields(batch) == without_records(printed)
            for record, fields in zip(records_of(data, batch), printed["records"], strict=True):
                check_record(record, fields, batch.is_control, dump.path.name)


@pytest.mark.spec("LS-13", "LS-33", "RF-08")
def test_offsets_are_missing_only_where_they_were_left_out(judged: Judged) -> None:
    present = {offset for written in judged.scribe.written for offset in written.records}
    for dump in judged.of(".log"):
        printed = [record["offset"] for record in dump.records]
        assert printed == sorted(set(printed))
        assert present.issuperset(printed)
        assert sorted(dump.gaps) == [pair for pair in pairwise(printed) if pair[1] != pair[0] + 1]


# -- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-03", "LS-04", "LS-06", "LS-07", "LS-28")
def test_kafka_would_take_every_index_as_it_is(written: dict[str, Scribe]) -> None:
    """Its sanity check, by which a broker decides whether to make an index anew, and every entry against its log."""
    indexes = [
        file
        for scribe in written.values()
        for file in sorted(scribe.directory.iterdir())
        if file.suffix in (".index", ".timeindex")
    ]
    assert sum(file.stat().st_size > 0 for file in indexes) > 100
    check_indexes(indexes)


@pytest.mark.spec("LS-03", "LS-04")
def test_kafka_reads_every_index_entry_as_we_do(judged: Judged) -> None:
    for dump in judged.of(".index"):
        wanted = [{"offset": base + relative, "position": at} for base, (relative, at) in entries(dump, OFFSET_ENTRY)]
        assert dump.entries == wanted
    for dump in judged.of(".timeindex"):
        wanted = [
            {"timestamp": stamp, "offset": base + relative} for base, (stamp, relative) in entries(dump, TIME_ENTRY)
        ]
        assert dump.entries == wanted


def entries(dump: FileDump, form: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The base offset and the fields of each."""
    file = FILES.open(str(dump.path), Mode.READ)
    for entry in raw_entries(file, form):
        yield int(dump.path.stem), entry.fields
    file.close()


@pytest.mark.spec("LS-07", "LS-14")
def test_index_entries_come_as_often_as_kafka_makes_them(judged: Judged) -> None:
    """By the batches that Kafka prints: one entry where more than the interval was written since the last one."""
    if judged.scribe.was_interrupted:
        return
    for dump in judged.of(".log"):
        offsets, times = [], []
        since_last, newest, newest_at = 0, -1, -1
        for batch in dump.batches:
            if batch["maxTimestamp"] > newest:
                newest, newest_at = batch["maxTimestamp"], last_offset(batch)
            if since_last > judged.scribe.config.index_interval_bytes:
                offsets.append({"offset": last_offset(batch), "position": batch["position"]})
                times.append({"timestamp": newest, "offset": newest_at})
                since_last = 0
            since_last += batch["size"]
        times.append({"timestamp": newest, "offset": newest_at})
        assert judged.dumps[dump.path.with_suffix(".index").name].entries == offsets
        assert judged.dumps[dump.path.with_suffix(".timeindex").name].entries == unique_times(times)


def unique_times(times: list[Fields]) -> list[Fields]:
    """An entry needs a later timestamp than the one before; −1 is no timestamp."""
    kept: list[Fields] = []
    for entry in times:
        if entry["timestamp"] > (kept[-1]["timestamp"] if kept else -1):
            kept.append(entry)
    return kept


# -- transactions, producers, epochs ---------------------------------------------------------------------------------


@pytest.mark.spec("LS-05", "LS-13", "LS-31", "LS-33")
def test_aborted_transactions(judged: Judged) -> None:
    printed = [
        AbortedTxn(each["producerId"], each["firstOffset"], each["lastOffset"], each["lastStableOffset"])
        for dump in judged.of(".txnindex")
        for each in dump.entries
    ]
    assert printed == aborted_in(judged.batches)
    ours = [
        entry
        for dump in judged.of(".txnindex")
        for entry in TransactionIndex(FILES, str(dump.path), int(dump.path.stem)).all()
    ]
    assert printed == ours


@pytest.mark.spec("LS-15", "LS-30", "LS-33", "LS-49")
def test_producer_snapshots(judged: Judged) -> None:
    """Of every segment but the first and of the end, and what they say follows from the batches before."""
    offsets = [int(dump.path.stem) for dump in judged.of(".snapshot")]
    bases = [int(dump.path.stem) for dump in judged.of(".log")]
    end = judged.scribe.next_offset
    assert set(offsets) >= {*bases[1:], *([end] if end > bases[0] else [])}
    for dump in judged.of(".snapshot"):
        printed = by_producer(dump.entries)
        ours = producer_snapshot.decode(dump.path.read_bytes())
        assert printed == by_producer(map(producer_fields, ours))
        assert printed == producers_after(judged.batches, int(dump.path.stem)), dump.path.name


@pytest.mark.spec("LS-01", "LS-32", "LS-33", "LS-36")
def test_epochs_and_topic_id(judged: Judged) -> None:
    started: dict[int, int] = {}
    for batch in judged.batches:
        if batch.get("partitionLeaderEpoch", -1) >= 0:
            started.setdefault(batch["partitionLeaderEpoch"], batch["baseOffset"])
    path = judged.directory / names.LEADER_EPOCH_CHECKPOINT
    assert CheckpointFile(FILES, str(path), 0).read() == [f"{epoch} {offset}" for epoch, offset in started.items()]
    assert PartitionMetadata(FILES, str(judged.directory)).read() == TOPIC_ID


# -- what the directories must hold for the tests above to mean something ---------------------------------------------


def test_our_own_verification_agrees(written: dict[str, Scribe]) -> None:
    for scribe in written.values():
        assert list(verify_directory(FILES, str(scribe.directory))) == []


def test_all_kinds_of_files_and_batches_are_there(everything: dict[str, Judged]) -> None:
    for name in ("segments", "transactions", "follower", "idempotent", "killed"):
        assert len(everything[name].of(".log")) >= 4, name
    for name in ("transactions", "truncated", "killed", "preallocated"):
        assert sum(bool(dump.entries) for dump in everything[name].of(".txnindex")) >= 3, name
    for suffix in (".index", ".timeindex"):
        assert sum(len(dump.entries) for judged in everything.values() for dump in judged.of(suffix)) > 100
    stored = [batch for judged in everything.values() for batch in judged.batches]
    assert {(batch["magic"], batch["compresscodec"]) for batch in stored} == {
        *((2, codec) for codec in CODECS),
        *((1, codec) for codec in CODECS[:4]),
        *((0, codec) for codec in CODECS[:3]),
    }
    assert any(batch.get("count") == 0 for batch in stored)
    assert any(batch.get("deleteHorizonMs") for batch in stored)
    assert {batch["timestampType"] for batch in stored} == {"CreateTime", "LogAppendTime", "NoTimestampType"}
    snapshots = [entry for judged in everything.values() for dump in judged.of(".snapshot") for entry in dump.entries]
    assert any(entry["currentTxnFirstOffset"] is not None for entry in snapshots)
    assert any("lastOffset" in entry and entry["lastSequence"] < entry["firstSequence"] for entry in snapshots)


def test_the_judge_bites(everything: dict[str, Judged], tmp_path: Path) -> None:
    """An entry that points into a batch, and one with another timestamp: the tool exits 0, the harness does not."""
    judged = everything["transactions"]
    for suffix, at in ((".index", 7), (".timeindex", 7)):
        dump = next(dump for dump in judged.of(suffix) if dump.entries)
        for kind in (".log", ".index", ".timeindex"):
            file = dump.path.with_suffix(kind)
            (tmp_path / file.name).write_bytes(file.read_bytes())
        spoiled = bytearray(dump.path.read_bytes())
        spoiled[at] ^= 1
        (tmp_path / dump.path.name).write_bytes(spoiled)
        with pytest.raises(KafkaComplaintError, match=r"Mismatches|timestamp|exited"):
            dump_log_segments([tmp_path / dump.path.name])
