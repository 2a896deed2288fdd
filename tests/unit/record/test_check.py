"""The check of a batch: right batches of every codec pass, wrong ones raise the typed error, lies cost no memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.raw_records import INT64_MAX, INT64_MIN, batch, cuts, damaged, payloads, record, rules_for
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnsupportedCompressionError,
)
from tailrace.record.batch import BatchHeader
from tailrace.record.check import CheckedRecords, RecordCheck, check_batch
from tailrace.record.varint import encode_varint

CODECS = range(5)
BOMB_BYTES = 64 << 20


def check(data: bytes, header: BatchHeader, position: int = 0, **rules: int) -> CheckedRecords:
    allowed = {"require_key": False, "earliest_ms": INT64_MIN, "latest_ms": INT64_MAX}
    return check_batch(data, position, header, **(allowed | rules))  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.spec("RF-05")
def test_right_batches_pass(codec: int) -> None:
    payload = b"".join(record(index, timestamp_delta=min(index, 30), headers=[(b"h", None)]) for index in range(50))
    data, header = batch(payload, 50, codec)
    assert check(data, header) == CheckedRecords(1030, 30)
    assert check(b"123" + data + b"456", header, 3) == (1030, 30)
    assert check(memoryview(bytearray(data)), header).offset_delta_of_max == 30


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (record(0) + record(2), 2, "record 1 of the batch: its offset delta is 2, not 1"),
        (record(1) + record(0), 2, "record 0 of the batch: its offset delta is 1, not 0"),
        (record(0), 2, "record 1 of the batch: the batch ends before it but states 2 records"),
        (record(0) + record(1), 1, "record 1 of the batch: the batch states 1 records but goes on behind them"),
        (record(0), (1 << 31) - 1, "record 1 of the batch: the batch ends before it"),
        (record(0), -1, "the batch states -1 records"),
        (record(0)[:-1], 1, "record 0 of the batch: the batch ends within it"),
    ],
)
def test_wrong_records_are_invalid(codec: int, payload: bytes, count: int, reason: str) -> None:
    data, header = batch(payload, count, codec, last_offset_delta=0)
    with pytest.raises(InvalidRecordError, match=reason) as caught:
        check(data, header)
    assert caught.value.record_index == int(count != -1 and reason[7] == "1")


@pytest.mark.parametrize("codec", CODECS)
def test_a_key_can_be_required(codec: int) -> None:
    data, header = batch(record(0) + record(1, key=b"") + record(2, key=None), 3, codec)
    assert check(data, header) == (1000, 0)
    with pytest.raises(InvalidRecordError, match="record 2 of the batch: it has no key"):
        check(data, header, require_key=True)


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_must_be_in_range(codec: int) -> None:
    data, header = batch(record(0) + record(1, timestamp_delta=10), 2, codec)
    assert check(data, header, earliest_ms=1000, latest_ms=1010) == (1010, 1)
    for wrong in ({"latest_ms": 1009}, {"earliest_ms": 1001}):
        with pytest.raises(InvalidTimestampError, match="is out of the allowed range"):
            check(data, header, **wrong)


def test_limits_beyond_64_bits_are_no_limits() -> None:
    data, header = batch(record(0), 1)
    assert check(data, header, earliest_ms=-(1 << 70), latest_ms=1 << 70) == (1000, 0)


@pytest.mark.parametrize("codec", CODECS)
def test_records_without_timestamp_are_in_every_range(codec: int) -> None:
    data, header = batch(record(0), 1, codec, base_timestamp=-1)
    assert check(data, header, earliest_ms=5, latest_ms=6) == (-1, -1)


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_stands_for_every_record(codec: int) -> None:
    data, header = batch(record(0) + record(1, timestamp_delta=9), 2, codec, 0x08, base_timestamp=3, max_timestamp=55)
    assert check(data, header, earliest_ms=55, latest_ms=55) == (55, 0)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_unsupported(codec: int) -> None:
    data, header = batch(record(0), 1, attributes=codec)
    with pytest.raises(UnsupportedCompressionError, match=str(codec)):
        check(data, header)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.spec("RF-11")
def test_undecodable_data_is_corrupt(codec: int) -> None:
    data, _ = batch(record(0), 1, attributes=codec)
    with pytest.raises(CorruptMessageError):
        check(data, BatchHeader.at(data))


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(
    ("position", "length"), [(1, None), (-1, None), (0, 1 << 30), (0, 48), (0, -1), (0, -(1 << 31))]
)
def test_a_batch_outside_its_buffer_is_corrupt(codec: int, position: int, length: int | None) -> None:
    data, header = batch(record(0), 1, codec)
    if length is not None:
        header = header._replace(length=length)
    with pytest.raises(CorruptMessageError, match="is not whole"):
        check(data, header, position)


@pytest.mark.parametrize("name", ["v2-none", "v2-gzip", "v2-snappy", "v2-lz4", "v2-zstd", "v2-append-time"])
@pytest.mark.spec("RF-04", "RF-05")
def test_what_kafka_wrote_passes(kafka_batches: dict[str, bytes], name: str) -> None:
    data = kafka_batches[name]
    header = BatchHeader.at(data)
    assert check(data, header).max_timestamp == header.max_timestamp


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.spec("RF-11")
def test_a_decompression_bomb_costs_no_memory(codec: int) -> None:
    """One record of 64 MiB of zeros, in a batch that is right; gzip makes 64 KB of it, zstd 2 KB."""
    fields = b"\x00\x00\x00\x01" + encode_varint(BOMB_BYTES)
    payload = encode_varint(len(fields) + BOMB_BYTES + 1) + fields + bytes(BOMB_BYTES) + b"\x00"
    data, header = batch(payload, 1, codec)
    del payload
    tracemalloc.start()
    try:
        assert check(data, header) == (1000, 0)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_a_batch_holds_has_a_limit(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = record(0, value=bytes(5000))
    data, header = batch(payload, 1, codec)
    monkeypatch.setattr("tailrace.record.check.MAX_DECOMPRESSED_BYTES", len(payload))
    assert check(data, header) == (1000, 0)
    monkeypatch.setattr("tailrace.record.check.MAX_DECOMPRESSED_BYTES", len(payload) - 1)
    with pytest.raises(MessageTooLargeError, match=f"a batch of {len(data)} bytes"):
        check(data, header)


@given(data=st.data())
@settings(max_examples=examples(500))
def test_pieces_and_whole_batches_have_one_verdict(data: st.DataObject) -> None:
    payload, count = data.draw(st.one_of(payloads(), damaged()))
    rules = data.draw(rules_for(min(max(count, -(1 << 31)), (1 << 31) - 1)))

    def in_pieces() -> CheckedRecords:
        checking = RecordCheck(*rules)
        for piece in data.draw(cuts(payload)):
            checking.feed(piece)
        return checking.finish()

    def whole(codec: int) -> CheckedRecords:
        written, header = batch(
            payload,
            rules.count,
            codec,
            0x08 if rules.same_timestamp else 0,
            last_offset_delta=0,
            base_timestamp=rules.base_timestamp,
            max_timestamp=rules.base_timestamp,
        )
        return check(written, header, require_key=rules.require_key, earliest_ms=rules.earliest, latest_ms=rules.latest)

    outcomes = []
    for attempt in (in_pieces, lambda: whole(0), lambda: whole(3)):
        try:
            outcomes.append(str(attempt()))
        except InvalidDataError as error:
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1] == outcomes[2]
