"""What a table must hold of a topic, in plain Python: record after record, nothing clever.

A row is known by its partition and offset in append mode, by its key in upsert mode. Its content is a tuple that can be
compared: partition, offset, timestamp in ms, key, headers (append mode) and the fields of its value that are not null.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

APPEND, UPSERT = "append", "upsert"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers", "_day", "_bucket")
SHOWN = 5


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def order(self) -> tuple[int, int, int]:
        """Which record of a key goes before the others, over partitions."""
        return (self.timestamp_ms, self.partition, self.offset)


class BadValueError(Exception):
    """Has no row."""


Decode = Callable[[bytes], Mapping[str, Any]]


@dataclass
class TableModel:
    mode: str
    decode: Decode
    """The fields of a value, or BadValueError. Is not asked about null."""
    topic: str = "topic"
    buckets: int = 32
    dead: dict[tuple[int, int], Record] = field(default_factory=dict)
    _appended: dict[tuple[int, int], tuple[Record, Mapping[str, Any]]] = field(default_factory=dict)
    _newest: dict[bytes, dict[int, tuple[Record, Mapping[str, Any]]]] = field(default_factory=dict)
    """Key → partition → the record with the highest offset there."""

    def add(self, records: Iterable[Record]) -> None:
        """Of each partition in the order of their offsets."""
        for record in records:
            try:
                fields = {} if record.value is None else self.decode(record.value)
            except BadValueError:
                self.dead[record.partition, record.offset] = record
                continue
            if self.mode == APPEND:
                self._appended[record.partition, record.offset] = (record, fields)
            elif record.key is None:
                self.dead[record.partition, record.offset] = record
            else:
                self._newest.setdefault(record.key, {})[record.partition] = (record, fields)

    def rows(self) -> dict[Any, tuple[Any, ...]]:
        if self.mode == APPEND:
            return {known: self._row(record, fields) for known, (record, fields) in self._appended.items()}
        rows = {}
        for key, candidates in self._newest.items():
            record, fields = max(candidates.values(), key=lambda each: each[0].order)
            if record.value is not None:
                rows[key] = self._row(record, fields)
        return rows

    def dead_rows(self) -> dict[Any, tuple[Any, ...]]:
        return {
            known: (*record[:4], self.topic, record.headers, record.value or b"") for known, record in self.dead.items()
        }

    def _row(self, record: Record, fields: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.mode == APPEND:
            return (*record[:4], self.topic, record.headers, fields_text(fields))
        assert record.key is not None
        return (*record[:4], zlib.crc32(record.key) % self.buckets, fields_text(fields))

    # What a table holds, in the same form

    def row_found(self, row: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """By what it is known, and its content."""
        own = _own_of(row)
        text = fields_text({name: value for name, value in row.items() if name not in OWN})
        if self.mode == APPEND:
            return own[:2], (*own, row["_topic"], headers_of(row), text)
        return own[3], (*own, row["_bucket"], text)

    def dead_row_found(self, row: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        own = _own_of(row)
        assert row["reason"], "a dead letter has a reason"
        return own[:2], (*own, row["_topic"], headers_of(row), row["value"] or b"")

    def differences(self, rows: Iterable[Mapping[str, Any]], dead: Iterable[Mapping[str, Any]]) -> list[str]:
        """Of a table and its dead letters, for people; none if it is as it must be."""
        return [
            *_differences("row", self.rows(), map(self.row_found, rows)),
            *_differences("dead letter", self.dead_rows(), map(self.dead_row_found, dead)),
        ]


def fields_text(fields: Mapping[str, Any]) -> str:
    """A field that is null is not there. Text compares faster than what it stands for, and is smaller."""
    return json.dumps(without_nulls(fields), sort_keys=True, default=repr)


def headers_of(row: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], each["value"]) for each in row["_headers"] or ())


def without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def _own_of(row: Mapping[str, Any]) -> tuple[int, int, int, bytes | None]:
    timestamp_ms = (row["_timestamp"] - EPOCH) // timedelta(milliseconds=1)
    return (row["_partition"], row["_offset"], timestamp_ms, row["_key"])


def _differences(
    kind: str, expected: dict[Any, tuple[Any, ...]], found: Iterable[tuple[Any, tuple[Any, ...]]]
) -> Iterator[str]:
    seen: Counter[Any] = Counter()
    wrong: list[str] = []
    for known, content in found:
        seen[known] += 1
        if known not in expected:
            wrong.append(f"{kind} {known} should not be there: {content}")
        elif expected[known] != content:
            wrong.append(f"{kind} {known} is {content}, not {expected[known]}")
    doubled = [known for known, count in seen.items() if count > 1]
    lost = [known for known in expected if known not in seen]
    for what, which in (("are there more than once", doubled), ("are missing", lost)):
        if which:
            yield f"{len(which)} of {len(expected)} {kind}s {what}: {which[:SHOWN]}"
    if wrong:
        yield f"{len(wrong)} of {len(expected)} {kind}s are wrong: {'; '.join(wrong[:SHOWN])}"
