"""WriteTxnMarkers, api key 27."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, array_of, field


class WritableTxnMarkerTopic(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(array_of(INT32))


class WritableTxnMarker(Struct):
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: list[WritableTxnMarkerTopic] = field(array_of(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, "2+", ignorable=True)


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = field(array_of(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field(array_of(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Struct):
    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field(array_of(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = field(array_of(WritableTxnMarkerResult))
