"""Markers in another form than brokers write: compaction adds a delete horizon, another writer a header or a codec."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from support.audit.pieces import START_MS, audited, batch, faults_of
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, control_key
from tailrace.spark.auditing.rules import ABORT_WITHOUT_MARKER
from tailrace.storage import names
from tailrace.storage.index_entries import TXN_ENTRY

PRODUCER = 7
OF_PRODUCER = {"producer_id": PRODUCER, "transactional": True}


def marker(**fields: object) -> bytes:
    return _marker((), **fields)


def marker_with_a_header(**fields: object) -> bytes:
    return _marker((("written-by", b"another"),), **fields)


def _marker(headers: tuple[tuple[str, bytes], ...], **fields: object) -> bytes:
    builder = BatchBuilder(3, producer_epoch=0, control=True, leader_epoch=0, **OF_PRODUCER, **fields)  # type: ignore[arg-type]
    builder.append(START_MS + 3, control_key(ABORT), pack(">hi", 0, 5), headers)
    return bytes(builder.build())


@pytest.mark.parametrize(
    "ended",
    [marker(), marker(delete_horizon_ms=START_MS + 86_400_000), marker(codec=1), marker_with_a_header()],
    ids=["as a broker writes it", "compacted", "compressed", "with a header"],
)
def test_a_marker_of_any_form_is_the_abort_that_the_transaction_index_names(tmp_path: Path, ended: bytes) -> None:
    begun = batch(0, 3, producer_epoch=0, base_sequence=0, **OF_PRODUCER)
    index = tmp_path / names.txn_index_name(0)
    index.write_bytes(TXN_ENTRY.pack(0, PRODUCER, 0, 3, 4))
    of = {"indexes": frozenset({index.name})}
    assert faults_of(audited(tmp_path, bytes(begun) + ended, **of)) == []
    without = audited(tmp_path, bytes(begun) + bytes(batch(3, 1)), **of)
    assert [rule for rule, *_ in faults_of(without)] == [ABORT_WITHOUT_MARKER]
