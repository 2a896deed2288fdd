"""Records of the coordinators' topics as bytes.

    key     int16 type, then the key's fields in version 0
    value   int16 version, then the value's fields; null is a tombstone

The type says which classes key and value have. It is one space per topic.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Final

from tailrace.coordinator.outcome import CoordinatorRecord, ProducerBatchId
from tailrace.model.errors import CorruptMessageError, MessageTooLargeError
from tailrace.model.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.protocol.codec import decode_from, encode
from tailrace.protocol.message import Record
from tailrace.record.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2, TRANSACTIONAL_BIT, set_crc
from tailrace.record.builder import BatchBuilder
from tailrace.record.varint import encode_varint

KEY_VERSION: Final = 0
LARGEST_BATCH_BYTES: Final = 0x7FFF_FFFF
_INT16: Final = struct.Struct(">h")

Kinds = tuple[type[Record], type[Record]]
"""Classes of a key and its value."""


class Schema:
    """What a topic's records are, by their type: the classes of modules of `protocol.records`, which come in pairs
    `…Key` and `…Value`. The modules are imported when the first record is looked at."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules

    def get(self, kind: int) -> Kinds | None:
        return self._kinds.get(kind)

    @cached_property
    def _kinds(self) -> Mapping[int, Kinds]:
        kinds: dict[int, Kinds] = {}
        for module in self._modules:
            names = vars(import_module(f"tailrace.protocol.records.{module}"))
            for name, found in names.items():
                if isinstance(found, type) and issubclass(found, Record) and name.endswith("Key"):
                    kinds[found.KEY] = (found, names[name.removesuffix("Key") + "Value"])
        return kinds


GROUP_RECORDS: Final = Schema("group_offsets", "classic_groups", "consumer_groups", "share_groups", "streams_groups")
TRANSACTION_RECORDS: Final = Schema("transactions")
SHARE_STATE_RECORDS: Final = Schema("share_state")

_NO_PRODUCER: Final = ProducerBatchId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
_SEQUENCE: Final = 0  # of all batches, as Kafka has it: nobody counts a coordinator's
_SMALL: Final = 512
_VARINTS: Final = tuple(encode_varint(value) for value in range(_SMALL))
_NULL: Final = encode_varint(-1)
_KEY_PREFIXES: Final = {kind: _INT16.pack(kind) for kind in range(32)}
_VALUE_PREFIXES: Final = {version: _INT16.pack(version) for version in range(16)}


def encode_batch(
    records: Sequence[CoordinatorRecord],
    timestamp_ms: int,
    codec: int,
    producer: ProducerBatchId | None,
    largest_bytes: int = LARGEST_BATCH_BYTES,
) -> bytearray:
    """One batch; of `producer`'s transaction where there is one. MessageTooLargeError as soon as it is too large."""
    if codec:
        return _compressed_batch(records, timestamp_ms, codec, producer)
    batch = bytearray(HEADER_BYTES)
    for delta, (key, value, version) in enumerate(records):
        body = _KEY_PREFIXES[key.KEY] + encode(key, KEY_VERSION)
        body = b"\0\0" + _varint(delta) + _varint(len(body)) + body
        if value is None:
            body += _NULL
        else:
            text = _VALUE_PREFIXES[version] + encode(value, version)
            body += _varint(len(text)) + text
        batch += _varint(len(body) + 1) + body + b"\0"
        if len(batch) > largest_bytes:
            raise MessageTooLargeError(f"{len(records)} records take more than {largest_bytes} bytes")
    count = len(records)
    producer_id, epoch = producer or _NO_PRODUCER
    attributes = 0 if producer is None else TRANSACTIONAL_BIT
    last = count - 1
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD,
        NO_LEADER_EPOCH,
        MAGIC_V2,
        0,
        attributes,
        last,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        epoch,
        _SEQUENCE,
        count,
    )
    set_crc(batch)
    return batch


def _varint(value: int) -> bytes:
    return _VARINTS[value] if value < _SMALL else encode_varint(value)


def _compressed_batch(
    records: Sequence[CoordinatorRecord], timestamp_ms: int, codec: int, producer: ProducerBatchId | None
) -> bytearray:
    producer_id, epoch = producer or _NO_PRODUCER
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=_SEQUENCE,
        transactional=producer is not None,
    )
    for key, value, version in records:
        body = None if value is None else _VALUE_PREFIXES[version] + encode(value, version)
        builder.append(timestamp_ms, _KEY_PREFIXES[key.KEY] + encode(key, KEY_VERSION), body)
    return builder.build()


def decode_record(schema: Schema, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """None for a type that this release does not know. CorruptMessageError where there is no whole key or value."""
    if key is None or len(key) < _INT16.size:
        raise CorruptMessageError("a record of a coordinator's topic has no whole key")
    kinds = schema.get(_INT16.unpack_from(key)[0])
    if kinds is None:
        return None
    decoded_key, _ = decode_from(kinds[0], KEY_VERSION, memoryview(key), _INT16.size)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    if len(value) < _INT16.size:
        raise CorruptMessageError(f"the value of {decoded_key} has no version")
    version = _INT16.unpack_from(value)[0]
    decoded_value, _ = decode_from(kinds[1], version, memoryview(value), _INT16.size)
    return CoordinatorRecord(decoded_key, decoded_value, version)
