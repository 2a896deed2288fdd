"""Readers and writers for the examples of the metadata log's files; see `format_codecs`."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Iterator
from typing import Any

from codec_support import DIRECTORY, HEADER_FIELDS, Attributes, Codec, Fields, Shelf, numbered
from message_fields import flat, made

from tailrace.protocol.codec import encode
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import (
    FRAME_VERSION,
    METADATA_RECORDS,
    VersionedRecord,
    decode_control_value,
    decode_metadata_record,
    encode_metadata_record,
)
from tailrace.protocol.records import control as control_values
from tailrace.protocol.records.control import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord
from tailrace.raft.control_batch import control_records
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotHead, SnapshotReader
from tailrace.raft.snapshot_writer import SnapshotWriter
from tailrace.raft.voters import voters_of
from tailrace.record.batch import BatchHeader
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.storage.manager.meta_properties import DirectoryId, MetaProperties

CONTROL_TYPES = {2: "LeaderChangeMessage", 3: "SnapshotHeaderRecord", 4: "SnapshotFooterRecord"}
CONTROL_TYPES |= {5: "KRaftVersionRecord", 6: "VotersRecord"}


# Values of records


def metadata_record_fields(data: bytes) -> Fields:
    record, version = decode_metadata_record(data)
    fields: Fields = {"frameVersion": FRAME_VERSION, "recordType": record.KEY, "recordVersion": version}
    return fields | dict(flat(record, version, f"{type(record).__name__}."))


def metadata_record_of(fields: Fields) -> VersionedRecord:
    kind, version = METADATA_RECORDS[fields["recordType"]], fields["recordVersion"]
    return VersionedRecord(made(kind, version, fields, f"{kind.__name__}."), version)


def decode_metadata_value(data: bytes, attributes: Attributes) -> Fields:
    return metadata_record_fields(data)


def encode_metadata_value(fields: Fields, attributes: Attributes) -> bytes:
    assert fields["frameVersion"] == FRAME_VERSION
    return encode_metadata_record(*metadata_record_of(fields))


def control_kind(name: str) -> type[Record]:
    kind: type[Record] = getattr(control_values, name)
    return kind


def decode_control_value_alone(data: bytes, attributes: Attributes) -> Fields:
    value = decode_control_value(control_kind(attributes["kind"]), data)
    return dict(flat(value, 0, attributes["kind"] + "."))


def encode_control_value_alone(fields: Fields, attributes: Attributes) -> bytes:
    return encode(made(control_kind(attributes["kind"]), 0, fields, attributes["kind"] + "."), 0)


# Snapshots


class Moments:
    """A clock that tells the times at which Kafka wrote the batches."""

    def __init__(self, moments: list[int]) -> None:
        self._moments = iter(moments)

    def now_ms(self) -> int:
        return next(self._moments)

    def monotonic_ms(self) -> int:
        raise AssertionError


def decode_metadata_snapshot(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("x.checkpoint", data)
    fields: Fields = {}
    metadata = SnapshotReader(shelf.env.files, shelf.path).records()
    for place, batch in enumerate(batches(data)):
        check_integrity(data, batch)
        prefix = f"batch[{place}]."
        header = BatchHeader.at(data, batch.position)
        fields |= {prefix + name: value for name, value in zip(HEADER_FIELDS, header, strict=True)}
        fields |= dict(_batch_fields(data, batch, prefix, metadata))
    assert next(metadata, None) is None
    return fields


def _batch_fields(
    data: bytes, batch: ShallowBatch, prefix: str, metadata: Iterator[VersionedRecord]
) -> Iterator[tuple[str, Any]]:
    controls = iter([value for _, value in control_records(data, batch)]) if batch.is_control else None
    for place, record in enumerate(records_of(data, batch)):
        of_record = f"{prefix}record[{place}]."
        assert record.value is not None
        yield of_record + "timestampDelta", record.timestamp - batch.base_timestamp
        yield of_record + "offsetDelta", record.offset - batch.base_offset
        yield of_record + "keyLength", -1 if record.key is None else len(record.key)
        yield of_record + "valueLength", len(record.value)
        yield of_record + "headerCount", len(record.headers)
        if controls is None:
            assert decode_metadata_record(record.value) == next(metadata)
            for name, value in metadata_record_fields(record.value).items():
                yield of_record + name, value
        else:
            assert record.key is not None
            yield of_record + "key.version", int.from_bytes(record.key[:2], "big")
            yield of_record + "key.type", int.from_bytes(record.key[2:], "big")
            value = next(controls)
            yield from flat(value, 0, f"{of_record}{type(value).__name__}.")


def encode_metadata_snapshot(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("part")
    found = numbered(fields, "batch")
    values = [_values_of(each) for each in found]
    head = SnapshotHead(0)
    for value in values[0]:
        match value:
            case SnapshotHeaderRecord():
                head = head._replace(timestamp_ms=value.last_contained_log_timestamp)
            case KRaftVersionRecord():
                head = head._replace(kraft_version=value.kraft_version)
            case VotersRecord():
                head = head._replace(voters=voters_of(value))
    clock = Moments([each["baseTimestamp"] for each in found])
    path = "/data/x.checkpoint"
    epoch = found[0]["partitionLeaderEpoch"]
    writer = SnapshotWriter(shelf.env.files, clock, shelf.path, path, epoch=epoch, head=head)
    writer.begin()
    for batch in values[1:-1]:
        writer.write_some(iter(batch))
    writer.finish()
    shelf.path = path
    return shelf.content


def _values_of(batch: Fields) -> list[Any]:
    values = []
    for record in numbered(batch, "record"):
        if "key.type" in record:
            kind = CONTROL_TYPES[record["key.type"]]
            values.append(made(control_kind(kind), 0, record, kind + "."))
        else:
            values.append(metadata_record_of(record))
    return values


# Text


def decode_quorum_state(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("quorum-state", data)
    state = QuorumState.read(shelf.env.files, f"{DIRECTORY}/quorum-state")
    assert state is not None
    version = json.loads(data)["data_version"]
    fields: Fields = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    if version:
        fields["votedDirectoryId"] = str(state.voted_directory_id)
    else:
        fields |= {f"currentVoters[{n}].voterId": voter for n, voter in enumerate(state.voters)}
    return fields | {"data_version": version}


def encode_quorum_state(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("quorum-state")
    state = QuorumState(
        fields["leaderEpoch"],
        fields["leaderId"],
        fields["votedId"],
        DirectoryId.parse(fields.get("votedDirectoryId", str(DirectoryId(bytes(16))))),
        tuple(voter["voterId"] for voter in numbered(fields, "currentVoters")),
    )
    state.write(shelf.env.files, shelf.path, fields["data_version"])
    return shelf.content


def decode_meta_properties(data: bytes, attributes: Attributes) -> Fields:
    shelf = Shelf("meta.properties", data)
    meta = MetaProperties.read(shelf.env.files, shelf.path)
    assert meta is not None
    return {"node.id": meta.node_id, "directory.id": str(meta.directory_id), "cluster.id": meta.cluster_id}


def encode_meta_properties(fields: Fields, attributes: Attributes) -> bytes:
    shelf = Shelf("meta.properties")
    meta = MetaProperties(fields["cluster.id"], fields["node.id"], DirectoryId.parse(fields["directory.id"]))
    written = calendar.timegm(time.strptime(fields["date"], "%a %b %d %H:%M:%S UTC %Y"))
    meta.write(shelf.env.files, shelf.path, written * 1000)
    return shelf.content


CODECS = {
    "metadata-record": Codec(decode_metadata_value, encode_metadata_value),
    "quorum-value": Codec(decode_control_value_alone, encode_control_value_alone),
    "metadata-snapshot": Codec(decode_metadata_snapshot, encode_metadata_snapshot),
    "quorum-state": Codec(decode_quorum_state, encode_quorum_state),
    "meta-properties": Codec(decode_meta_properties, encode_meta_properties),
}
