"""What we read in a log, put into the words of Kafka's DumpLogSegments, so that the two can be compared field by field.

`Fields` are what `support.kafka.tools` parses and what `expected.json` of a golden directory holds. `producers_after`
and `aborted_in` derive from Kafka's dump of the batches what snapshots and transaction indexes must hold: a second
implementation, which shares no code with the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from tailrace.record.control import ABORT, COMMIT, read_control
from tailrace.record.reader import Record
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.producer_entry import ProducerStateEntry
from tailrace.storage.transaction_index import AbortedTxn

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_NAMES = tuple(CODECS)
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
MARKERS = {"ABORT": ABORT, "COMMIT": COMMIT}
LAST_SEQUENCE = 2**31 - 1

Fields = dict[str, Any]


def batch_fields(batch: ShallowBatch) -> Fields:
    """The line of a batch that is intact, without its records."""
    timestamp_types = {number: name for name, number in TIMESTAMP_TYPES.items()}
    seen: Fields = {"offset": batch.last_offset}
    if batch.is_v2:
        seen = {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": batch.base_sequence,
            "lastSequence": batch.last_sequence,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.leader_epoch,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "deleteHorizonMs": batch.delete_horizon_ms,
        }
    return seen | {
        "position": batch.position,
        "timestampType": timestamp_types[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": CODEC_NAMES[batch.codec],
        "crc": batch.crc,
        "isvalid": True,
    }


def without_records(batch: Fields) -> Fields:
    return {name: value for name, value in batch.items() if name != "records"}


def last_offset(batch: Fields) -> int:
    return int(batch["lastOffset"] if "lastOffset" in batch else batch["offset"])


def check_record(record: Record, wanted: Fields, is_control: bool, where: str) -> None:
    """Header values are the only thing that the tool does not print."""
    where = f"{where}, offset {wanted['offset']}"
    assert record.offset == wanted["offset"], where
    assert record.timestamp == wanted["timestamp"], where
    assert record.timestamp_type == TIMESTAMP_TYPES[wanted["timestampType"]], where
    assert (-1 if record.key is None else len(record.key)) == wanted["keySize"], where
    assert (-1 if record.value is None else len(record.value)) == wanted["valueSize"], where
    assert record.sequence == wanted.get("sequence", -1), where
    assert [name for name, _ in record.headers] == wanted.get("headerKeys", []), where
    if is_control:
        control = read_control(record)
        assert control.type == MARKERS[wanted["endTxnMarker"]], where
        assert control.coordinator_epoch == wanted["coordinatorEpoch"], where
        return
    assert text(record.key) == wanted.get("key"), where
    if "payloadSha256" in wanted:
        assert record.value is not None
        assert hashlib.sha256(record.value).hexdigest() == wanted["payloadSha256"], where
    else:
        assert text(record.value) == wanted.get("payload"), where


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


# -- producers and transactions --------------------------------------------------------------------------------------


def producer_fields(entry: ProducerStateEntry) -> Fields:
    """The line of a producer in a snapshot, which has only the newest batch, with the newest timestamp."""
    seen: Fields = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": entry.txn_first_offset,
        "lastTimestamp": entry.last_timestamp,
    }
    if entry.batches:
        newest = entry.batches[-1]
        seen |= {
            "firstSequence": newest.first_seq,
            "lastSequence": newest.last_seq,
            "lastOffset": newest.last_offset,
            "offsetDelta": newest.offset_delta,
            "timestamp": entry.last_timestamp,
        }
    return seen


def by_producer(lines: Iterable[Fields]) -> dict[int, Fields]:
    return {line["producerId"]: line for line in lines}


def producers_after(batches: Iterable[Fields], below: int | None = None) -> dict[int, Fields]:
    """The lines of a snapshot at offset `below` (the end), by producer, from Kafka's dump of the batches before it."""
    known: dict[int, Fields] = {}
    for batch in batches:
        producer_id = batch.get("producerId", -1)
        if producer_id < 0 or (below is not None and batch["lastOffset"] >= below):
            continue
        nothing = {"coordinatorEpoch": -1, "currentTxnFirstOffset": None, "producerEpoch": -1}
        line = known.get(producer_id, nothing)
        if line["producerEpoch"] != batch["producerEpoch"]:
            line = {name: line[name] for name in nothing}
        line = {**line, "producerId": producer_id, "producerEpoch": batch["producerEpoch"]}
        stamp = batch["maxTimestamp"]
        if batch["isControl"]:
            for marker in batch["records"]:
                line |= {"coordinatorEpoch": marker["coordinatorEpoch"], "currentTxnFirstOffset": None}
        else:
            delta = batch["lastOffset"] - batch["baseOffset"]
            line |= {
                "firstSequence": (batch["lastSequence"] - delta) % (LAST_SEQUENCE + 1),
                "lastSequence": batch["lastSequence"],
                "lastOffset": batch["lastOffset"],
                "offsetDelta": delta,
            }
            if batch["isTransactional"] and line["currentTxnFirstOffset"] is None:
                line["currentTxnFirstOffset"] = batch["baseOffset"]
        line["lastTimestamp"] = stamp
        if "lastOffset" in line:
            line["timestamp"] = stamp
        known[producer_id] = line
    return known


def aborted_in(batches: Iterable[Fields]) -> list[AbortedTxn]:
    """The entries of all transaction indexes of a log, from Kafka's dump of its batches."""
    open_since: dict[int, int] = {}
    found = []
    for batch in batches:
        producer_id = batch.get("producerId", -1)
        if not batch.get("isTransactional"):
            continue
        if not batch["isControl"]:
            open_since.setdefault(producer_id, batch["baseOffset"])
            continue
        for marker in batch["records"]:
            first = open_since.pop(producer_id, None)
            if marker["endTxnMarker"] == "ABORT" and first is not None:
                stable = min(open_since.values(), default=marker["offset"] + 1)
                found.append(AbortedTxn(producer_id, first, marker["offset"], stable))
    return found
