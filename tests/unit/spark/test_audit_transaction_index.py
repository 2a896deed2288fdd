from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.audit.blocks import audited_indexes, segments_of, walk
from support.logs.sample_log import copy_sample, open_sample
from support.logs.verification import FILES, edit, errors
from tailrace.record.builder import batch_of
from tailrace.record.control import ABORT, end_txn_marker
from tailrace.record.shallow import batches
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.rules import ABORT_WITHOUT_MARKER, TRANSACTION_INDEX, UNKNOWN_FORMAT
from tailrace.spark.auditing.task.indexes import TransactionIndexRule
from tailrace.spark.auditing.task.producer_seam import NONE, UNKNOWN
from tailrace.storage.index_entries import TXN_ENTRY
from tailrace.storage.origin import Origin


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


def single(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def transaction_index(sample: Path) -> Path:
    return next(path for path in sample.glob("*.txnindex") if path.stat().st_size)


def test_aborts_that_are_not_there(sample: Path) -> None:
    index = transaction_index(sample)
    version, producer, first, last, stable = TXN_ENTRY.unpack(index.read_bytes())
    for fields, rule in (
        ((1, producer, first, last, stable), TRANSACTION_INDEX),
        ((0, -1, first, last, stable), TRANSACTION_INDEX),
        ((0, producer + 1, first, last, stable), TRANSACTION_INDEX),
        ((0, producer, last + 1, last, stable), TRANSACTION_INDEX),
        ((0, producer, first, last, last + 2), TRANSACTION_INDEX),
        ((0, producer, first, last - 1, stable - 1), TRANSACTION_INDEX),
        ((0, producer, first, last + 1, stable + 1), TRANSACTION_INDEX),
        ((0, producer, first, last + 1000, stable), TRANSACTION_INDEX),
        ((0, producer, first, last, stable - 8), TRANSACTION_INDEX),
        ((0, producer + 1, first, last - 1, stable - 1), ABORT_WITHOUT_MARKER),
        ((0, producer + 1, first, last + 1, stable + 1), ABORT_WITHOUT_MARKER),
        ((0, producer + 1, first, last + 1000, stable), ABORT_WITHOUT_MARKER),
        ((0, producer + 1, first, last + 1000, last + 1001), ABORT_WITHOUT_MARKER),
    ):
        index.write_bytes(TXN_ENTRY.pack(*fields))
        found = single(audited_indexes(sample))
        assert (found.file, found.rule, found.position) == (str(index), rule, 0), fields
        assert errors(sample) != [] or fields[4] == stable - 8
    index.write_bytes(TXN_ENTRY.pack(version, producer, first, last, stable) * 2)
    assert single(audited_indexes(sample)).position == 34


def test_a_version_of_the_future(sample: Path) -> None:
    """Two entries that state it, or one that is nothing of the known version; one that only states it is damaged."""
    index = transaction_index(sample)
    _, producer, first, last, stable = TXN_ENTRY.unpack(index.read_bytes())
    for content in (
        TXN_ENTRY.pack(1, producer, first, last, stable) * 2,
        TXN_ENTRY.pack(3, last, -1, producer, first),
        TXN_ENTRY.pack(3, last, -1, producer, first) + bytes(range(90)),
    ):
        index.write_bytes(content)
        found = single(audited_indexes(sample))
        assert (found.file, found.rule, found.position) == (str(index), UNKNOWN_FORMAT, 0)
        assert found.words.endswith("only 0 is known")


def test_which_aborts_are_indexed(sample: Path) -> None:
    index = transaction_index(sample)
    last = TXN_ENTRY.unpack(index.read_bytes())[3]
    piece = next(piece for piece in segments_of(sample) if index.name in piece.indexes)
    rule = TransactionIndexRule(piece, FILES, lambda _: None)
    assert rule.is_indexed(last)
    assert rule.began_at(last) == TXN_ENTRY.unpack(index.read_bytes())[2]
    assert not rule.is_indexed(last + 1)
    rule.end(0, is_whole=False, is_end_of_file=False)
    assert rule.is_indexed(last)
    edit(index, 1, b"\7")
    rule = TransactionIndexRule(piece, FILES, lambda _: None)
    assert rule.is_indexed(last + 1)
    rule.end(0, is_whole=False, is_end_of_file=False)
    index.unlink()
    without = TransactionIndexRule(segments_of(sample)[-1], FILES, lambda _: None)
    assert not without.is_indexed(last)


def test_the_last_stable_offset_of_an_abort(tmp_path: Path) -> None:
    log = open_sample(tmp_path / "t-0")
    for producer_id in (1, 2, 3):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        log.append_as_leader([batch_of([(1, b"k", b"v")] * 2, **fields)], 0)
    for producer_id in (2, 1, 3):
        marker = end_txn_marker(ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, timestamp=2)
        log.append_as_leader([marker], 0, Origin.COORDINATOR)
    log.close()
    index = transaction_index(tmp_path / "t-0")
    content = index.read_bytes()
    assert [fields[4] for fields in TXN_ENTRY.iter_unpack(content)] == [0, 4, 9]
    assert audited_indexes(tmp_path / "t-0") == []
    for place in range(3):
        for stable in range(10):
            edit(index, 34 * place + 26, stable.to_bytes(8))
            found = audited_indexes(tmp_path / "t-0")
            still_open = ((0, 4), (4,), ())[place]  # its own has ended as well
            is_possible = stable in (*still_open, place + 7)
            assert [finding.position for finding in found] == ([] if is_possible else [34 * place])
        index.write_bytes(content)


def test_a_last_stable_offset_behind_the_marker(tmp_path: Path) -> None:
    """A follower that appends several batches together knows of what begins behind the abort that it indexes."""
    log = open_sample(tmp_path / "t-0")
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader([batch_of([(1, b"k", b"v")] * 2, **fields)], 0)
    marker = end_txn_marker(ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp=2)
    log.append_as_leader([marker], 0, Origin.COORDINATOR)
    log.append_as_leader([batch_of([(1, b"k", b"v")])], 0)
    log.append_as_leader([batch_of([(1, b"k", b"v")] * 2, **fields | {"producer_id": 2})], 0)
    log.close()
    index = transaction_index(tmp_path / "t-0")
    for stable in range(3, 9):
        edit(index, 26, stable.to_bytes(8))
        assert [each.position for each in audited_indexes(tmp_path / "t-0")] == ([] if stable in (3, 4) else [0])
        assert [each.position for each in errors(tmp_path / "t-0")] == ([] if stable < 6 else [0])


def test_the_last_stable_offset_of_an_abort_before_a_cut(tmp_path: Path) -> None:
    """It is where the next piece begins."""
    log = open_sample(tmp_path / "t-0")
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader([batch_of([(1, b"k", b"v")] * 2, **fields)], 0)
    marker = end_txn_marker(ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp=2)
    log.append_as_leader([marker], 0, Origin.COORDINATOR)
    for producer_id in (2, 3):
        fields |= {"producer_id": producer_id}
        log.append_as_leader([batch_of([(1, b"k", b"v")], **fields)], 0)
    marker = end_txn_marker(ABORT, producer_id=3, producer_epoch=0, coordinator_epoch=3, timestamp=2)
    log.append_as_leader([marker], 0, Origin.COORDINATOR)
    log.close()
    whole = segments_of(tmp_path / "t-0")[0]
    data = Path(tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    for at in [batch.position for batch in batches(data)][1:]:
        found: list[Finding] = []
        for start, end in ((0, at), (at, None)):
            piece = replace(whole, start=start, end=end)
            walk(piece, [TransactionIndexRule(piece, FILES, found.append)])
        assert found == []


def test_a_marker_that_its_entry_misses_counts_as_named(sample: Path) -> None:
    index = transaction_index(sample)
    _, producer, first, last, _ = TXN_ENTRY.unpack(index.read_bytes())
    piece = next(piece for piece in segments_of(sample) if index.name in piece.indexes)
    for wrong in (last - 1, last + 1, last + 5000):
        index.write_bytes(TXN_ENTRY.pack(0, producer, first, wrong, wrong + 1))
        rule = TransactionIndexRule(piece, FILES, lambda _: None)
        assert not rule.is_indexed(last)
        walk(piece, [rule])
        assert rule.began_at(last) == UNKNOWN
        assert rule.began_at(last + 2) == NONE
