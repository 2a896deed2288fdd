"""Filtered batches: what Apache Kafka's own filter makes of the same records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.errors import InvalidRecordError, UnsupportedForMessageFormatError
from tailrace.record.batch import BatchHeader, set_max_timestamp
from tailrace.record.builder import batch_of
from tailrace.record.filter import filter_batch
from tailrace.record.legacy import plain_message
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import batches, check_integrity, next_batch


def kept(data: bytes, *offsets: int, keep_empty: bool = False, horizon_ms: int | None = None) -> bytes | None:
    (batch,) = batches(data)
    return filter_batch(
        data, batch, lambda record: record.offset in offsets, keep_empty=keep_empty, delete_horizon_ms=horizon_ms
    )


def read(data: bytes | None) -> list[Record]:
    assert data is not None
    (batch,) = batches(data)
    check_integrity(data, batch)
    return list(records_of(data, batch))


@pytest.mark.spec("RF-08")
@pytest.mark.parametrize(
    ("source", "offsets", "horizon_ms", "result"),
    [
        ("v2-none", [43, 45], None, "v2-none-kept-1-3"),
        ("v2-append-time", [43, 45], None, "v2-append-time-kept-1-3"),
        ("v2-none", [44, 45], 9_999, "v2-kept-tombstone"),
        ("v2-horizon", [43, 45], None, "v2-horizon-kept-1-3"),
        ("abort", [12], 9_999, "abort-horizon"),
        ("commit", [12], 9_999, "commit-horizon"),
    ],
)
def test_filtered_batches_are_kafkas(
    kafka_batches: dict[str, bytes], source: str, offsets: list[int], horizon_ms: int | None, result: str
) -> None:
    assert kept(kafka_batches[source], *offsets, horizon_ms=horizon_ms) == kafka_batches[result]


@pytest.mark.spec("RF-08")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_stay_compressed(kafka_batches: dict[str, bytes], codec: str) -> None:
    ours, theirs = kept(kafka_batches[f"v2-{codec}"], 43, 45), kafka_batches[f"v2-{codec}-kept-1-3"]
    assert read(ours) == read(theirs)
    assert ours is not None
    assert BatchHeader.at(ours)._replace(length=0, crc=0) == BatchHeader.at(theirs)._replace(length=0, crc=0)


@pytest.mark.spec("RF-08")
@pytest.mark.parametrize(("source", "result"), [("v2-none", "v2-emptied"), ("v2-horizon", "v2-horizon-emptied")])
def test_emptied_batches_are_kafkas(kafka_batches: dict[str, bytes], source: str, result: str) -> None:
    emptied = kept(kafka_batches[source], keep_empty=True)
    assert emptied == kafka_batches[result]
    assert kept(emptied, keep_empty=True) == emptied
    assert kept(kafka_batches[source], keep_empty=False) is None


def test_a_batch_that_keeps_all_stays_as_it_is(kafka_batches: dict[str, bytes]) -> None:
    for name in ("v2-none", "v2-zstd", "v2-horizon", "v2-append-time"):
        assert kept(kafka_batches[name], *range(42, 47)) == kafka_batches[name]
    horizon = kept(kafka_batches["v2-none"], *range(42, 47), horizon_ms=7_777)
    assert horizon == kafka_batches["v2-horizon"]


@pytest.mark.spec("RF-03", "RF-08")
def test_unused_attribute_bits_stay() -> None:
    data = batch_of([(1, b"a", b"b"), (2, b"c", b"d")])
    data[21:23] = b"\xff\x80"
    set_max_timestamp(data, 0, BatchHeader.at(data), 1, 5)
    for filtered in (kept(bytes(data), 1), kept(bytes(data), keep_empty=True)):
        assert filtered is not None
        assert BatchHeader.at(filtered).attributes == BatchHeader.at(data).attributes
        read(filtered)


@pytest.mark.spec("RF-08", "RF-12")
@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 2**50),
            st.none() | st.binary(max_size=5),
            st.none() | st.binary(max_size=5),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
        ),
        min_size=1,
        max_size=8,
    ),
    choice=st.integers(0, 255),
    horizon_ms=st.none() | st.integers(0, 2**50),
    codec=st.sampled_from([0, 1, 4]),
    base_offset=st.integers(0, 2**60),
    base_sequence=st.integers(0, 2**31 - 1),
)
def test_what_stays_stays(
    records: list, choice: int, horizon_ms: int | None, codec: int, base_offset: int, base_sequence: int
) -> None:
    data = batch_of(
        records,
        base_offset=base_offset,
        codec=codec,
        producer_id=3,
        producer_epoch=4,
        base_sequence=base_sequence,
        leader_epoch=9,
    )
    buffer = b"before" + data + b"after"
    batch = next_batch(buffer, 6, len(buffer))
    assert batch is not None
    survivors = [record for record in records_of(buffer, batch) if choice >> (record.offset - base_offset) & 1]
    filtered = filter_batch(
        buffer,
        batch,
        lambda record: bool(choice >> (record.offset - base_offset) & 1),
        keep_empty=True,
        delete_horizon_ms=horizon_ms,
    )
    assert read(filtered) == survivors
    assert filtered is not None
    (after,) = batches(filtered)
    assert (after.base_offset, after.last_offset) == (batch.base_offset, batch.last_offset)
    assert (after.base_sequence, after.last_sequence) == (batch.base_sequence, batch.last_sequence)
    assert (after.producer_id, after.producer_epoch, after.leader_epoch) == (3, 4, 9)
    assert after.record_count == len(survivors)
    if survivors:
        assert after.codec == codec
        assert after.delete_horizon_ms == horizon_ms
        assert after.base_timestamp == (survivors[0].timestamp if horizon_ms is None else horizon_ms)
        assert after.max_timestamp == max(record.timestamp for record in survivors)
    else:
        assert after.max_timestamp == batch.max_timestamp


def test_old_magics_are_not_filtered() -> None:
    data = plain_message(0, 1, None, b"v", magic=1)
    (batch,) = batches(data)
    with pytest.raises(UnsupportedForMessageFormatError, match="magic 1"):
        filter_batch(data, batch, lambda _: True, keep_empty=True)


@pytest.mark.spec("RF-11")
def test_records_that_cannot_be_written_again_are_refused(kafka_batches: dict[str, bytes]) -> None:
    data = bytearray(kafka_batches["v2-none"])
    data[27:35] = (-5_000).to_bytes(8, "big", signed=True)  # timestamps before 1970 by way of baseTimestamp
    with pytest.raises(InvalidRecordError):
        kept(bytes(data), 43)
