"""For each format of docs/formats: our reader and our writer, between bytes and the fields that its examples state.

`decode` gives every field that our reader knows; `encode` makes the bytes from the stated fields. Fields of records are
`record[0].key`, of entries `entry[0].offset`, counted from 0.
"""

from __future__ import annotations

import quorum_codecs
from codec_support import (
    DIRECTORY,
    HEADER_FIELDS,
    MAX_BYTES,
    Attributes,
    Codec,
    Fields,
    Shelf,
    numbered,
)
from doc_examples import Value

from tailrace.config.log import LogConfig
from tailrace.env import Mode
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.offsets import TimestampOffset
from tailrace.record.batch import HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD, BatchHeader
from tailrace.record.builder import BatchBuilder, append_record, empty_batch
from tailrace.record.compression import CODEC_NAMES, compress, decompress
from tailrace.record.control import control_of, end_txn_marker
from tailrace.record.legacy import compressed_wrapper, messages_of, plain_message
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.storage import producer_snapshot
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.epoch_cache import EpochEntry, LeaderEpochCache
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, raw_entries
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.producer_entry import BatchMetadata, ProducerStateEntry
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.warm import WarmSet

INDEX_BYTES = LogConfig().segment_index_bytes


def to_bytes(value: Value) -> bytes | None:
    assert value is None or isinstance(value, str)
    return None if value is None else value.encode()


def to_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


# Batches and records


def whole_batch(data: bytes) -> ShallowBatch:
    batch = next_batch(data, 0, len(data))
    assert batch is not None
    assert batch.size == len(data)
    check_integrity(data, batch)
    return batch


def decode_batch(data: bytes, attributes: Attributes) -> Fields:
    batch = whole_batch(data)
    fields: Fields = dict(zip(HEADER_FIELDS, BatchHeader.at(data), strict=True))
    fields["lastOffset"] = batch.last_offset
    if batch.is_control:
        return fields
    for place, record in enumerate(records_of(data, batch)):
        of_record = record_fields(record, batch, laid_open=not batch.codec)
        fields |= {f"record[{place}].{name}": value for name, value in of_record.items()}
    return fields


def record_fields(record: Record, batch: ShallowBatch, *, laid_open: bool) -> Fields:
    fields: Fields = {"offset": record.offset, "timestamp": record.timestamp}
    if laid_open:
        fields["offsetDelta"] = record.offset - batch.base_offset
        if batch.timestamp_type != LOG_APPEND_TIME:
            fields["timestampDelta"] = record.timestamp - batch.base_timestamp
        fields["keyLength"] = -1 if record.key is None else len(record.key)
        fields["valueLength"] = -1 if record.value is None else len(record.value)
        fields["headerCount"] = len(record.headers)
    if record.key is not None:
        fields["key"] = to_text(record.key)
    if record.value is not None:
        fields["value"] = to_text(record.value)
    for place, (key, value) in enumerate(record.headers):
        fields[f"header[{place}].headerKey"] = key
        if value is not None:
            fields[f"header[{place}].headerValue"] = to_text(value)
    return fields


def headers_of(record: Fields) -> list[tuple[str, bytes | None]]:
    return [(header["headerKey"], to_bytes(header.get("headerValue"))) for header in numbered(record, "header")]


def encode_batch(fields: Fields, attributes: Attributes) -> bytes:
    bits = fields["attributes"]
    common = {
        "timestamp_type": bits >> 3 & 1,
        "producer_id": fields["producerId"],
        "producer_epoch": fields["producerEpoch"],
        "base_sequence": fields["baseSequence"],
        "leader_epoch": fields["partitionLeaderEpoch"],
        "transactional": bool(bits & 0x10),
        "control": bool(bits & 0x20),
    }
    base_offset = fields["baseOffset"]
    last_offset = base_offset + fields["lastOffsetDelta"]
    if not fields["recordCount"]:
        return bytes(empty_batch(base_offset, last_offset, max_timestamp=fields["maxTimestamp"], **common))
    builder = BatchBuilder(
        base_offset,
        codec=bits & 7,
        delete_horizon_ms=fields["baseTimestamp"] if bits & 0x40 else None,
        log_append_time_ms=fields["maxTimestamp"] if bits & 8 else -1,
        **common,
    )
    for record in numbered(fields, "record"):
        offset = record["offset"] if "offset" in record else base_offset + record["offsetDelta"]
        timestamp = (
            record["timestamp"]
            if "timestampDelta" not in record
            else fields["baseTimestamp"] + record["timestampDelta"]
        )
        builder.append_at(
            offset, timestamp, to_bytes(record.get("key")), to_bytes(record.get("value")), headers_of(record)
        )
    return bytes(builder.build(last_offset))


def decode_record(data: bytes, attributes: Attributes) -> Fields:
    """A record alone: it is put into a batch of offset and timestamp 0 to be read."""
    length = HEADER_BYTES - LOG_OVERHEAD + len(data)
    batch = BatchHeader(0, length, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1).pack() + data
    found = next_batch(batch, 0, len(batch))
    assert found is not None
    (record,) = records_of(batch, found)
    fields = record_fields(record, found, laid_open=True)
    del fields["offset"], fields["timestamp"]
    return fields


def encode_record(fields: Fields, attributes: Attributes) -> bytes:
    out = bytearray()
    append_record(
        out,
        fields["offsetDelta"],
        fields["timestampDelta"],
        to_bytes(fields.get("key")),
        to_bytes(fields.get("value")),
        headers_of(fields),
    )
    return bytes(out)


def decode_control(data: bytes, attributes: Attributes) -> Fields:
    fields = decode_batch(data, attributes)
    control = control_of(data, whole_batch(data))
    assert control is not None
    return {**fields, "key.type": control.type, "value.coordinatorEpoch": control.coordinator_epoch}


def encode_control(fields: Fields, attributes: Attributes) -> bytes:
    return bytes(
        end_txn_marker(
            fields["key.type"],
            producer_id=fields["producerId"],
            producer_epoch=fields["producerEpoch"],
            coordinator_epoch=fields["value.coordinatorEpoch"],
            timestamp=fields["maxTimestamp"],
            base_offset=fields["baseOffset"],
            leader_epoch=fields["partitionLeaderEpoch"],
        )
    )


def decode_legacy(data: bytes, attributes: Attributes) -> Fields:
    entry = whole_batch(data)
    fields: Fields = {
        "offset": entry.last_offset,
        "length": entry.size - LOG_OVERHEAD,
        "crc": entry.crc,
        "magic": entry.magic,
        "attributes": entry.attributes,
    }
    if entry.magic == 1:
        fields["timestamp"] = entry.max_timestamp
    for place, message in enumerate(messages_of(data, entry, MAX_BYTES)):
        prefix = f"message[{place}]." if entry.codec else ""
        fields[f"{prefix}offset"] = message.offset
        if message.magic == 1:
            fields[f"{prefix}timestamp"] = message.timestamp
        if message.key is not None:
            fields[f"{prefix}key"] = to_text(message.key)
        if message.value is not None:
            fields[f"{prefix}value"] = to_text(message.value)
    return fields


def encode_legacy(fields: Fields, attributes: Attributes) -> bytes:
    codec, timestamp_type, magic = fields["attributes"] & 7, fields["attributes"] >> 3 & 1, fields["magic"]
    if not codec:
        return plain_message(
            fields["offset"],
            fields.get("timestamp", -1),
            to_bytes(fields.get("key")),
            to_bytes(fields.get("value")),
            magic=magic,
            timestamp_type=timestamp_type,
        )
    messages = [
        (inner["offset"], inner.get("timestamp", -1), to_bytes(inner.get("key")), to_bytes(inner.get("value")))
        for inner in numbered(fields, "message")
    ]
    return compressed_wrapper(messages, magic=magic, codec=codec, timestamp_type=timestamp_type)


def decode_compressed(data: bytes, attributes: Attributes) -> Fields:
    return {"data": to_text(decompress(CODEC_NAMES.index(attributes["codec"]), data, MAX_BYTES))}


def encode_compressed(fields: Fields, attributes: Attributes) -> bytes:
    return compress(CODEC_NAMES.index(attributes["codec"]), fields["data"].encode())


# Files of a partition


def decode_offset_index(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("x.index", data)
    base = int(attributes["base_offset"])
    index = OffsetIndex(shelf.env.files, shelf.path, base, INDEX_BYTES, WarmSet(1))
    index.sanity_check()
    fields: Fields = {}
    for n in range(index.entries):
        offset, position = index.entry(n)
        assert index.lookup(offset) == (offset, position)
        fields |= {f"entry[{n}].relativeOffset": offset - base, f"entry[{n}].position": position}
        fields[f"entry[{n}].lastOffset"] = offset
    raw = [entry.fields for entry in raw_entries(shelf.env.files.open(shelf.path, Mode.READ), OFFSET_ENTRY)]
    assert raw == [(entry["relativeOffset"], entry["position"]) for entry in numbered(fields, "entry")]
    return fields


def encode_offset_index(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("x.index")
    base = int(attributes["base_offset"])
    index = OffsetIndex(shelf.env.files, shelf.path, base, INDEX_BYTES, WarmSet(1))
    for entry in numbered(fields, "entry"):
        index.append(base + entry["relativeOffset"], entry["position"])
    index.close()
    return shelf.content


def decode_time_index(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("x.timeindex", data)
    base = int(attributes["base_offset"])
    index = TimeIndex(shelf.env.files, shelf.path, base, INDEX_BYTES, WarmSet(1))
    index.sanity_check()
    fields: Fields = {}
    for n in range(index.entries):
        timestamp, offset = index.entry(n)
        assert index.lookup(timestamp) == TimestampOffset(timestamp, offset)
        fields |= {f"entry[{n}].timestamp": timestamp, f"entry[{n}].relativeOffset": offset - base}
        fields[f"entry[{n}].offset"] = offset
    raw = [entry.fields for entry in raw_entries(shelf.env.files.open(shelf.path, Mode.READ), TIME_ENTRY)]
    assert raw == [(entry["timestamp"], entry["relativeOffset"]) for entry in numbered(fields, "entry")]
    return fields


def encode_time_index(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("x.timeindex")
    base = int(attributes["base_offset"])
    index = TimeIndex(shelf.env.files, shelf.path, base, INDEX_BYTES, WarmSet(1))
    for entry in numbered(fields, "entry"):
        index.maybe_append(entry["timestamp"], base + entry["relativeOffset"])
    index.close()
    return shelf.content


def decode_transaction_index(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("x.txnindex", data)
    index = TransactionIndex(shelf.env.files, shelf.path, int(attributes["base_offset"]))
    index.sanity_check()
    raw = [entry.fields for entry in raw_entries(shelf.env.files.open(shelf.path, Mode.READ), TXN_ENTRY)]
    fields: Fields = {}
    for n, (aborted, (version, *rest)) in enumerate(zip(index.all(), raw, strict=True)):
        assert tuple(aborted) == tuple(rest)
        fields[f"entry[{n}].version"] = version
        for name, value in zip(("producerId", "firstOffset", "lastOffset", "lastStableOffset"), aborted, strict=True):
            fields[f"entry[{n}].{name}"] = value
    return fields


def encode_transaction_index(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("x.txnindex")
    index = TransactionIndex(shelf.env.files, shelf.path, int(attributes["base_offset"]))
    for entry in numbered(fields, "entry"):
        index.append(
            AbortedTxn(entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
        )
    return shelf.content


def decode_snapshot(data: bytes, attributes: Attributes) -> Fields:
    entries = producer_snapshot.decode(data)
    fields: Fields = {"count": len(entries)}
    for n, entry in enumerate(entries):
        of_entry = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "lastSequence": entry.last_seq,
            "lastOffset": entry.last_data_offset,
            "offsetDelta": entry.last_offset_delta,
            "timestamp": entry.last_timestamp,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": -1 if entry.txn_first_offset is None else entry.txn_first_offset,
        }
        fields |= {f"entry[{n}].{name}": value for name, value in of_entry.items()}
    return fields


def encode_snapshot(fields: Fields, attributes: Attributes) -> bytes:
    entries = []
    for entry in numbered(fields, "entry"):
        batch = BatchMetadata(entry["lastSequence"], entry["lastOffset"], entry["offsetDelta"], entry["timestamp"])
        first = entry["currentTxnFirstOffset"]
        entries.append(
            ProducerStateEntry(
                entry["producerId"],
                entry["producerEpoch"],
                entry["coordinatorEpoch"],
                entry["timestamp"],
                first if first >= 0 else None,
                (batch,) if batch.last_offset >= 0 else (),
            )
        )
    return producer_snapshot.encode(entries)


def decode_epochs(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("leader-epoch-checkpoint", data)
    cache = LeaderEpochCache(shelf.env.files, shelf.env.jobs, DIRECTORY)
    assert cache.load()
    fields: Fields = {"version": 0, "count": len(cache.entries)}
    return fields | {f"epoch[{entry.epoch}].startOffset": entry.start_offset for entry in cache.entries}


def encode_epochs(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("leader-epoch-checkpoint")
    cache = LeaderEpochCache(shelf.env.files, shelf.env.jobs, DIRECTORY)
    epochs = enumerate(numbered(fields, "epoch"))
    cache.assign_all(EpochEntry(epoch, entry["startOffset"]) for epoch, entry in epochs if entry)
    return shelf.content


def decode_metadata(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("partition.metadata", data)
    return {"version": 0, "topicId": str(PartitionMetadata(shelf.env.files, DIRECTORY).read())}


def encode_metadata(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("partition.metadata")
    PartitionMetadata(shelf.env.files, DIRECTORY).write(TopicId.parse(fields["topicId"]))
    return shelf.content


def decode_offset_checkpoint(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("checkpoint", data)
    offsets = OffsetCheckpoint(shelf.env.files, shelf.path).read()
    return {"version": 0, "count": len(offsets), **{str(partition): offset for partition, offset in offsets.items()}}


def encode_offset_checkpoint(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("checkpoint")
    offsets = {}
    for name, offset in fields.items():
        topic, dash, partition = name.rpartition("-")
        if dash:
            offsets[TopicPartition(topic, int(partition))] = offset
    OffsetCheckpoint(shelf.env.files, shelf.path).write(offsets)
    return shelf.content


CODECS = {
    **quorum_codecs.CODECS,
    "record-batch": Codec(decode_batch, encode_batch),
    "record": Codec(decode_record, encode_record),
    "control-batch": Codec(decode_control, encode_control),
    "legacy-message": Codec(decode_legacy, encode_legacy),
    "compressed": Codec(decode_compressed, encode_compressed),
    "offset-index": Codec(decode_offset_index, encode_offset_index),
    "time-index": Codec(decode_time_index, encode_time_index),
    "transaction-index": Codec(decode_transaction_index, encode_transaction_index),
    "producer-snapshot": Codec(decode_snapshot, encode_snapshot),
    "leader-epoch-checkpoint": Codec(decode_epochs, encode_epochs),
    "partition-metadata": Codec(decode_metadata, encode_metadata),
    "offset-checkpoint": Codec(decode_offset_checkpoint, encode_offset_checkpoint),
}
