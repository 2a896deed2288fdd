from __future__ import annotations

import pytest
from foreign_sets import NOW_MS, produced
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.errors import CorruptMessageError, MessageTooLargeError
from tailrace.record.builder import batch_of
from tailrace.storage.append_set import AppendSet, analyse


def analysed(records: bytes | bytearray | memoryview, max_message_bytes: int | None = None) -> AppendSet:
    return analyse(records, max_message_bytes=max_message_bytes, ignore_size=False)


def batch(base_offset: int, *timestamps: int, **fields: int) -> bytearray:
    return batch_of([(timestamp, b"k", b"v") for timestamp in timestamps], base_offset=base_offset, **fields)


def test_a_set_is_summed_up() -> None:
    records = batch(10, 5, 9, 6, leader_epoch=3) + batch(13, 9, leader_epoch=3) + batch(14, 1, 2, leader_epoch=4)

    found = analysed(records)

    assert found.buffer == records
    assert [(b.base_offset, b.last_offset) for b in found.batches] == [(10, 12), (13, 13), (14, 15)]
    assert (found.first_offset, found.last_offset, found.record_count) == (10, 15, 6)
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (9, 12)  # the first of two equals
    assert found.offsets_monotonic
    assert found.valid_bytes == len(records)
    assert found.leader_epoch == 4
    assert found.source_codec == 0


@pytest.mark.spec("LS-39")
@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 40, 61, 62])
def test_bytes_behind_the_last_whole_batch_are_left_out(cut: int) -> None:
    whole = batch(0, 1, 2) + batch(2, 3)

    found = analysed(whole + batch(3, 4, 5)[:cut])

    assert found.buffer == whole
    assert found.valid_bytes == len(whole)
    assert found.last_offset == 2


@pytest.mark.spec("LS-39")
@pytest.mark.parametrize("records", [b"", b"\0" * 11, bytes(batch(0, 1)[:-1])])
def test_without_a_whole_batch_there_are_no_valid_bytes(records: bytes) -> None:
    found = analysed(records)

    assert found.valid_bytes == 0
    assert found.batches == ()
    assert len(found.buffer) == 0
    assert (found.first_offset, found.last_offset, found.max_timestamp, found.offset_of_max_timestamp) == (-1,) * 4


@pytest.mark.spec("RF-10")
def test_a_batch_over_the_greatest_size_condemns_the_set() -> None:
    small, large = batch(0, 1), batch(1, 1, 2, 3)
    records = small + large

    with pytest.raises(MessageTooLargeError, match=f"{len(large)} bytes"):
        analysed(records, max_message_bytes=len(large) - 1)
    assert analysed(records, max_message_bytes=len(large)).valid_bytes == len(records)
    assert analyse(records, max_message_bytes=1, ignore_size=True).valid_bytes == len(records)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("place", [16, 18, -1], ids=["magic", "crc or attributes", "payload"])
def test_damage_in_any_batch_condemns_the_set(magic: int, place: int) -> None:
    records = produced(magic=magic)
    damaged = bytearray(produced(magic=magic))
    damaged[place] ^= 0x40

    with pytest.raises(CorruptMessageError):
        analysed(records + damaged)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48])
def test_a_length_too_small_for_a_batch_is_damage(length: int) -> None:
    records = batch(0, 1)
    records[8:12] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptMessageError, match="length"):
        analysed(records)


def test_a_length_beyond_the_set_is_a_batch_cut_off() -> None:
    records = batch(0, 1)
    records[8:12] = (2**31 - 1).to_bytes(4, "big")

    assert analysed(records).valid_bytes == 0


@pytest.mark.parametrize(
    ("records", "monotonic"),
    [
        (batch(0, 1, 2) + batch(2, 3), True),
        (batch(0, 1, 2) + batch(7, 3), True),
        (batch(0, 1, 2) + batch(1, 3, 4), False),
        (batch(5, 1) + batch(4, 1), False),
    ],
    ids=["adjacent", "gap", "overlap", "backwards"],
)
def test_batches_out_of_order_are_noticed(records: bytearray, monotonic: bool) -> None:
    assert analysed(records).offsets_monotonic is monotonic


def test_messages_of_older_magics() -> None:
    plain = analysed(produced(magic=1))
    wrapper = analysed(produced(magic=1, codec=1))

    assert (plain.first_offset, plain.last_offset, plain.record_count, plain.source_codec) == (0, 2, 3, 0)
    assert (plain.max_timestamp, plain.offset_of_max_timestamp) == (NOW_MS - 1, 1)
    assert (wrapper.first_offset, wrapper.last_offset, wrapper.record_count, wrapper.source_codec) == (-1, 0, -1, 1)
    assert analysed(produced(magic=0)).max_timestamp == -1


def test_nothing_is_copied_or_changed() -> None:
    records = batch(0, 1)
    before = bytes(records)

    found = analysed(records)
    records[0] = 0xFF

    assert found.buffer[0] == 0xFF
    assert before[1:] == records[1:]
    assert analysed(before).buffer.readonly


@given(st.binary(max_size=200), st.integers(0, 2))
def test_any_bytes_end_in_a_set_or_a_typed_error(noise: bytes, magic: int) -> None:
    records = produced(magic=magic) + noise
    try:
        found = analysed(records)
    except CorruptMessageError:
        return
    assert found.valid_bytes >= len(records) - len(noise)
