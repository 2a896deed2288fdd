"""Records with all that a table has to cope with: upserts, tombstones, keys in two partitions, values that do not fit.

Values are JSON. New fields come up all the time. Timestamps are in no order. Same seed, same records.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from support.tables.model import BadValueError, Record

T0 = 1_700_000_000_000
PARTITIONS = 3
DAYS = 3
DAY_MS = 86_400_000
KEYS_PER_RECORD = 0.2
LATE_FIELD = "late"
LATE_FIELDS = 16
"""So many times a field comes up that was not there before."""


def records(count: int, seed: int, *, partitions: int = PARTITIONS) -> Iterator[Record]:
    """Each partition's own in the order of its offsets."""
    drawn = random.Random(seed)
    ends = [0] * partitions
    keys = max(1, int(count * KEYS_PER_RECORD))
    for number in range(count):
        key = drawn.randrange(keys)
        wanders = key % 10 == 0  # such a key is met in all partitions
        partition = drawn.randrange(partitions) if wanders else key % partitions
        yield Record(
            partition,
            ends[partition],
            T0 + drawn.randrange(DAYS * DAY_MS),
            None if drawn.random() < 0.005 else b"key-%d" % key,
            _value(drawn, number, number * (LATE_FIELDS + 1) // count),
            (("number", b"%d" % number), ("empty", None)) if number % 50 == 0 else (),
        )
        ends[partition] += 1


def decode(value: bytes) -> Mapping[str, Any]:
    """A plain decoder of these values."""
    try:
        found = json.loads(value)
    except ValueError as error:
        raise BadValueError(str(error)) from error
    if not isinstance(found["number"], int):
        raise BadValueError("number is no number")
    fields: Mapping[str, Any] = found
    return fields


def _value(drawn: random.Random, number: int, age: int) -> bytes | None:
    kind = drawn.random()
    if kind < 0.06:
        return None
    if kind < 0.065:
        return b'{"number": %d, "text": ' % number
    fields: dict[str, Any] = {"number": number, "text": f"Überfahrt {number}", "place": {"x": number % 7, "y": 0.5}}
    if kind < 0.2:
        fields["marks"] = [number % 3, None, number % 5]
    if kind > 0.9:
        fields["text"] = None
    if age:
        fields[f"{LATE_FIELD}_{age}"] = f"late {number % 11}"
    if age * 2 > LATE_FIELDS and kind < 0.07:
        fields["number"] = "seven"
    return json.dumps(fields, ensure_ascii=False).encode()
