"""Indexes and producer snapshots that Kafka wrote, read by us, and written again by us byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.corpus import Golden, case_names, load
from tailrace.env.real.files import RealFiles
from tailrace.storage import producer_snapshot
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.warm import WarmSet

CLEAN_CASES = [name for name in case_names() if not load(name).was_killed]
FILES = RealFiles()


@pytest.fixture
def folder(golden: Golden, tmp_path: Path) -> Path:
    return golden.copy_to(tmp_path)


@pytest.fixture(params=case_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


def index_bytes(golden: Golden) -> int:
    return int(golden.expected["topic_settings"]["segment.index.bytes"])


@pytest.mark.spec("LS-03")
def test_offset_indexes(golden: Golden, folder: Path) -> None:
    for name, wanted in golden.expected["offset_indexes"].items():
        base_offset = int(Path(name).stem)
        index = OffsetIndex(FILES, str(folder / name), base_offset, index_bytes(golden), WarmSet(9))
        found = [tuple(index.entry(n)) for n in range(index.entries)]
        assert found[: len(wanted)] == [(entry["offset"], entry["position"]) for entry in wanted]
        # A killed broker leaves the rest of the preallocated file as zeros.
        assert set(found[len(wanted) :]) <= {(base_offset, 0)}
        index.close()


@pytest.mark.spec("LS-04")
def test_time_indexes(golden: Golden, folder: Path) -> None:
    for name, wanted in golden.expected["time_indexes"].items():
        base_offset = int(Path(name).stem)
        index = TimeIndex(FILES, str(folder / name), base_offset, index_bytes(golden), WarmSet(9))
        found = [tuple(index.entry(n)) for n in range(index.entries)]
        assert found[: len(wanted)] == [(entry["timestamp"], entry["offset"]) for entry in wanted]
        assert set(found[len(wanted) :]) <= {(0, base_offset)}
        index.close()


@pytest.mark.parametrize("name", CLEAN_CASES)
@pytest.mark.spec("LS-03", "LS-04")
def test_indexes_written_by_us_are_the_same_bytes(name: str, tmp_path: Path) -> None:
    golden = load(name)
    for file_name, entries in golden.expected["offset_indexes"].items():
        made = tmp_path / file_name
        offsets = OffsetIndex(FILES, str(made), int(made.stem), index_bytes(golden), WarmSet(9))
        offsets.reset()
        for entry in entries:
            offsets.append(entry["offset"], entry["position"])
        offsets.trim()
        offsets.close()
        assert made.read_bytes() == golden.file(file_name).read_bytes()
    for file_name, entries in golden.expected["time_indexes"].items():
        made = tmp_path / file_name
        times = TimeIndex(FILES, str(made), int(made.stem), index_bytes(golden), WarmSet(9))
        times.reset()
        for entry in entries:
            times.maybe_append(entry["timestamp"], entry["offset"], skip_full_check=True)
        times.trim()
        times.close()
        assert made.read_bytes() == golden.file(file_name).read_bytes()


@pytest.mark.spec("LS-05")
def test_transaction_indexes(golden: Golden, folder: Path, tmp_path: Path) -> None:
    for name, wanted in golden.expected["transaction_indexes"].items():
        entries = [
            AbortedTxn(each["producerId"], each["firstOffset"], each["lastOffset"], each["lastStableOffset"])
            for each in wanted
        ]
        index = TransactionIndex(FILES, str(folder / name), int(Path(name).stem))
        index.sanity_check()
        assert index.all() == entries
        index.close()
        made = TransactionIndex(FILES, str(tmp_path / name), int(Path(name).stem))
        for entry in entries:
            made.append(entry)
        made.sync()
        made.close()
        assert (tmp_path / name).read_bytes() == golden.file(name).read_bytes()


@pytest.mark.spec("LS-30")
def test_producer_snapshots(golden: Golden) -> None:
    for name, wanted in golden.expected["snapshots"].items():
        data = golden.file(name).read_bytes()
        entries = producer_snapshot.decode(data)
        for entry, fields in zip(entries, wanted, strict=True):
            assert entry.producer_id == fields["producerId"]
            assert entry.producer_epoch == fields["producerEpoch"]
            assert entry.coordinator_epoch == fields["coordinatorEpoch"]
            assert entry.txn_first_offset == fields["currentTxnFirstOffset"]
            assert entry.last_timestamp == fields["lastTimestamp"]
            assert [batch._asdict() | {"first_seq": batch.first_seq} for batch in entry.batches] == (
                [
                    {
                        "last_seq": fields["lastSequence"],
                        "last_offset": fields["lastOffset"],
                        "offset_delta": fields["offsetDelta"],
                        "timestamp": fields["timestamp"],
                        "first_seq": fields["firstSequence"],
                    }
                ]
                if "lastOffset" in fields
                else []
            )
        assert producer_snapshot.encode(entries) == data


def test_the_corpus_has_all_kinds_of_files() -> None:
    for kind in ("offset_indexes", "time_indexes", "transaction_indexes", "snapshots"):
        assert sum(len(entries) for name in case_names() for entries in load(name).expected[kind].values()) > 4
    open_transactions = [
        entry["currentTxnFirstOffset"]
        for entries in load("transactions").expected["snapshots"].values()
        for entry in entries
    ]
    assert any(offset is not None for offset in open_transactions)
    killed = load("killed-segments")
    assert any(killed.expected["files"][name] == index_bytes(killed) for name in killed.expected["offset_indexes"])
