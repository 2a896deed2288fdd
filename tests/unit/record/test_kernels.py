"""Both forms of each kernel: every fault named, every part of a record found, and the two in agreement."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from suite.seeds import examples
from support.records.kernel_forms import both_forms, form_of
from support.records.raw_records import (
    INT64_MAX,
    INT64_MIN,
    Rules,
    Verdict,
    batch,
    cuts,
    damaged,
    disagreements,
    framed,
    payloads,
    record,
    rules_for,
    verdict,
    walked,
)
from tailrace.record import kernels
from tailrace.record.varint import decode_varint, encode_varint, encode_varlong


def test_interpreted_kernels_can_be_forced() -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom tailrace.record import kernels\n"
            "print(kernels.COMPILED, sys.modules[kernels.check_whole.__module__].__file__)",
        ],
        env=os.environ | {"TAILRACE_KERNELS": "interpreted"},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled, file = told.stdout.split()
    assert compiled == "False"
    assert file.endswith("whole.py")


@both_forms
@pytest.mark.spec("RF-05")
def test_right_records_pass(name: str) -> None:
    parts = [
        record(0, timestamp_delta=5),
        record(1, key=None, value=None, timestamp_delta=70000),
        record(2, key=b"", value=b"", headers=[(b"", None), (b"name", b""), (b"n", b"v" * 300)]),
        record(3, key=b"k" * 70, value=b"v" * 200_000, timestamp_delta=-1000),
    ]
    payload = b"".join(parts)
    assert verdict(form_of(name), [payload], Rules(4)) == Verdict(0, 4, 0, 71000, 1)
    assert verdict(form_of(name), [payload], Rules(4), fast=False) == Verdict(0, 4, 0, 71000, 1)
    assert form_of(name).whole.check_all(payload, 0, len(payload), *Rules(4)) == (71000, 1)
    data, _ = batch(payload, 4)
    rows = array("q", bytes(64 * 4))
    assert form_of(name).whole.walk_records(payload, 0, len(payload), 4, 0, 1000, False, rows)
    assert rows[8 * 3 + kernels.VALUE_LENGTH] == 200_000
    assert form_of(name).whole.walk_batches(data, 0, len(data), rows) == (len(data), 4, kernels.AT_END)


def body(*numbers: int, tail: bytes = b"") -> bytes:
    """A record of attributes 0 and the numbers given."""
    return framed(b"\x00" + b"".join(map(encode_varlong, numbers)) + tail)


GOOD = record(0)
FAULTS = [
    pytest.param(b"", Rules(-1), (1, 0, -1), id="count"),
    pytest.param(GOOD + encode_varint(-1) + GOOD, Rules(2), (2, 1, -1), id="length negative"),
    pytest.param(GOOD + b"\xff\xff\xff\xff\x10", Rules(2), (3, 1, 0), id="length over 32 bits"),
    pytest.param(b"\x1a\x00" + b"\xff" * 9 + b"\x02\x00", Rules(1), (3, 0, 0), id="timestamp over 64 bits"),
    pytest.param(framed(b"\x00\x00\x80\x80\x80\x80\x80\x00"), Rules(1), (3, 0, 0), id="offset of six bytes"),
    pytest.param(framed(b""), Rules(1), (14, 0, 0), id="no room for attributes, nothing behind"),
    pytest.param(framed(b"") + b"x", Rules(1), (4, 0, 0), id="no room for attributes"),
    pytest.param(body(0, 0, 5, tail=b"key"), Rules(1), (4, 0, 0), id="key beyond record"),
    pytest.param(body(0, 0, -1, 9, tail=b"value"), Rules(1), (4, 0, 0), id="value beyond record"),
    pytest.param(body(0, 0, -1, -1, 1) + GOOD, Rules(2), (4, 0, 0), id="headers beyond record"),
    pytest.param(body(0, 0, -1, -1, 0, tail=b"left"), Rules(1), (5, 0, 4), id="fields short of record"),
    pytest.param(GOOD + GOOD, Rules(2), (6, 1, 0), id="offset repeated"),
    pytest.param(GOOD + record(2), Rules(2), (6, 1, 2), id="offset gap"),
    pytest.param(record(-1), Rules(1), (6, 0, -1), id="offset negative"),
    pytest.param(body(0, 0, -2, -1, 0), Rules(1), (7, 0, -2), id="key length"),
    pytest.param(body(0, 0, -2, -1, 0), Rules(1, require_key=True), (7, 0, -2), id="key length where required"),
    pytest.param(GOOD + record(1, key=None), Rules(2, require_key=True), (8, 1, -1), id="no key"),
    pytest.param(
        record(0, key=None, timestamp_delta=9), Rules(1, 0, False, True, 0, 8), (8, 0, -1), id="no key and timestamp"
    ),
    pytest.param(record(0, timestamp_delta=9), Rules(1, 0, False, False, 0, 8), (9, 0, 9), id="timestamp late"),
    pytest.param(record(0, timestamp_delta=-2), Rules(1, 0, False, False, 0, 8), (9, 0, -2), id="timestamp early"),
    pytest.param(body(0, 0, -1, -2, 0), Rules(1), (10, 0, -2), id="value length"),
    pytest.param(body(0, 0, -1, -1, -1), Rules(1), (11, 0, -1), id="header count"),
    pytest.param(body(0, 0, -1, -1, 1, -1, -1), Rules(1), (12, 0, -1), id="header key null"),
    pytest.param(body(0, 0, -1, -1, 1, 0, -2), Rules(1), (13, 0, -2), id="header value length"),
    pytest.param(GOOD + record(1)[:-1], Rules(2), (14, 1, 0), id="cut off in a record"),
    pytest.param(GOOD + b"\x80", Rules(2), (14, 1, 0), id="cut off in a length"),
    pytest.param(GOOD, Rules(3), (15, 1, 3), id="fewer records than stated"),
    pytest.param(b"", Rules((1 << 31) - 1), (15, 0, (1 << 31) - 1), id="none of many"),
    pytest.param(GOOD + record(1), Rules(1), (16, 1, 0), id="more records than stated"),
    pytest.param(b"\x00", Rules(0), (16, 0, 0), id="bytes behind no records"),
]


@both_forms
@pytest.mark.spec("RF-11", "RF-05")
@pytest.mark.parametrize(("payload", "rules", "expected"), FAULTS)
def test_each_fault_is_named(name: str, payload: bytes, rules: Rules, expected: tuple[int, int, int]) -> None:
    form = form_of(name)
    assert verdict(form, [payload], rules)[:3] == expected
    assert verdict(form, [payload], rules, fast=False)[:3] == expected
    assert verdict(form, [payload[at : at + 1] for at in range(len(payload))], rules)[:3] == expected
    assert form.whole.check_all(payload, 0, len(payload), *rules) is None


def test_every_fault_has_a_case_and_a_text() -> None:
    assert {case.values[2][0] for case in FAULTS} == set(kernels.FAULTS)


@both_forms
def test_timestamps_wrap_as_in_java(name: str) -> None:
    payload = record(0, timestamp_delta=2)
    form = form_of(name)
    assert verdict(form, [payload], Rules(1, INT64_MAX)) == Verdict(0, 1, 0, -1, -1)
    rows = walked(form, payload, 1, INT64_MAX, INT64_MAX - 1)
    assert rows[:2] == [INT64_MAX, INT64_MIN]
    assert verdict(form, [record(0, timestamp_delta=-5)], Rules(1, INT64_MIN)).max_timestamp == INT64_MAX - 4


@both_forms
def test_a_timestamp_of_none_is_in_every_range(name: str) -> None:
    payload = record(0, timestamp_delta=0)
    assert verdict(form_of(name), [payload], Rules(1, -1, False, False, 500, 600)) == Verdict(0, 1, 0, -1, -1)


@both_forms
def test_with_one_timestamp_deltas_mean_nothing(name: str) -> None:
    payload = record(0, timestamp_delta=99) + record(1, timestamp_delta=7)
    assert verdict(form_of(name), [payload], Rules(2, 550, True, False, 500, 600)) == Verdict(0, 2, 0, 550, 0)


@both_forms
@pytest.mark.spec("RF-05")
def test_walking_finds_the_parts_of_what_kafka_python_wrote(name: str) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    written = [
        (1000, b"key", b"value", []),
        (1007, None, b"v" * 200, [("a", b"1"), ("b", None)]),
        (900, b"k" * 100, None, [("only", b"")]),
    ]
    for index, (timestamp, key, value, headers) in enumerate(written):
        builder.append(index, timestamp, key, value, headers)
    data = bytes(builder.build())
    rows = array("q", bytes(64 * 4))
    assert form_of(name).whole.walk_batches(data, 0, len(data), rows) == (len(data), 3, kernels.AT_END)
    for index, (timestamp, key, value, headers) in enumerate(written):
        row = rows[8 * index : 8 * index + 8].tolist()
        assert row[: kernels.KEY_START] == [index, timestamp]
        for start, length, expected in ((row[2], row[3], key), (row[4], row[5], value)):
            assert (data[start : start + length] if length >= 0 else None) == expected
        assert data[row[kernels.HEADERS_START]] == 2 * len(headers)
        if index < 2:
            length, start = decode_varint(data, row[kernels.HEADERS_END], len(data))
            assert rows[8 * index + 8 + kernels.HEADERS_END] == start + length
    assert rows[8 * 2 + kernels.HEADERS_END] == len(data)


@both_forms
def test_walking_batches_stops_where_a_caller_must_act(name: str) -> None:
    form = form_of(name)
    plain, _ = batch(record(0) + record(1), 2, base_offset=7)
    empty, _ = batch(b"", 0, base_offset=9, last_offset_delta=3)
    packed, _ = batch(record(0), 1, codec=1)
    control, _ = batch(record(0), 1, attributes=0x20)
    old = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(9)
    rows = array("q", bytes(64 * 3))
    for other in (packed, control, old):
        data = b"??" + plain + empty + other + plain
        there = 2 + len(plain + empty)
        assert form.whole.walk_batches(data, 2, len(data), rows) == (there, 2, kernels.NOT_PLAIN)
    assert rows[0] == 7
    assert rows[8] == 8
    assert form.whole.walk_batches(plain * 2, 0, 2 * len(plain), rows) == (len(plain), 2, kernels.ROWS_FULL)
    for cut in range(len(plain)):
        data = plain + plain[:cut]
        assert form.whole.walk_batches(data, 0, len(data), rows) == (len(plain), 2, kernels.AT_END)
    for length in (48, 0, -1, -(1 << 31)):
        data = plain[:8] + length.to_bytes(4, "big", signed=True) + plain[12:]
        assert form.whole.walk_batches(data, 0, len(data), rows) == (0, 0, kernels.BAD_LENGTH)
    for count in (1, 3, -1, (1 << 31) - 1):
        data = plain[:57] + count.to_bytes(4, "big", signed=True) + plain[61:]
        assert form.whole.walk_batches(data, 0, len(data), rows) == (0, 0, kernels.BAD_RECORDS)


@both_forms
def test_walking_takes_append_time_from_the_header(name: str) -> None:
    data, _ = batch(record(0, timestamp_delta=5), 1, attributes=0x08, max_timestamp=777)
    rows = array("q", bytes(64))
    assert form_of(name).whole.walk_batches(data, 0, len(data), rows)[1] == 1
    assert rows[kernels.TIMESTAMP] == 777


@both_forms
def test_ranges_outside_the_buffer_are_refused(name: str) -> None:
    form = form_of(name)
    rows = array("q", bytes(64))
    for start, end in ((-1, 3), (3, 2), (0, len(GOOD) + 1), (len(GOOD) + 1, len(GOOD) + 1)):
        with pytest.raises(IndexError):
            form.whole.check_whole(GOOD, start, end, 0, *Rules(1))
        with pytest.raises(IndexError):
            form.whole.walk_records(GOOD, start, end, 1, 0, 0, False, rows)
        with pytest.raises(IndexError):
            form.whole.walk_batches(GOOD, start, end, rows)
        with pytest.raises(IndexError):
            form.bytewise.BytewiseCheck(*Rules(1)).read_record(GOOD, start, end)
        assert form.whole.check_all(GOOD, start, end, *Rules(1)) is None


@both_forms
@given(data=st.data())
@settings(max_examples=examples(300))
@pytest.mark.spec("RF-11")
def test_where_the_pieces_are_cut_makes_no_difference(name: str, data: st.DataObject) -> None:
    form = form_of(name)
    payload, count = data.draw(st.one_of(payloads(), damaged()))
    rules = data.draw(rules_for(count))
    expected = verdict(form, [payload], rules)
    pieces = data.draw(cuts(payload))
    assert verdict(form, pieces, rules) == expected
    assert verdict(form, pieces, rules, fast=False) == expected
    at_once = form.whole.check_all(payload, 0, len(payload), *rules)
    assert at_once == ((expected.max_timestamp, expected.record_of_max) if expected.status == 0 else None)


@given(data=st.data())
@settings(max_examples=examples(300))
@pytest.mark.spec("RF-11")
def test_compiled_and_interpreted_agree(data: st.DataObject) -> None:
    compiled, interpreted = form_of("compiled"), form_of("interpreted")
    payload, count = data.draw(damaged())
    rules = data.draw(rules_for(count))
    assert verdict(compiled, [payload], rules) == verdict(interpreted, [payload], rules)
    base_offset = data.draw(st.sampled_from([0, INT64_MAX - 1, INT64_MIN]))
    assert walked(compiled, payload, count, base_offset, rules.base_timestamp) == walked(
        interpreted, payload, count, base_offset, rules.base_timestamp
    )


@pytest.mark.spec("RF-11")
def test_compiled_and_interpreted_agree_on_fuzzed_records() -> None:
    form_of("compiled")
    found, statuses = disagreements(seed=1, examples=10_000)
    assert not found
    assert statuses == {0, *kernels.FAULTS}
