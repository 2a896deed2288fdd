"""What may be said of a table, and what is refused before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.spark.errors import OptionError
from tailrace.spark.options.positions import Earliest, Latest
from tailrace.spark.tables.job.settings import TableSettings, table_settings


def made(**given: Any) -> TableSettings:
    return table_settings("orders", **{"to": "lake/orders", "brokers": "broker:9092", **given})


def test_as_it_comes() -> None:
    settings = made()
    assert (settings.format, settings.mode, settings.key, settings.values.format) == (
        "delta",
        "append",
        "bytes",
        "bytes",
    )
    assert settings.source.isolation == READ_COMMITTED
    assert isinstance(settings.source.starting, Earliest)
    assert settings.source.include_headers
    assert settings.trigger_ms is None
    assert settings.retain_ms == 7 * 24 * 3_600_000
    assert settings.target_bytes == 128 << 20
    assert settings.max_offsets == 5_000_000
    assert settings.buckets is None


def test_what_is_said() -> None:
    settings = made(
        format="ICEBERG",
        mode="upsert",
        key="string",
        value="json",
        buckets=8,
        trigger="10s",
        retain="2h",
        target_file_size="1mb",
        catalog={"uri": "sqlite:///x.db"},
        options={
            "startingOffsets": "latest",
            "kafka.isolation.level": "read_uncommitted",
            "maxOffsetsPerTrigger": 7,
            "inferRecords": 5,
            "codec": "zstd",
        },
    )
    assert (settings.format, settings.mode, settings.key, settings.buckets) == ("iceberg", "upsert", "string", 8)
    assert (settings.trigger_ms, settings.retain_ms, settings.target_bytes) == (10_000, 7_200_000, 1 << 20)
    assert settings.source.isolation == READ_UNCOMMITTED
    assert isinstance(settings.source.starting, Latest)
    assert settings.max_offsets == 7
    assert (settings.codec, settings.values.infer_records) == ("zstd", 5)


def test_a_column_alone_is_a_list_of_it() -> None:
    assert made(partition_by="_day").partition_by == ("_day",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"format": "orc"}, "delta, iceberg, parquet"),
        ({"format": "delts"}, "did you mean delta"),
        ({"mode": "replace"}, "append, upsert"),
        ({"format": "parquet", "mode": "upsert"}, "append only"),
        ({"value": "xml"}, "bytes, string, json, avro, protobuf"),
        ({"key": "json"}, "bytes, string"),
        ({"mode": "upsert", "partition_by": ["_day"]}, "by the bucket of its keys"),
        ({"partition_by": ["a", "A"]}, "each column once"),
        ({"buckets": 8}, "mode upsert"),
        ({"mode": "upsert", "buckets": 0}, "from 1 to"),
        ({"catalog": {"uri": "x"}}, "format iceberg"),
        ({"trigger": "soon"}, "option trigger"),
        ({"retain": "long"}, "option retain"),
        ({"target_file_size": "big"}, "128MB"),
        ({"target_file_size": 12}, "128MB"),
        ({"to": " "}, "where the table"),
        ({"options": {"subscribe": "others"}}, "one topic"),
        ({"options": {"includeHeaders": "false"}}, "all columns"),
        ({"options": {"maxOffsetPerTrigger": "5"}}, "maxOffsetsPerTrigger"),
        ({"options": {"path": "/data"}}, "not both"),
        ({"options": {"kafka.bootstrap.servers": "other:9092"}}, "contradicts"),
        ({"options": {"codec": "lzo"}}, "snappy, zstd"),
        ({"brokers": None}, "not neither"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        made(**given)


def test_a_topic_is_one() -> None:
    with pytest.raises(OptionError, match="no name of a topic"):
        table_settings("a,b", to="x", brokers="broker:9092")
