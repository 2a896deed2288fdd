"""Bytes from strangers: a value or a typed error, and never more memory than a multiple of the bytes."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest

from support.protocol.kio_messages import kio_bytes, kio_class, random_entity, versions_of
from tailrace.model.errors import CorruptMessageError, InvalidDataError, InvalidRequestError, UnsupportedVersionError
from tailrace.protocol.apis import APIS
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.frame import decode_request, decode_request_header
from tailrace.protocol.layout import Version, is_nullable, layout_of, version_of
from tailrace.protocol.message import Message, Struct
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.record_frame import decode_metadata_record
from tailrace.protocol.schema import ArrayOf
from tailrace.protocol.wire import MAX_TAGS

ROUNDS = 6000
LONG_ROUNDS = 100_000
ELEMENTS = 2000
TIMES_THE_INPUT = 60

MESSAGES = [kind for api in APIS.values() for kind in (api.request, api.response)]
POISON = (
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff" * 5,
    b"\xff\xff\xff\xff\x0f",
)


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                changed[at : at + 1] = bytes((random.randrange(256),))
            case 1:
                poison = random.choice(POISON)
                changed[at : at + len(poison)] = poison
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = random.randbytes(random.randrange(1, 9))
            case 4:
                del changed[at : at + random.randrange(1, 9)]
    return bytes(changed)


def decode_mutated(random: Random, rounds: int) -> tuple[int, int]:
    """How many of the mutated messages were values, and how many were refused."""
    values = refused = 0
    for _ in range(rounds):
        message = random.choice(MESSAGES)
        version = random.choice(list(versions_of(message)))
        data = mutated(kio_bytes(random_entity(kio_class(message, version), random)), random)
        try:
            value = decode(message, version, data)
        except message.MALFORMED:
            refused += 1
        else:
            again = encode(value, version)
            assert encode(decode(message, version, again), version) == again
            values += 1
    return values, refused


def test_mutated_messages_are_values_or_typed_errors() -> None:
    values, refused = decode_mutated(Random(1), ROUNDS)
    assert values > ROUNDS // 10
    assert refused > ROUNDS // 10


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_many_mutated_messages_are_values_or_typed_errors(seed: int) -> None:
    decode_mutated(Random(seed), LONG_ROUNDS // 2)


def test_random_frames_are_requests_or_typed_errors() -> None:
    random = Random(4)
    for _ in range(ROUNDS):
        key = random.choice((*APIS, -1, 4, 93, 32767))
        version = random.choice((*range(20), -1, 32767))
        frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
        frame += random.randbytes(random.randrange(60))
        with suppress(InvalidRequestError, UnsupportedVersionError):
            header, position = decode_request_header(frame)
            decode_request(header, frame, position)


def test_random_metadata_records_are_values_or_typed_errors() -> None:
    random = Random(5)
    for _ in range(ROUNDS):
        data = bytes((1, random.randrange(30), random.randrange(4))) + random.randbytes(random.randrange(40))
        with suppress(CorruptMessageError, UnsupportedVersionError):
            decode_metadata_record(data)


def peak_bytes(message: type[Message], version: int, data: bytes) -> int:
    """The most memory held while decoding, whatever comes of it."""
    tracemalloc.start()
    try:
        decode(message, version, data)
    except InvalidDataError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def smallest(struct: type[Struct], version: Version) -> Struct:
    """An instance that takes as few bytes as any."""
    made = struct()
    for f in struct.__fields__:
        if is_nullable(f, version):
            setattr(made, f.name, None)
    return made


@pytest.mark.parametrize("message", [api.request for api in APIS.values()], ids=lambda message: message.__name__)
def test_memory_is_bounded_by_the_bytes_that_came(message: type[Message]) -> None:
    """Objects are much larger than the bytes that announce them, the smallest ones most: how much is known."""
    number = message.VERSIONS[1]
    version = version_of(message, number)
    for f in layout_of(message, version).regular:
        if isinstance(f.type, ArrayOf) and isinstance(f.type.element, type):
            data = encode(message(**{f.name: [smallest(f.type.element, version)] * ELEMENTS}), number)
            decode(message, number, data)  # compiled before the measurement
            assert peak_bytes(message, number, data) < TIMES_THE_INPUT * len(data), f.name


def test_the_smallest_elements_are_bounded_in_number() -> None:
    """Many objects from few bytes: a request stops at its number of elements, long before its bytes end."""
    count = FetchRequest.MAX_ELEMENTS + 1
    head = encode(FetchRequest(), 12)[:25]
    number = bytes((count + 1 & 0x7F | 0x80, count + 1 >> 7 & 0x7F | 0x80, count + 1 >> 14))
    data = head + number + b"\x01\x01\x00" * count + b"\x01\x01\x00"
    with pytest.raises(InvalidRequestError, match=f"topics has {count} elements, when the message may have"):
        decode(FetchRequest, 12, data)
    assert peak_bytes(FetchRequest, 12, data) < 100_000


def test_lengths_are_refused_before_anything_is_allocated() -> None:
    decode(MetadataRequest, 1, b"\xff\xff\xff\xff")
    for data in (b"\x7f\xff\xff\xff", b"\x7f\xff\xff\xff" + bytes(1000), b"\0\0\0\x01\x7f\xff" + b"a" * 100):
        assert peak_bytes(MetadataRequest, 1, data) < 20_000


def test_a_count_of_tags_ends_with_the_bytes() -> None:
    data = encode(MetadataRequest(), 12)
    with pytest.raises(InvalidRequestError, match="does not end"):
        decode(MetadataRequest, 12, data[:-1] + bytes([MAX_TAGS]) + b"\x05\x00" * (MAX_TAGS - 1))


@pytest.mark.parametrize(("message", "version"), [(MetadataRequest, 12), (FetchRequest, 12)])
def test_tags_are_bounded_in_number(message: type[Message], version: int) -> None:
    """Two bytes each: a request has room for fifty million."""
    data = encode(message(), version)
    decode(message, version, data[:-1] + bytes([MAX_TAGS]) + b"\x05\x00" * MAX_TAGS)
    with pytest.raises(InvalidRequestError, match="tagged fields in one struct"):
        decode(message, version, data[:-1] + b"\xff\xff\xff\xff\x0f" + b"\x05\x00" * 200)


def test_an_unknown_tag_ends_with_the_bytes() -> None:
    data = encode(MetadataRequest(), 12)
    with pytest.raises(InvalidRequestError, match="tagged field 5 has 9 bytes, but only 1 follow"):
        decode(MetadataRequest, 12, data[:-1] + b"\x01\x05\x09x")
