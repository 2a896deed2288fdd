"""Records of `__consumer_offsets`: those that Kafka has written, from a file, and those of a broker here.

    PYTHONPATH=tests python -m support.coordinators.group_records LOG_DIR GROUP… > tests/support/…-records-4.3.1.json

makes such a file of a broker that has been stopped. Take out of it what came after the conversation: sessions that
ended.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.brokers.simulated import SimBroker
from support.requests.response_values import shape
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.records import GROUP_RECORDS, decode_record
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.protocol.codec import encode
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.fetch import Isolation

CHOSEN = ("timestamp", "hash", "client_id", "client_host", "version")
MADE_ID = re.compile(r"[-\w]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![-\w])[-\w]{22}(?![-\w])")

Rows = Sequence[tuple[int, str, str | None]]
"""Number of the batch, key and value of each record, in hexadecimal digits."""
Numbered = list[tuple[int, CoordinatorRecord]]
"""By the number of their batch."""


def decoded(rows: Rows) -> Numbered:
    found = []
    for batch, key, value in rows:
        record = decode_record(GROUP_RECORDS, bytes.fromhex(key), None if value is None else bytes.fromhex(value))
        assert record is not None
        found.append((batch, record))
    return found


def encoded(record: CoordinatorRecord) -> tuple[str, str | None]:
    """Key and value, as the rows have them."""
    key = record.key.KEY.to_bytes(2, "big") + bytes(encode(record.key, 0))
    if record.value is None:
        return key.hex(), None
    value = record.value_version.to_bytes(2, "big") + bytes(encode(record.value, record.value_version))
    return key.hex(), value.hex()


def written(broker: SimBroker, group_id: str) -> Numbered:
    index = broker.node.groups.partition_for(group_id)
    log = broker.node.replicas.partition(CONSUMER_OFFSETS, index).log
    assert log is not None
    return decoded(rows_of(log.read(0, 1 << 20, Isolation.LOG_END).read(), group_id))


def rows_of(data: bytes, group_id: str) -> Rows:
    found = []
    for number, batch in enumerate(batches(data)):
        for each in records_of(data, batch):
            record = decode_record(GROUP_RECORDS, each.key, each.value)
            assert record is not None
            assert each.key is not None
            if group_id in (getattr(record.key, "group_id", None), getattr(record.key, "group", None)):
                found.append((number, each.key.hex(), None if each.value is None else each.value.hex()))
    return found


def plain(record: CoordinatorRecord) -> str:
    """Without what goes by ids, times and addresses."""
    text = repr((type(record.key).__name__, shape(record.key), record.value_version, shape(record.value)))
    for name in CHOSEN:
        text = re.sub(rf"('\w*{name}'): ('[^']*'|-?\d+)", r"\1: …", text)
    return MADE_ID.sub("made", text)


def in_batches(records: Numbered) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for batch, record in records:
        found.setdefault(batch, []).append(plain(record))
    return list(found.values())


def texts(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a simulated broker takes them."""
    return {name.replace(".", "_"): text for name, text in settings.items()}


def main() -> None:
    folder, *group_ids = sys.argv[1:]
    logs = [path.read_bytes() for path in sorted(Path(folder).glob(f"{CONSUMER_OFFSETS}-*/*.log"))]
    found = {each: [row for data in logs for row in rows_of(data, each)] for each in group_ids}
    lines = (f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in found.items())
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
