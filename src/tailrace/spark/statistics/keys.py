"""The keys of a piece, brought together before they go to a shuffle: a row for each, however often it comes.

A key of up to MOST_KEY_BYTES stands for itself. For a longer one stand its first MOST_KEY_BYTES bytes, its digest
(BLAKE2b, 16 bytes) and its length (8 bytes, big endian), which together are longer than any key that stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.spark.statistics.sample import are_in
from tailrace.spark.statistics.sizes import Numbers
from tailrace.spark.statistics.tally import Records
from tailrace.spark.tables.columns import KEY
from tailrace.spark.tables.tasks.buckets import by_bucket

MOST_KEY_BYTES: Final = 256
MOST_WAITING_ROWS: Final = 400_000
MOST_WAITING_BYTES: Final = 32 << 20

VALUE, TOMBSTONE, EXPIRED = range(3)
"""What the newest record of a key is. An expired tombstone's delete horizon has passed: it goes, too."""

_NUMBERS: Final = (
    "records",
    "payload",
    "last",
    "last_size",
    "last_kind",
    "closed",
    "closed_size",
    "closed_kind",
)
SCHEMA: Final = pa.schema([(KEY, pa.binary()), *((name, pa.int64()) for name in _NUMBERS), ("partition", pa.int32())])
"""`last` is the newest offset of the key; `closed` the newest in closed segments, −1 without any. Sizes are of these
records, as `Records.sizes` has them."""
SAMPLED_SCHEMA: Final = pa.schema([(KEY, pa.binary()), ("offset", pa.int64()), ("partition", pa.int32())])

_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class _Rows:
    """Unique keys; a column of numbers each, as _NUMBERS names them."""

    keys: pa.Array
    numbers: Numbers

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + self.numbers.nbytes


class PieceKeys:
    """Records come in the order of their offsets."""

    def __init__(self, partition: int, closed_to: int | None, *, waiting_rows: int = MOST_WAITING_ROWS) -> None:
        self._partition = partition
        self._closed_to = -1 if closed_to is None else closed_to
        self._most_rows = waiting_rows
        self._waiting: list[_Rows] = []
        self._sampled: list[tuple[pa.Array, Numbers]] = []

    def add(
        self,
        records: Records,
        expired: tuple[Numbers, Numbers],
        sampled: tuple[Numbers, Numbers],
    ) -> None:
        """`expired` and `sampled` are ranges of offsets: of batches whose tombstones go, and of those in the sample."""
        has_key = records.key_sizes >= 0
        if not has_key.any():
            return
        keys = records.keys if has_key.all() else records.keys.filter(pa.array(has_key))
        offsets = records.offsets[has_key]
        keys = identities(keys, records.key_sizes[has_key])
        kinds = np.where(are_in(offsets, *expired), EXPIRED, TOMBSTONE) * records.tombstones[has_key]
        payload = records.payload[has_key]
        sizes = records.sizes[has_key]
        is_closed = offsets < self._closed_to
        columns = (
            np.ones(len(offsets), np.int64),
            payload,
            offsets,
            sizes,
            kinds,
            np.where(is_closed, offsets, -1),
            np.where(is_closed, sizes, 0),
            np.where(is_closed, kinds, 0),
        )
        self._waiting.append(_merged(keys, np.stack(columns, axis=1)))
        is_sampled = are_in(offsets, *sampled)
        if is_sampled.any():
            self._sampled.append((keys.filter(pa.array(is_sampled)), offsets[is_sampled]))

    @property
    def is_full(self) -> bool:
        """Then `send` some of it. What waits is brought together before that is said."""
        if not self._is_much():
            return False
        self._gather()
        return self._is_much(2)

    def _is_much(self, part: int = 1) -> bool:
        rows = sum(len(each.keys) for each in self._waiting)
        return rows * part > self._most_rows or sum(each.nbytes for each in self._waiting) * part > MOST_WAITING_BYTES

    def _gather(self) -> None:
        if len(self._waiting) > 1:
            keys = pa.concat_arrays([each.keys for each in self._waiting])
            self._waiting = [_merged(keys, np.concatenate([each.numbers for each in self._waiting]))]

    def send(self, buckets: int) -> Iterator[tuple[int, bytes]]:
        """What waits, by buckets."""
        self._gather()
        for each in self._waiting:
            numbers = [pa.array(np.ascontiguousarray(column)) for column in each.numbers.T]
            columns = [each.keys, *numbers, _repeated(self._partition, len(each.keys))]
            yield from by_bucket(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), buckets)
        self._waiting = []

    def send_sampled(self, sampled: tuple[Numbers, Numbers], buckets: int) -> Iterator[tuple[int, bytes]]:
        """Keys and offsets of records that are in the sample at last."""
        for keys, offsets in self._sampled:
            is_left = are_in(offsets, *sampled)
            if is_left.any():
                chosen = keys.filter(pa.array(is_left))
                columns = [chosen, pa.array(offsets[is_left]), _repeated(self._partition, len(chosen))]
                yield from by_bucket(pa.RecordBatch.from_arrays(columns, schema=SAMPLED_SCHEMA), buckets)
        self._sampled = []


def identities(keys: pa.Array, sizes: Numbers) -> pa.Array:
    """What stands for the keys, none of which is null."""
    is_long = sizes > MOST_KEY_BYTES
    if not is_long.any():
        return keys
    texts = keys.to_pylist()
    for row in np.flatnonzero(is_long).tolist():
        key = texts[row]
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        texts[row] = key[:MOST_KEY_BYTES] + digest + len(key).to_bytes(8, "big")
    return pa.array(texts, pa.binary())


def key_of(identity: bytes) -> tuple[bytes, int]:
    """What is known of the key itself, and how long it is."""
    if len(identity) <= MOST_KEY_BYTES:
        return identity, len(identity)
    return identity[:MOST_KEY_BYTES], int.from_bytes(identity[MOST_KEY_BYTES + _DIGEST_BYTES :], "big")


def _merged(keys: pa.Array, numbers: Numbers) -> _Rows:
    """A row for each key: counts are added, and of the rest the last one stays that has it."""
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    made = np.zeros((len(encoded.dictionary), len(_NUMBERS)), np.int64)
    np.add.at(made[:, :2], codes, numbers[:, :2])
    # Of several assignments to one row the last one counts.
    made[codes, 2:5] = numbers[:, 2:5]
    made[:, 5] = -1
    has_closed: npt.NDArray[np.bool_] = numbers[:, 5] >= 0
    made[codes[has_closed], 5:] = numbers[has_closed, 5:]
    return _Rows(encoded.dictionary, made)


def _repeated(partition: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(partition, pa.int32()), count)
