"""What a clean must leave of a log, in plain Python and in the words of Kafka's DumpLogSegments.

`compacted` takes the batches that the tool printed before the clean and says what it must print after it. It shares no
code with the engine, and what it starts from was read by Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from support.kafka.dump_view import Fields, producers_after

PRODUCER_EXPIRATION_MS = 86_400_000
SHAPE = (
    *("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch"),
    *("partitionLeaderEpoch", "isTransactional", "isControl", "deleteHorizonMs", "maxTimestamp", "timestampType"),
    *("magic", "compresscodec", "records"),
)


class Clean(NamedTuple):
    """One clean: of the batches below `end`, the base of a segment, by the records from `first_dirty` on."""

    first_dirty: int
    end: int
    now_ms: int
    delete_retention_ms: int


def compacted(batches: Sequence[Fields], clean: Clean) -> list[Fields]:
    """The batches as they must be printed, without what a rewrite may choose: position, size and CRC."""
    aborted = aborted_batches(batches)
    newest = {
        record["key"]: record["offset"]
        for batch in batches
        if not batch["isControl"] and batch["baseOffset"] not in aborted
        for record in batch["records"]
        if clean.first_dirty <= record["offset"] < clean.end
    }
    active = active_producers(batches, clean.now_ms)
    with_batches: set[int] = set()
    left: list[Fields] = []
    for batch in map(shape, batches):
        producer_id = batch["producerId"]
        is_last = is_last_of(batch, active)
        keeps_empty = is_last or batch["lastOffset"] + 1 == clean.end
        if batch["baseOffset"] >= clean.end:
            left.append(batch)
        elif batch["isControl"]:
            left += _marker(batch, producer_id in with_batches, is_last, keeps_empty, clean)
            with_batches.discard(producer_id)
        else:
            if batch["isTransactional"]:
                with_batches.add(producer_id)
            left += _data(batch, batch["baseOffset"] in aborted, newest, keeps_empty, clean)
    return left


def _data(
    batch: Fields, is_aborted: bool, newest: Mapping[str, int], keeps_empty: bool, clean: Clean
) -> Iterable[Fields]:
    """The latest record of each key; tombstones until their horizon; nothing of an aborted transaction."""
    horizon_ms = batch["deleteHorizonMs"]
    keeps_tombstones = horizon_ms is None or clean.now_ms < horizon_ms
    kept = [
        record
        for record in batch["records"]
        if not is_aborted
        and record["offset"] >= newest.get(record["key"], -1)
        and (is_value(record) or keeps_tombstones)
    ]
    if not kept:
        return [emptied(batch)] if keeps_empty else []
    if horizon_ms is None and not all(map(is_value, kept)):
        horizon_ms = clean.now_ms + clean.delete_retention_ms
    elif len(kept) == len(batch["records"]):
        return [batch]
    changed = {"records": kept, "count": len(kept), "deleteHorizonMs": horizon_ms}
    if batch["timestampType"] == "CreateTime":
        changed["maxTimestamp"] = max(record["timestamp"] for record in kept)
    return [batch | changed]


def _marker(batch: Fields, is_useful: bool, is_last: bool, keeps_empty: bool, clean: Clean) -> Iterable[Fields]:
    """Until its transaction's batches are gone and the horizon that it then gets has passed."""
    horizon_ms = batch["deleteHorizonMs"]
    if not batch["records"]:
        return [batch] if keeps_empty else []
    if is_useful:
        return [batch]
    if horizon_ms is None:
        return [batch | {"deleteHorizonMs": clean.now_ms + clean.delete_retention_ms}]
    if clean.now_ms < horizon_ms or is_last:
        return [batch]
    return [emptied(batch)] if keeps_empty else []


def emptied(batch: Fields) -> Fields:
    return batch | {"records": [], "count": 0, "deleteHorizonMs": None, "compresscodec": "none"}


def is_value(record: Fields) -> bool:
    return bool(record["valueSize"] >= 0)


def shape(batch: Fields) -> Fields:
    return {name: batch[name] for name in SHAPE}


def aborted_batches(batches: Iterable[Fields]) -> set[int]:
    """Base offsets of the batches whose transaction ended with an abort."""
    aborted: set[int] = set()
    begun: dict[int, list[int]] = {}
    for batch in batches:
        for marker in batch["records"] if batch["isControl"] else ():
            ended = begun.pop(batch["producerId"], [])
            aborted.update(ended if marker["endTxnMarker"] == "ABORT" else ())
        if batch["isTransactional"] and not batch["isControl"]:
            begun.setdefault(batch["producerId"], []).append(batch["baseOffset"])
    return aborted


def active_producers(batches: Iterable[Fields], now_ms: int) -> dict[int, Fields]:
    """Those that a broker which starts now remembers, as their snapshot's lines: an open transaction never expires."""
    return {
        producer_id: line
        for producer_id, line in producers_after(batches).items()
        if line["currentTxnFirstOffset"] is not None or now_ms - line["lastTimestamp"] < PRODUCER_EXPIRATION_MS
    }


def is_last_of(batch: Fields, active: Mapping[int, Fields]) -> bool:
    """Whether the batch holds the last sequence of its producer, or, where there is none, the epoch."""
    line = active.get(batch["producerId"])
    if line is None:
        return False
    if "lastOffset" in line:
        return bool(batch["lastOffset"] == line["lastOffset"])
    return bool(batch["isControl"] and batch["producerEpoch"] == line["producerEpoch"])


def data_records(batches: Iterable[Fields]) -> dict[int, tuple[str, str | None]]:
    """Key and value by offset, of all that consumers are given: of aborted transactions too."""
    return {
        record["offset"]: (record["key"], record.get("payload"))
        for batch in batches
        if not batch["isControl"]
        for record in batch["records"]
    }


def table(batches: Sequence[Fields]) -> dict[str, str]:
    """The latest value of each key; keys whose latest record is a tombstone are gone."""
    aborted = aborted_batches(batches)
    latest = {
        key: value
        for batch in batches
        if batch["baseOffset"] not in aborted
        for key, value in data_records([batch]).values()
    }
    return {key: value for key, value in latest.items() if value is not None}
