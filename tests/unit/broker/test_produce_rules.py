"""Which batches a produce request may bring."""

from __future__ import annotations

import pytest

from tailrace.broker.produce_rules import refusal
from tailrace.record.builder import BatchBuilder

CORRUPT, ZSTD_UNKNOWN, INVALID, NOT_AUTHORISED = 2, 76, 87, 53


def batch(codec: int = 0, *, transactional: bool = False) -> bytes:
    ids = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    builder = BatchBuilder(codec=codec, transactional=transactional, **ids)
    builder.append(1000, b"key", b"value")
    return bytes(builder.build())


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


GOOD = batch()


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (GOOD, 0),
        (None, INVALID),
        (b"", INVALID),
        (GOOD[:11], INVALID),
        (GOOD[:16], INVALID),
        (GOOD[:40], INVALID),
        (GOOD[:-1], INVALID),
        (GOOD + GOOD, INVALID),
        (changed(GOOD, 16, b"\x01"), INVALID),
        (changed(GOOD, 16, b"\x07"), CORRUPT),
        (changed(GOOD, 16, b"\xff"), CORRUPT),
        (changed(GOOD, 8, b"\x00\x00\x00\x0d"), CORRUPT),
        (changed(GOOD, 8, b"\xff\xff\xff\xff"), CORRUPT),
        (changed(GOOD, 8, b"\x00\x00\x00\x0d")[:13], CORRUPT),
        (GOOD + b"\x00", 0),
        (GOOD + GOOD[:-1], 0),
        (GOOD + GOOD[:16], 0),
        (GOOD + bytes(12), CORRUPT),
        (GOOD + changed(GOOD, 16, b"\x07"), CORRUPT),
    ],
)
def test_one_whole_batch_of_today_for_each_partition(records: bytes | None, code: int) -> None:
    error = refusal(records, 9, has_transaction=False)
    assert (error.code if error is not None else 0) == code
    if records is not None:
        again = refusal(memoryview(records), 9, has_transaction=False)
        assert (again.code if again is not None else 0) == code


@pytest.mark.parametrize(("version", "code"), [(3, ZSTD_UNKNOWN), (6, ZSTD_UNKNOWN), (7, 0), (13, 0)])
def test_zstd_came_with_version_7(version: int, code: int) -> None:
    error = refusal(batch(codec=4), version, has_transaction=False)
    assert (error.code if error is not None else 0) == code


def test_a_transaction_needs_a_name() -> None:
    error = refusal(batch(transactional=True), 9, has_transaction=False)
    assert error is not None
    assert error.code == NOT_AUTHORISED
    assert refusal(batch(transactional=True), 9, has_transaction=True) is None
