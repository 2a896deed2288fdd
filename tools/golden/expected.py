"""What Kafka says of a golden directory: its dump of every file, and its answers while it still served it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka import TopicPartition
from kafka.protocol.consumer.offsets import IsolationLevel

from golden import wire
from golden.broker import Broker
from golden.cases import Case
from support.kafka.tools import FileDump, dump_log_segments

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -2, -1, -3, -4
LONGEST_TEXT = 300
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def ask(broker: Broker, case: Case, dumps: Sequence[FileDump]) -> dict[str, Any]:
    """The running broker's answers: offsets by time, and reads of both isolation levels at many offsets and sizes."""
    admin = broker.admin()
    partition = TopicPartition(case.name, 0)

    def offset_for(timestamp: int, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> list[int | None]:
        found = admin.list_partition_offsets({partition: timestamp}, isolation_level=isolation)[partition]
        return [found.offset, found.timestamp, found.leader_epoch]

    batches = [batch for dump in dumps for batch in dump.batches]
    timestamps = sorted({record["timestamp"] for batch in batches for record in batch["records"]})
    asked = {stamp for each in spread(timestamps, 8) for stamp in (each - 1, each, each + 1) if stamp >= 0}
    answers: dict[str, Any] = {
        "earliest": offset_for(EARLIEST),
        "latest": offset_for(LATEST),
        "latest_read_committed": offset_for(LATEST, IsolationLevel.READ_COMMITTED),
        "max_timestamp": offset_for(MAX_TIMESTAMP),
        "earliest_local": offset_for(EARLIEST_LOCAL),
        "by_timestamp": [[stamp, *offset_for(stamp)] for stamp in sorted(asked)],
    }
    admin.close()
    start, end = answers["earliest"][0], answers["latest"][0]
    answers["reads"] = [
        read(broker, case.name, offset, max_bytes, read_committed)
        for offset in spread(list(range(start, end + 1)), 9)
        for max_bytes in (1, 1000, 1 << 20)
        for read_committed in (False, True)
        if max_bytes > 1 or not read_committed
    ]
    return answers


def read(broker: Broker, topic: str, offset: int, max_bytes: int, read_committed: bool) -> dict[str, Any]:
    answer = wire.fetch(broker.port, topic, offset, max_bytes, read_committed)
    return {
        "offset": offset,
        "max_bytes": max_bytes,
        "read_committed": read_committed,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "log_start_offset": answer.log_start_offset,
        "aborted": answer.aborted,
        "bytes": len(answer.records),
        "sha256": hashlib.sha256(answer.records).hexdigest(),
    }


def spread(values: list[int], count: int) -> list[int]:
    """At most `count` of the values, first and last among them, at even distances."""
    if len(values) <= count:
        return values
    return [values[n * (len(values) - 1) // (count - 1)] for n in range(count)]


def describe(case: Case, folder: Path, dumps: Sequence[FileDump], notes: list[dict[str, Any]]) -> dict[str, Any]:
    """What stands in the files of `folder`, by kind of file and file name."""

    def entries(suffix: str) -> dict[str, Any]:
        return {dump.path.name: dump.entries for dump in dumps if dump.path.suffix == suffix}

    return {
        "kafka": "4.3.1",
        "case": case.name,
        "about": case.about,
        "topic_settings": dict(case.settings),
        "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        "partition_metadata": (folder / "partition.metadata").read_text(),
        "leader_epoch_checkpoint": (folder / "leader-epoch-checkpoint").read_text(),
        "offset_indexes": entries(".index"),
        "time_indexes": entries(".timeindex"),
        "transaction_indexes": entries(".txnindex"),
        "snapshots": entries(".snapshot"),
        "index_complaints": {dump.path.name: dump.index_complaints for dump in dumps if dump.index_complaints},
        "gaps": {dump.path.name: dump.gaps for dump in dumps if dump.gaps},
        "logs": {dump.path.name: [shortened(batch) for batch in dump.batches] for dump in dumps if dump.batches}
        | {dump.path.name: [] for dump in dumps if dump.path.suffix == ".log" and not dump.batches},
        "sent": notes,
    }


def shortened(batch: dict[str, Any]) -> dict[str, Any]:
    """Long payloads by their digest."""
    for record in batch["records"]:
        payload = record.get("payload", "")
        if len(payload) > LONGEST_TEXT:
            del record["payload"]
            record["payloadSha256"] = hashlib.sha256(payload.encode()).hexdigest()
    return batch


def dumps_of(folders: Sequence[Path], dumpable: Sequence[str] = DUMPED) -> dict[Path, list[FileDump]]:
    """Kafka's dump of all files in these partition directories, by directory, in the order of their names.

    What the tool finds strange in Kafka's own files is recorded, not raised.
    """
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in dumpable]
    # The tool stumbles over an index that a killed broker left full of zeros, which is an index without entries.
    blank = {file for file in files if file.suffix in (".index", ".timeindex") and not any(file.read_bytes())}
    dumps = dump_log_segments(
        [file for file in files if file not in blank], allow_gaps=True, allow_index_complaints=True
    ) | {file: FileDump(file) for file in blank}
    return {folder: [dumps[file] for file in files if file.parent == folder] for folder in folders}


def to_text(value: Any, depth: int = 0) -> str:
    """JSON with one line for each innermost object or list, so that a change shows as a few lines."""
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if not any(_is_deep(child) for child in nested):
        return json.dumps(value, ensure_ascii=True)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {to_text(child, depth + 1)}" for name, child in value.items()]
        return "{\n" + ",\n".join(pad + part for part in parts) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + to_text(child, depth + 1) for child in value) + "\n" + " " * depth + "]"


def _is_deep(value: Any) -> bool:
    """Whether a value holds more than a list of plain values, and so deserves lines of its own."""
    if isinstance(value, dict):
        return True
    return isinstance(value, list | tuple) and any(isinstance(child, dict | list | tuple) and child for child in value)
