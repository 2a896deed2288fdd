"""The kernel that admits plain batches does what the long way does, or leaves a batch as it came."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.kernel_forms import FORMS, both_forms, form_of
from support.records.raw_records import INT64_MAX, INT64_MIN, batch, damaged, payloads, record
from tailrace.config.log import LogConfig
from tailrace.model.errors import TailraceError
from tailrace.record.batch import CRC_AT, BatchHeader, crc_of
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.origin import Origin
from tailrace.storage.validator import ValidationRules, admit_plain, plain_rules, prepare_leader_set

EPOCH = 7
NOW_MS = 1_700_000_000_000
RULES = ValidationRules.of(LogConfig())
WITH_KEYS = RULES._replace(require_key=True)


def right_batch(count: int = 3, **fields: int) -> bytearray:
    payload = b"".join(record(number, timestamp_delta=number) for number in range(count))
    return bytearray(batch(payload, count, **{"max_timestamp": 999 + count, **fields})[0])


def admitted(form: SimpleNamespace, data: bytearray, first_offset: int = 100, **changes: Any) -> ShallowBatch | None:
    asked: dict[str, Any] = {"require_key": False, "earliest": INT64_MIN, "latest": INT64_MAX, **changes}
    fields = form.admission.admit(memoryview(data), first_offset, EPOCH, *asked.values())
    return None if fields is None else ShallowBatch(*fields)


def the_long_way(data: bytearray, rules: ValidationRules, first_offset: int = 100) -> ShallowBatch | None:
    """The batch as it is admitted; None where it is refused."""
    try:
        prepared = prepare_leader_set(
            memoryview(data),
            first_offset=first_offset,
            leader_epoch=EPOCH,
            now_ms=NOW_MS,
            rules=rules,
            origin=Origin.CLIENT,
        )
    except TailraceError:
        return None
    return None if prepared is None else prepared.batches[0]


@both_forms
@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("producer", [(-1, -1, -1), (5, 0, 0), (1 << 40, 32767, (1 << 31) - 1), (-2, -3, -4)])
def test_a_right_batch_is_admitted(name: str, count: int, producer: tuple[int, int, int]) -> None:
    producer_id, producer_epoch, base_sequence = producer
    data = right_batch(count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    before, other = bytes(data), bytearray(data)
    found = admitted(form_of(name), data)
    assert found is not None
    assert found == the_long_way(other, RULES)
    assert data == other
    assert data[16:] == before[16:]
    assert struct.unpack_from(">qii", data) == (100, len(data) - 12, EPOCH)
    assert (found.base_offset, found.last_offset, found.max_timestamp) == (100, 99 + count, 999 + count)


@both_forms
@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": 0x01},
        {"attributes": 0x08},
        {"attributes": 0x10},
        {"attributes": 0x20},
        {"attributes": 0x40},
        {"attributes": 0x100},
        {"base_offset": 1},
        {"magic": 1},
        {"last_offset_delta": 3},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 0, "last_offset_delta": -1},
        {"max_timestamp": 1000},
        {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
)
def test_an_unusual_batch_is_left_as_it_came(name: str, fields: dict[str, int]) -> None:
    data = right_batch(**fields)
    before = bytes(data)
    assert admitted(form_of(name), data) is None
    assert data == before


@both_forms
def test_every_bit_counts(name: str) -> None:
    """But for those that belong to the leader: its epoch. What the log's offsets are is asked of each batch."""
    whole = bytes(right_batch())
    for place in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            before = bytes(data)
            if 12 <= place < 16:
                assert admitted(form_of(name), data) is not None
            else:
                assert admitted(form_of(name), data) is None, (place, bit)
                assert data == before


@both_forms
def test_a_cut_batch_is_not_admitted(name: str) -> None:
    whole = right_batch()
    for size in range(len(whole)):
        assert admitted(form_of(name), whole[:size]) is None
    assert admitted(form_of(name), whole + b"\0") is None


@both_forms
def test_rules_about_keys_and_times(name: str) -> None:
    form = form_of(name)
    without_key = bytearray(batch(record(0, key=None), 1)[0])
    assert admitted(form, bytearray(without_key)) is not None
    assert admitted(form, without_key, require_key=True) is None
    assert admitted(form, right_batch(), earliest=1000, latest=1002) is not None
    assert admitted(form, right_batch(), earliest=1001) is None
    assert admitted(form, right_batch(), latest=1001) is None


@both_forms
def test_offsets_end_where_a_log_does(name: str) -> None:
    form = form_of(name)
    assert admitted(form, right_batch(), first_offset=INT64_MAX - 3) is not None
    assert admitted(form, right_batch(), first_offset=INT64_MAX - 2) is None
    assert admitted(form, right_batch(), first_offset=-1) is None


@both_forms
def test_a_large_batch_is_checked_without_the_gil(name: str) -> None:
    data = right_batch(3000)
    data += b"".join(record(number, value=b"v" * 100, timestamp_delta=number) for number in range(3000, 6000))
    stated = BatchHeader.at(data)._replace(
        length=len(data) - 12, record_count=6000, last_offset_delta=5999, max_timestamp=6999
    )
    data[:61] = stated.pack()
    struct.pack_into(">I", data, CRC_AT, crc_of(data, 0, len(data)))
    assert len(data) > 1 << 17
    damaged_one = bytearray(data)
    damaged_one[-1] ^= 1
    assert admitted(form_of(name), damaged_one) is None
    assert admitted(form_of(name), data) is not None


@settings(max_examples=examples(300))
@given(st.one_of(payloads(), damaged()), st.integers(-1, 3), st.booleans(), st.booleans())
def test_it_does_what_the_long_way_does(
    records: tuple[bytes, int], off_by: int, states_its_maximum: bool, require_key: bool
) -> None:
    payload, count = records[0], max(min(records[1], (1 << 31) - 2), 1 - (1 << 31))
    rules = WITH_KEYS if require_key else RULES
    fields = {"record_count": count + max(off_by, 0) // 3, "max_timestamp": 1000 + off_by}
    data = bytearray(batch(payload, count, **fields)[0])
    expected_data = bytearray(data)
    expected = the_long_way(expected_data, rules)
    if states_its_maximum and expected is not None:
        data = bytearray(batch(payload, count, record_count=count, max_timestamp=expected.max_timestamp)[0])
        expected_data = bytearray(data)
        expected = the_long_way(expected_data, rules)
    before = bytes(data)
    plain = plain_rules(rules, NOW_MS)
    assert plain is not None
    asked = {"require_key": require_key, "earliest": plain.earliest_ms, "latest": plain.latest_ms}
    for form in FORMS.values():
        mine = bytearray(before)
        found = admitted(form, mine, **asked)
        if found is None:
            assert mine == before
            assert expected is None or BatchHeader.at(before).max_timestamp != expected.max_timestamp
        else:
            assert found == expected
            assert mine == expected_data


def test_only_what_may_be_patched_in_place_is_asked_for() -> None:
    rules = plain_rules(RULES, NOW_MS)
    assert rules is not None
    data = right_batch()
    assert admit_plain(bytes(data), 0, EPOCH, rules) is None
    assert admit_plain(memoryview(bytes(data)), 0, EPOCH, rules) is None
    assert admit_plain(memoryview(data), 0, EPOCH, rules._replace(max_message_bytes=len(data) - 1)) is None
    assert admit_plain(bytearray(data), 0, EPOCH, rules) is not None
    assert admit_plain(memoryview(data), 0, EPOCH, rules._replace(max_message_bytes=len(data))) is not None


def test_no_batch_is_plain_where_the_topic_changes_it() -> None:
    assert plain_rules(RULES._replace(timestamp_type=1), NOW_MS) is None
    assert plain_rules(RULES._replace(target_codec=4), NOW_MS) is None
    assert plain_rules(RULES._replace(target_codec=0), NOW_MS) is not None
    widest = plain_rules(RULES._replace(before_max_ms=INT64_MAX, after_max_ms=INT64_MAX), NOW_MS)
    assert widest is not None
    assert (widest.earliest_ms, widest.latest_ms) == (NOW_MS - INT64_MAX, INT64_MAX)
