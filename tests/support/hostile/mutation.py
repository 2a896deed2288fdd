"""Bytes made hostile: a seed that was right, damaged in ways that readers are known to trip over.

A `Seed` knows where its integers stand, so that lengths, counts and offsets are lied about more often than chance
would. Everything is drawn from one `random.Random`: the same generator gives the same bytes. No mutation looks at what
is under test, except that checksums can be made right again, so that the lie behind them is reached.
"""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from crc32c import crc32c

from tailrace.model.errors import TailraceError
from tailrace.record import compression
from tailrace.record.batch import CODEC_MASK, CRC_AT, HEADER_BYTES
from tailrace.record.compression import compress, decompress
from tailrace.record.shallow import ShallowBatch, batches

Field = tuple[int, int]
"""Position and size of a big-endian integer."""

MAX_INPUT_BYTES = 1 << 16
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
TOKENS = (
    *("", " ", "\n", "\t", "-1", "0", "1", "00", "+1", "1e3", "0x10", "1_0", "٣", "nan", "\x00", "\ufeff", "\u2028"),
    *(
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "9" * 30,
        "a" * 300,
        "t",
        "t 0",
        "t 0 1",
    ),
)
VARINTS = tuple(
    bytes.fromhex(text)
    for text in (
        *("00", "01", "02", "03", "7e", "7f", "8000", "8100", "fe01", "ff7f", "80808000", "808080808000"),
        *("feffffff0f", "ffffffff0f", "ffffffff1f", "ffffffffff", "feffffffffffffffff01", "ffffffffffffffffff01"),
        *("ffffffffffffffffff03", "ffffffffffffffffffff", "80808080808080808000"),
    )
)

V2_FIELDS: tuple[Field, ...] = (
    *((0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4)),
    *((27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4)),
)
LEGACY_FIELDS: dict[int, tuple[Field, ...]] = {
    0: ((0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 4)),
    1: ((0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 8), (26, 4)),
}


@contextmanager
def zlibs_gzip() -> Iterator[None]:
    """Isal's deflate does not make the same bytes of the same input each time, and seeds and
    inputs must be the same in every process."""
    with mock.patch.object(compression.igzip, "compress", gzip.compress):
        yield


class Seed(NamedTuple):
    data: bytes
    fields: tuple[Field, ...] = ()


def seed_of_batches(data: bytes) -> Seed:
    """A row of batches of any magic, with the fields of all their headers."""
    fields = tuple(
        (batch.position + position, size)
        for batch in batches(data)
        for position, size in (V2_FIELDS if batch.is_v2 else LEGACY_FIELDS[batch.magic])
    )
    return Seed(data, fields)


def seed_of_entries(data: bytes, fields: Sequence[Field], entry_bytes: int, start: int = 0) -> Seed:
    """Equal entries one behind the other from `start` on; `fields` are those of an entry."""
    entries = range(start, len(data) - entry_bytes + 1, entry_bytes)
    return Seed(data, tuple((entry + position, size) for entry in entries for position, size in fields))


# Single mutations; each changes `data` in place.

Mutation = Callable[[random.Random, bytearray, Seed, Sequence[Seed]], None]


def _flip_bit(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set_byte(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    data[chance.randrange(len(data))] = chance.choice(BYTES) if chance.random() < 0.8 else chance.randrange(256)


def _set_run(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    start = chance.randrange(len(data))
    end = min(start + chance.choice((2, 4, 8, 40, 600)), len(data))
    data[start:end] = bytes((chance.choice(BYTES),)) * (end - start)


def _set_integer(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    size = chance.choice((2, 4, 8))
    if len(data) >= size:
        _write_integer(chance, data, chance.randrange(len(data) - size + 1), size)


def _set_field(chance: random.Random, data: bytearray, seed: Seed, _: Sequence[Seed]) -> None:
    if seed.fields:
        position, size = chance.choice(seed.fields)
        if position + size <= len(data):
            _write_integer(chance, data, position, size)


def _write_integer(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    bits = 8 * size
    old = int.from_bytes(data[position : position + size], "big")
    value = chance.choice(
        (
            *(0, 1, 2, 7, -1, -2, (1 << bits - 1) - 1, (1 << bits - 1) - 2, -(1 << bits - 1), 1 - (1 << bits - 1)),
            *(
                old + 1,
                old - 1,
                old + 7,
                -old,
                old << 1,
                old >> 1,
                old ^ (1 << bits - 1),
                old ^ 1 << chance.randrange(bits),
            ),
            *(len(data), len(data) - position, chance.getrandbits(bits), chance.getrandbits(chance.randint(1, bits))),
        )
    )
    data[position : position + size] = (value & (1 << bits) - 1).to_bytes(size, "big")


def _set_varint(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    start = chance.randrange(len(data))
    data[start : start + chance.choice((0, 1, 1, 1, 2))] = chance.choice(VARINTS)


def _cut_tail(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    del data[-chance.randint(1, min(len(data), chance.choice((3, 60, 1 << 20)))) :]


def _cut_head(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    del data[: chance.randint(1, min(len(data), chance.choice((3, 60, 1 << 20))))]


def _cut_out(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    start = chance.randrange(len(data))
    del data[start : start + chance.choice((1, 2, 4, 8, 100))]


def _duplicate(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    start = chance.randrange(len(data))
    part = data[start : start + chance.choice((1, 4, 8, 34, 100, 4000))]
    to = chance.choice((start, len(data), chance.randrange(len(data))))
    data[to:to] = part


def _insert(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    at = chance.randrange(len(data) + 1)
    size = chance.choice((1, 2, 4, 8, 61, 300))
    data[at:at] = chance.randbytes(size) if chance.random() < 0.5 else bytes((chance.choice(BYTES),)) * size


def _swap(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    size = chance.choice((1, 4, 8, 12, 61))
    if len(data) >= 2 * size:
        one = chance.randrange(len(data) - 2 * size + 1)
        two = chance.randint(one + size, len(data) - size)
        data[one : one + size], data[two : two + size] = data[two : two + size], data[one : one + size]


def _splice(chance: random.Random, data: bytearray, _: Seed, others: Sequence[Seed]) -> None:
    other = chance.choice(others).data
    cut = chance.randrange(len(data) + 1)
    data[cut:] = other[chance.randrange(len(other) + 1) :]


def _append_other(chance: random.Random, data: bytearray, _: Seed, others: Sequence[Seed]) -> None:
    data += chance.choice(others).data


def _set_token(chance: random.Random, data: bytearray, _: Seed, __: Sequence[Seed]) -> None:
    """For text: another word, number or separator."""
    found = list(re.finditer(rb"\s+|[^\s]+", bytes(data)))
    if found:
        start, end = chance.choice(found).span()
        data[start:end] = chance.choice(TOKENS).encode()


_ANY: tuple[Mutation, ...] = (
    *(_flip_bit, _flip_bit, _set_byte, _set_byte, _set_integer, _set_field, _set_field, _set_field, _set_field),
    *(_set_varint, _set_varint, _cut_tail, _cut_head, _cut_out, _duplicate, _insert, _swap, _set_run),
    *(_splice, _append_other),
)
_PAYLOAD: tuple[Mutation, ...] = (
    *(_flip_bit, _set_byte, _set_byte, _set_varint, _set_varint, _set_varint, _cut_tail, _cut_out, _duplicate, _insert),
)
_TEXT: tuple[Mutation, ...] = (
    *(_set_token, _set_token, _set_token, _set_token, _set_token, _flip_bit, _set_byte, _cut_tail, _cut_head, _cut_out),
    *(_duplicate, _insert, _swap, _splice, _append_other),
)


def mutated(
    chance: random.Random, seed: Seed, others: Sequence[Seed], mutations: Sequence[Mutation] = _ANY
) -> bytearray:
    """The seed after one to five mutations; `others` are what it may be spliced with."""
    data = bytearray(seed.data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        if data:
            chance.choice(mutations)(chance, data, seed, others)
    return data[:MAX_INPUT_BYTES]


def mutated_text(chance: random.Random, seed: Seed, others: Sequence[Seed]) -> bytearray:
    return mutated(chance, seed, others, _TEXT)


def hostile_batches(chance: random.Random, seeds: Sequence[Seed]) -> bytearray:
    """Batches with damage outside, or inside what is compressed, or both; half of them with CRCs that hold."""
    seed = chance.choice(seeds)
    is_repacked = chance.random() < 0.4
    if is_repacked:
        seed = seed._replace(data=bytes(_with_hostile_payload(chance, seed.data)))
    if is_repacked and chance.random() < 0.6:
        return bytearray(seed.data)
    data = mutated(chance, seed, seeds)
    if chance.random() < 0.5:
        fix_crcs(data)
    return data


def fix_crcs(data: bytearray) -> None:
    """Give every whole batch the CRC of its bytes, as far as the lengths lead."""
    position = 0
    while len(data) - position >= CRC_AT:
        length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        end = position + 12 + length
        if end > len(data) or length < 6:
            return
        if data[position + 16] > 1:
            data[position + 17 : position + 21] = crc32c(data[position + 21 : end]).to_bytes(4, "big")
        else:
            data[position + 12 : position + 16] = zlib.crc32(data[position + 16 : end]).to_bytes(4, "big")
        position = end


def fix_snapshot_crc(data: bytearray) -> None:
    if len(data) >= 6:
        data[2:6] = crc32c(data[6:]).to_bytes(4, "big")


@zlibs_gzip()
def _with_hostile_payload(chance: random.Random, data: bytes) -> bytearray:
    """One batch unpacked, its records damaged, and packed again, perhaps with another codec; its CRC is right."""
    found = list(batches(data))
    if not found:
        return bytearray(data)
    batch = chance.choice(found)
    whole = data[batch.position : batch.end]
    try:
        packed = _repacked_v2(chance, whole, batch) if batch.is_v2 else _repacked_wrapper(chance, whole, batch)
    except TailraceError:  # a seed of a codec that is not known has nothing inside
        return bytearray(data)
    fix_crcs(packed)
    return bytearray(data[: batch.position]) + packed + data[batch.end :]


def _repacked_v2(chance: random.Random, whole: bytes, batch: ShallowBatch) -> bytearray:
    records = decompress(batch.codec, whole[HEADER_BYTES:], 1 << 24)
    codec = batch.codec if chance.random() < 0.6 else chance.randrange(5)
    payload = compress(codec, bytes(mutated(chance, Seed(records), [Seed(records)], _PAYLOAD)))
    if chance.random() < 0.2:
        payload = bytes(mutated(chance, Seed(payload), [Seed(payload)]))
    packed = bytearray(whole[:HEADER_BYTES]) + payload
    packed[22] = packed[22] & ~CODEC_MASK | codec
    packed[8:12] = (len(packed) - 12).to_bytes(4, "big")
    return packed


def _repacked_wrapper(chance: random.Random, whole: bytes, batch: ShallowBatch) -> bytearray:
    """Magic 0 or 1. A message that is no wrapper only gets its key and value damaged."""
    key_at = 18 if batch.magic == 0 else 26
    if not batch.codec:
        body = mutated(chance, Seed(whole[key_at:], ((0, 4),)), [Seed(whole)])
        packed = bytearray(whole[:key_at]) + body
    else:
        inner = decompress(batch.codec, whole[key_at + 8 :], 1 << 24)
        set_of = bytearray(mutated(chance, seed_of_batches(inner), [Seed(inner)]))
        if chance.random() < 0.7:
            fix_crcs(set_of)
        payload = compress(batch.codec, bytes(set_of))
        packed = bytearray(whole[: key_at + 4]) + len(payload).to_bytes(4, "big") + payload
    packed[8:12] = (len(packed) - 12).to_bytes(4, "big")
    return packed
