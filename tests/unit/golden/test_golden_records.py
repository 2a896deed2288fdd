"""Every batch and record of the logs that Kafka wrote, read by us and compared with what Kafka says is in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from golden.corpus import Golden, case_names, load
from support.kafka.dump_view import CODECS, Fields, batch_fields, check_record, without_records
from tailrace.record.batch import HEADER_BYTES, BatchHeader
from tailrace.record.builder import BatchBuilder, empty_batch
from tailrace.record.reader import application_records, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity


def logs(golden: Golden) -> Iterator[tuple[bytes, list[Fields]]]:
    for name, expected in golden.expected["logs"].items():
        yield golden.file(name).read_bytes(), expected


def pairs(golden: Golden) -> Iterator[tuple[bytes, ShallowBatch, Fields]]:
    """Our view of each batch beside Kafka's."""
    for data, expected in logs(golden):
        for batch, wanted in zip(batches(data), expected, strict=True):
            yield data, batch, wanted


@pytest.fixture(params=case_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


@pytest.mark.spec("RF-01", "RF-08")
def test_every_batch_is_as_kafka_sees_it(golden: Golden) -> None:
    for data, batch, wanted in pairs(golden):
        assert batch_fields(batch) == without_records(wanted)
        check_integrity(data, batch)


@pytest.mark.spec("RF-04", "RF-05", "RF-06", "RF-08")
def test_every_record_is_as_kafka_sees_it(golden: Golden) -> None:
    for data, batch, wanted in pairs(golden):
        for record, fields in zip(records_of(data, batch), wanted["records"], strict=True):
            check_record(record, fields, batch.is_control, golden.name)


@pytest.mark.spec("RF-05", "RF-12")
def test_records_that_are_not_text_come_back_as_sent(golden: Golden) -> None:
    records = {record.offset: record for data, _ in logs(golden) for record in application_records(data)}
    for sent in golden.expected["sent"]:
        record = records[sent["offset"]]
        assert hexadecimal(record.key) == sent["key"]
        assert hexadecimal(record.value) == sent["value"]
        assert [[name, hexadecimal(value)] for name, value in record.headers] == sent["headers"]


def hexadecimal(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.spec("RF-06")
def test_applications_get_every_record_but_the_control_records(golden: Golden) -> None:
    for data, expected in logs(golden):
        wanted = [record["offset"] for batch in expected if not batch.get("isControl") for record in batch["records"]]
        assert [record.offset for record in application_records(data)] == wanted


@pytest.mark.spec("RF-01")
def test_header_round_trip(golden: Golden) -> None:
    for data, batch, _ in pairs(golden):
        if batch.is_v2:
            packed = BatchHeader.at(data, batch.position).pack()
            assert packed == data[batch.position : batch.position + HEADER_BYTES]


@pytest.mark.spec("RF-01", "RF-05", "RF-08")
def test_our_builder_makes_the_same_bytes_of_the_same_records(golden: Golden) -> None:
    """Of uncompressed batches; what a codec makes of them is its own affair."""
    for data, batch, _ in pairs(golden):
        if batch.is_v2 and batch.codec == 0:
            assert rebuilt(data, batch) == data[batch.position : batch.end]


def rebuilt(data: bytes, batch: ShallowBatch) -> bytes:
    producer = {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "leader_epoch": batch.leader_epoch,
        "timestamp_type": batch.timestamp_type,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
    }
    if batch.record_count == 0:
        return bytes(empty_batch(batch.base_offset, batch.last_offset, max_timestamp=batch.max_timestamp, **producer))
    builder = BatchBuilder(
        batch.base_offset,
        delete_horizon_ms=batch.delete_horizon_ms,
        log_append_time_ms=batch.max_timestamp if batch.timestamp_type == 1 else -1,
        **producer,
    )
    # Under LogAppendTime a reader never sees the producer's timestamps, which stay in the deltas.
    for record, timestamp in zip(records_of(data, batch), stored_timestamps(data, batch), strict=True):
        builder.append_at(record.offset, timestamp, record.key, record.value, record.headers)
    return bytes(builder.build(batch.last_offset))


def stored_timestamps(data: bytes, batch: ShallowBatch) -> list[int]:
    as_created = batch._replace(attributes=batch.attributes & ~0x08)
    return [record.timestamp for record in records_of(data, as_created)]


# -- what the corpus must hold for the tests above to mean something --------------------------------------------------


def kinds(*names: str) -> list[Fields]:
    return [batch for name in names for batches in load(name).expected["logs"].values() for batch in batches]


def test_every_codec_comes_from_every_writer() -> None:
    found = {(batch["compresscodec"], batch["producerId"] >= 0) for batch in kinds("codecs")}
    assert found == {(codec, by_java_client) for codec in CODECS for by_java_client in (False, True)}


@pytest.mark.spec("RF-07", "RF-18")
def test_legacy_sets_of_every_codec_are_there_and_read() -> None:
    found = {
        (batch["magic"], batch["compresscodec"])
        for batch in kinds("legacy-v0", "legacy-v1", "legacy-mixed")
        if batch["records"]
    }
    assert found >= {(0, codec) for codec in ("none", "gzip", "snappy")}
    assert found >= {(1, codec) for codec in ("none", "gzip", "snappy", "lz4")}
    for name in ("legacy-v0", "legacy-v1", "legacy-mixed"):
        golden = load(name)
        for data, batch, wanted in pairs(golden):
            check_integrity(data, batch)
            records = list(records_of(data, batch))
            for record, fields in zip(records, wanted["records"], strict=True):
                check_record(record, fields, is_control=False, where=name)


def test_the_cleaner_left_filtered_and_empty_batches_and_horizons() -> None:
    found = kinds("compacted", "compacted-expired")
    assert any(batch["count"] == 0 and batch["lastSequence"] > 0 for batch in found)
    assert any(0 < batch["count"] <= batch["lastOffset"] - batch["baseOffset"] for batch in found)
    assert any(batch["deleteHorizonMs"] and batch["isControl"] for batch in found)
    assert any(
        batch["deleteHorizonMs"] and any(record["valueSize"] < 0 for record in batch["records"]) for batch in found
    )


def test_both_kinds_of_markers_are_there() -> None:
    found = {
        record["endTxnMarker"] for batch in kinds("transactions") if batch["isControl"] for record in batch["records"]
    }
    assert found == {"ABORT", "COMMIT"}
