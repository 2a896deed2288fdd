"""Records of a v2 batch as bytes, right or wrong in any field, and both forms of the kernels to judge them."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import NamedTuple

from hypothesis import strategies as st

from support.records.kernel_forms import FORMS
from tailrace.record.batch import CRC_AT, BatchHeader, crc_of
from tailrace.record.compression import compress
from tailrace.record.varint import encode_varint, encode_varlong

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
EDGES = (0, 1, -1, 63, -64, 64, 8191, 8192, (1 << 31) - 1, -(1 << 31), INT64_MAX, INT64_MIN)

Headers = Sequence[tuple[bytes, bytes | None]]


def field(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def record(
    index: int,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Headers = (),
    timestamp_delta: int = 0,
) -> bytes:
    parts = [b"\x00", encode_varlong(timestamp_delta), encode_varint(index), field(key), field(value)]
    parts.append(encode_varint(len(headers)))
    for name, data in headers:
        parts += (field(name), field(data))
    return framed(b"".join(parts))


def framed(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


def batch(payload: bytes, count: int, codec: int = 0, attributes: int = 0, **fields: int) -> tuple[bytes, BatchHeader]:
    """A whole batch with a right CRC."""
    packed = compress(codec, payload)
    stated = {
        "base_offset": 0,
        "length": 49 + len(packed),
        "leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": attributes | codec,
        "last_offset_delta": count - 1,
        "base_timestamp": 1000,
        "max_timestamp": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
    }
    header = BatchHeader(**(stated | fields))
    data = bytearray(header.pack() + packed)
    data[CRC_AT : CRC_AT + 4] = crc_of(data, 0, len(data)).to_bytes(4, "big")
    return bytes(data), BatchHeader.at(data)


class Rules(NamedTuple):
    count: int
    base_timestamp: int = 1000
    same_timestamp: bool = False
    require_key: bool = False
    earliest: int = INT64_MIN
    latest: int = INT64_MAX


class Verdict(NamedTuple):
    status: int
    record: int
    found: int
    max_timestamp: int
    record_of_max: int


def verdict(form: SimpleNamespace, pieces: Sequence[bytes], rules: Rules, fast: bool = True) -> Verdict:
    """What the kernels say to records that come in pieces; `fast=False` leaves all of it to the bytewise check."""
    check = form.bytewise.BytewiseCheck(*rules)
    for piece in pieces:
        position = 0
        while position < len(piece) and not check.status:
            if fast and check.between_records:
                position, *taken = form.whole.check_whole(piece, position, len(piece), check.record, *rules)
                check.took(*taken)
            position = check.read_record(piece, position, len(piece))
    check.finish()
    if check.status:  # how far the fast way went before the fault is no part of the verdict
        return Verdict(check.status, check.record, check.found, 0, 0)
    return Verdict(0, check.record, 0, check.max_timestamp, check.record_of_max)


def walked(form: SimpleNamespace, payload: bytes, count: int, base_offset: int, base_timestamp: int) -> object:
    """The rows of a payload, or False."""
    rows = array("q", bytes(64 * max(0, min(count, len(payload) // 7))))
    if not form.whole.walk_records(payload, 0, len(payload), count, base_offset, base_timestamp, False, rows):
        return False
    return rows.tolist()


int64s = st.integers(INT64_MIN, INT64_MAX)
texts = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=64, max_size=200))
headers = st.lists(st.tuples(st.binary(max_size=6), st.one_of(st.none(), st.binary(max_size=6))), max_size=3)
deltas = st.one_of(st.integers(-200, 200), int64s)


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Well-formed records and their count."""
    parts = draw(st.lists(st.tuples(texts, texts, headers, deltas), max_size=6))
    return b"".join(record(index, *part) for index, part in enumerate(parts)), len(parts)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records with up to three bytes changed, cut out or put in, and perhaps a wrong count."""
    payload, count = draw(payloads())
    data = bytearray(payload)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data), count + draw(st.sampled_from([0, 0, 0, 0, -1, 1, 1 << 31, -(1 << 31)]))


@st.composite
def rules_for(draw: st.DrawFn, count: int) -> Rules:
    """Mostly lenient, sometimes with a narrow range of time around the base."""
    base = draw(st.one_of(st.integers(-2, 2000), int64s))
    earliest, latest = draw(
        st.sampled_from([(INT64_MIN, INT64_MAX), (max(base - 100, INT64_MIN), min(base + 100, INT64_MAX))])
    )
    return Rules(count, base, draw(st.booleans()), draw(st.booleans()), earliest, latest)


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The data in pieces, empty ones among them."""
    ends = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def _payload(chance: random.Random) -> tuple[bytearray, int]:
    def text() -> bytes | None:
        return None if chance.random() < 0.3 else chance.randbytes(chance.choice((0, 1, 5, 70)))

    count = chance.randrange(5)
    data = bytearray()
    for index in range(count):
        headers = [(chance.randbytes(chance.randrange(3)), text()) for _ in range(chance.choice((0, 0, 0, 1, 3)))]
        data += record(index, text(), text(), headers, chance.choice(EDGES))
    return data, count


def _overwrite(chance: random.Random, data: bytearray) -> None:
    data[chance.randrange(len(data))] = chance.choice((0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _cut_out(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randrange(1, 12)]


def _put_in(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = b"\xff" * chance.randrange(1, 11) + chance.randbytes(1)


_DAMAGES: tuple[Callable[[random.Random, bytearray], None], ...] = (_overwrite, _overwrite, _cut_out, _put_in)


def fuzzed(chance: random.Random) -> tuple[bytes, Rules]:
    """What `damaged` and `rules_for` draw, a hundred times as fast and with nothing to shrink."""
    data, count = _payload(chance)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        if data:
            chance.choice(_DAMAGES)(chance, data)
    base = chance.choice(EDGES)
    narrow = chance.random() < 0.2
    return bytes(data), Rules(
        count + chance.choice((0, 0, 0, 0, 0, 1, -1)),
        base,
        chance.random() < 0.2,
        chance.random() < 0.2,
        max(base - 70, INT64_MIN) if narrow else INT64_MIN,
        min(base + 70, INT64_MAX) if narrow else INT64_MAX,
    )


def disagreements(seed: int, examples: int) -> tuple[list[object], set[int]]:
    """Fuzzed payloads that the forms of the kernels, or two ways to cut a payload, judge differently; and the statuses
    that were met."""
    chance = random.Random(seed)
    found: list[object] = []
    statuses = set()
    both = FORMS.values()
    for example in range(examples):
        payload, rules = fuzzed(chance)
        cut = chance.randrange(len(payload) + 1)
        verdicts = {
            verdict(form, pieces, rules) for form in both for pieces in ([payload], [payload[:cut], payload[cut:]])
        }
        rows = [walked(form, payload, rules.count, rules.base_timestamp, rules.base_timestamp) for form in both]
        if len(verdicts) > 1 or rows[0] != rows[-1]:
            found.append((seed, example, payload.hex(), rules, verdicts))
        statuses.add(next(iter(verdicts)).status)
    return found, statuses
