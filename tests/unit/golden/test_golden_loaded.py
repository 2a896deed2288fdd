"""Directories that Kafka wrote, loaded by our log: records, producers, epochs and indexes are what Kafka's tools print.

Each directory is loaded as Kafka left it, without its disposable indexes, and with everything derived taken away. The
killed ones are recovered by every one of these ways.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden.corpus import Golden, case_names, load
from support.kafka.dump_view import (
    Fields,
    aborted_in,
    batch_fields,
    by_producer,
    check_record,
    last_offset,
    producer_fields,
    producers_after,
    without_records,
)
from support.logs.golden_logs import AS_LEFT, DERIVED, INDEXES, RECOVERED_WHOLE, WAYS, Way, contents, open_golden
from support.logs.verification import all_findings
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.storage import producer_snapshot
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.unified_log import UnifiedLog

SEVERAL_RUNS = ("epochs",)  # written in several runs of the broker, each of which begins to count index.interval.bytes


@pytest.fixture(params=case_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def folder(golden: Golden, tmp_path: Path) -> Path:
    return golden.copy_to(tmp_path)


@pytest.fixture
def log(golden: Golden, folder: Path, way: Way) -> Iterator[UnifiedLog]:
    opened = open_golden(golden, folder, way)
    yield opened
    opened.abandon()


def kafkas_batches(golden: Golden) -> list[Fields]:
    return [batch for name in sorted(golden.expected["logs"]) for batch in golden.expected["logs"][name]]


def segment_bases(golden: Golden) -> list[int]:
    return sorted(int(Path(name).stem) for name in golden.expected["logs"])


def kafkas_end(golden: Golden) -> int:
    return int(golden.expected["answers"]["latest"][0])


def read_all(log: UnifiedLog) -> Iterator[tuple[bytes, ShallowBatch]]:
    """Every batch of the log, through reads of a few batches each."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000).read()
        for batch in batches(data):
            yield data, batch
            offset = batch.next_offset
        if not data:  # the last offsets may have been compacted away
            return


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-17", "LS-25", "LS-28", "RF-01", "RF-04", "RF-06", "RF-07", "RF-12")
def test_every_batch_and_record(golden: Golden, log: UnifiedLog) -> None:
    wanted = [batch for batch in kafkas_batches(golden) if last_offset(batch) >= log.log_start_offset]
    seen = list(read_all(log))
    assert len(seen) == len(wanted)
    for (data, batch), fields in zip(seen, wanted, strict=True):
        assert batch_fields(batch._replace(position=fields["position"])) == without_records(fields)
        for record, printed in zip(records_of(data, batch), fields["records"], strict=True):
            check_record(record, printed, batch.is_control, golden.name)


@pytest.mark.spec("LS-01", "LS-25")
def test_segments_and_ends(golden: Golden, log: UnifiedLog) -> None:
    assert list(log.local.segments.base_offsets) == segment_bases(golden)
    assert log.log_end_offset == kafkas_end(golden)
    assert log.log_start_offset == golden.expected["answers"]["earliest"][0]


# -- producers and transactions --------------------------------------------------------------------------------------


@pytest.mark.spec("LS-30", "LS-31", "LS-38", "LS-44", "LS-49")
def test_producer_state(golden: Golden, log: UnifiedLog) -> None:
    """After a clean shutdown Kafka's own snapshot of the end says it; otherwise the batches do."""
    snapshot = golden.expected["snapshots"].get(f"{kafkas_end(golden):020d}.snapshot")
    assert (snapshot is None) == (golden.was_killed or not kafkas_end(golden))
    wanted = producers_after(kafkas_batches(golden)) if snapshot is None else by_producer(snapshot)
    assert by_producer(map(producer_fields, log.producers.producers.values())) == wanted


@pytest.mark.spec("LS-30")
def test_the_batches_say_what_kafkas_snapshots_say(golden: Golden) -> None:
    """The yardstick of the test above, held against every snapshot of every directory."""
    if "compacted" in golden.name:  # its older snapshots know batches that are no longer there
        return
    for name, snapshot in golden.expected["snapshots"].items():
        assert producers_after(kafkas_batches(golden), int(Path(name).stem)) == by_producer(snapshot), name


@pytest.mark.spec("LS-05", "LS-19", "LS-28")
def test_aborted_transactions(golden: Golden, log: UnifiedLog) -> None:
    printed = golden.expected["transaction_indexes"]
    wanted = [
        AbortedTxn(each["producerId"], each["firstOffset"], each["lastOffset"], each["lastStableOffset"])
        for name in sorted(printed)
        for each in printed[name]
    ]
    assert list(log.aborted_transactions(0, log.log_end_offset)) == wanted
    if "compacted" not in golden.name:
        assert aborted_in(kafkas_batches(golden)) == wanted


# -- epochs ----------------------------------------------------------------------------------------------------------


def kafkas_epochs(golden: Golden) -> list[EpochEntry]:
    """Without those that have no offset: a load forgets them, as Kafka's does."""
    lines = golden.expected["leader_epoch_checkpoint"].splitlines()[2:]
    entries = [EpochEntry(*map(int, line.split())) for line in lines]
    return [entry for entry in entries if entry.start_offset < kafkas_end(golden)]


@pytest.mark.spec("LS-32", "LS-44")
def test_epochs(golden: Golden, log: UnifiedLog) -> None:
    wanted = kafkas_epochs(golden)
    assert list(log.epochs.entries) == wanted
    ends = [entry.start_offset for entry in wanted[1:]] + [kafkas_end(golden)]
    for entry, end in zip(wanted, ends, strict=bool(wanted)):
        assert log.end_offset_for_epoch(entry.epoch) == (entry.epoch, end)


@pytest.mark.spec("LS-32")
@pytest.mark.parametrize("name", [name for name in case_names() if "compacted" not in name])
def test_lost_epochs_are_read_from_the_batches(name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = golden.copy_to(tmp_path)
    (folder / "leader-epoch-checkpoint").unlink()
    log = open_golden(golden, folder, RECOVERED_WHOLE)
    assert list(log.epochs.entries) == kafkas_epochs(golden)
    log.abandon()


# -- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-03", "LS-28")
def test_offset_lookups(golden: Golden, log: UnifiedLog, way: Way) -> None:
    """By Kafka's printed entries, for every offset of every segment."""
    if way is not AS_LEFT and golden.name in SEVERAL_RUNS:
        return
    for segment in log.local.segments:
        printed = golden.expected["offset_indexes"][f"{segment.base_offset:020d}.index"]
        entries = [(segment.base_offset, 0)] + [(entry["offset"], entry["position"]) for entry in printed]
        for offset in range(segment.base_offset, segment.next_offset() + 1):
            floor = bisect_right(entries, offset, key=lambda entry: entry[0]) - 1
            assert tuple(segment.offset_index.lookup(offset)) == entries[floor], (segment, offset)


@pytest.mark.spec("LS-04", "LS-20", "LS-28")
def test_time_lookups(golden: Golden, log: UnifiedLog, way: Way) -> None:
    """By Kafka's printed entries, at and after each of them. The last one of a log that was killed is new."""
    if way is not AS_LEFT and golden.name in SEVERAL_RUNS:
        return
    for segment in log.local.segments:
        printed = golden.expected["time_indexes"][f"{segment.base_offset:020d}.timeindex"]
        entries = [(-1, segment.base_offset)] + [(entry["timestamp"], entry["offset"]) for entry in printed]
        is_unfinished = golden.was_killed and segment is log.local.segments.active
        for stamp in sorted({entry[0] + shift for entry in entries for shift in (0, 1, 1000)}):
            floor = bisect_right(entries, stamp, key=lambda entry: entry[0]) - 1
            if not is_unfinished or stamp <= entries[-1][0]:
                assert tuple(segment.time_index.lookup(stamp)) == entries[floor], (segment, stamp)


@pytest.mark.spec("LS-03", "LS-04", "LS-05", "LS-15", "LS-25", "LS-28", "LS-30", "LS-49")
def test_what_is_made_anew_is_the_same_bytes(golden: Golden, folder: Path) -> None:
    """From the batches alone, without a checkpoint, the files come back as Kafka had made them."""
    open_golden(golden, folder, RECOVERED_WHOLE).close()
    made = contents(folder, lambda name: name.endswith(DERIVED))
    wanted = contents(golden.folder, lambda name: name.endswith(DERIVED))
    bases = segment_bases(golden)
    for name in wanted:
        if name.endswith(".snapshot"):
            if int(Path(name).stem) in (*bases, kafkas_end(golden)):
                assert_same_producers(golden, name, made.pop(name), wanted[name])
        elif golden.was_killed and name.startswith(f"{bases[-1]:020d}") and name.endswith(INDEXES):
            # Kafka had no time to cut the indexes to their entries, and to note the last timestamp.
            entries = wanted[name].rstrip(b"\0")
            assert made.pop(name).startswith(entries)
        elif golden.name not in SEVERAL_RUNS:
            assert made.pop(name) == wanted[name], name
        else:
            made.pop(name)
    assert list(made) == ([f"{kafkas_end(golden):020d}.snapshot"] if golden.was_killed and made else [])


def assert_same_producers(golden: Golden, name: str, made: bytes, wanted: bytes) -> None:
    """The order of entries is Kafka's hash map's. After compaction, older snapshots know batches that are gone."""
    if "compacted" in golden.name and int(Path(name).stem) != kafkas_end(golden):
        return
    assert sorted(producer_snapshot.decode(made)) == sorted(producer_snapshot.decode(wanted)), name


# -- verification ----------------------------------------------------------------------------------------------------


def test_no_findings_after_any_load(golden: Golden, folder: Path, way: Way) -> None:
    log = open_golden(golden, folder, way)
    assert all_findings(folder) == []
    log.close()
    assert all_findings(folder) == []
