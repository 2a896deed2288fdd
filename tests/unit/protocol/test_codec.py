"""The codec by examples: forms on the wire, fields that come and go, refusals. kio's agreement is proven elsewhere."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRequestError,
    UnencodableMessageError,
    UnsupportedVersionError,
)
from tailrace.protocol.codec import decode, decoder_source, encode, encode_parts, encoder_source
from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.messages.metadata import MetadataResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    VIEW,
    Payload,
    array_of,
    field,
)


class Inner(Struct):
    number: int = field(INT32)
    label: str = field(STRING, "1+", tag=0, default="none")


class Sample(Request, key=900, versions="0-3", flexible="2+"):
    flag: bool = field(BOOL)
    port: int = field(UINT16)
    mask: int = field(UINT32)
    ratio: float = field(FLOAT64)
    text: str | None = field(STRING, nullable="0+")
    raw: bytes | None = field(BYTES, nullable="0+")
    view: Payload = field(VIEW, nullable="0+")
    numbers: list[int] | None = field(array_of(INT64), nullable="0+")
    names: list[str] = field(array_of(STRING))
    ids: list[bytes] = field(array_of(UUID))
    inner: Inner | None = field(Inner, "1+", nullable="1+", default=None, ignorable=True)
    firm: int = field(INT16, "3+", default=7)
    soft: int = field(INT16, "3+", default=8, ignorable=True)
    tagged: list[Inner] | None = field(array_of(Inner), "2+", nullable="2+", tag=5)
    removed: str = field(STRING, "0-2")


def sample(**changes: Any) -> Sample:
    values: dict[str, Any] = {
        "flag": True,
        "port": 65535,
        "mask": 2**32 - 1,
        "ratio": -0.5,
        "text": "ключ",
        "raw": b"raw",
        "view": b"view",
        "numbers": [2**63 - 1, -(2**63)],
        "names": ["", "a"],
        "ids": [bytes(range(16))],
    }
    return Sample(**{**values, **changes})


FIXED = b"\x01\xff\xff\xff\xff\xff\xff\xbf\xe0" + bytes(6)
TEXT = "ключ".encode()
NUMBERS = struct.pack(">qq", 2**63 - 1, -(2**63))
LEGACY = (
    FIXED
    + b"\0\x08" + TEXT
    + b"\0\0\0\x03raw\0\0\0\x04view"
    + b"\0\0\0\x02" + NUMBERS
    + b"\0\0\0\x02\0\0\0\x01a"
    + b"\0\0\0\x01" + bytes(range(16))
)  # fmt: skip
COMPACT = (
    FIXED
    + b"\x09" + TEXT
    + b"\x04raw\x05view"
    + b"\x03" + NUMBERS
    + b"\x03\x01\x02a"
    + b"\x02" + bytes(range(16))
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, LEGACY + b"\0\0"),  # removed = ""
        (1, LEGACY + b"\xff" + b"\0\0"),
        (2, COMPACT + b"\xff" + b"\x01" + b"\0"),
        (3, COMPACT + b"\xff" + b"\0\x07\0\x08" + b"\0"),
    ],
)
def test_forms_on_the_wire(version: int, data: bytes) -> None:
    assert encode(sample(), version) == data
    assert decode(Sample, version, data) == sample()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_nulls(version: int) -> None:
    value = sample(text=None, raw=None, view=None, numbers=None)
    assert decode(Sample, version, encode(value, version)) == value


@pytest.mark.parametrize("version", [2, 3])
def test_tagged_and_nullable_structs(version: int) -> None:
    inner = Inner(number=5, label="x" * 200)
    for tagged in ([], [inner, Inner()], None):
        value = sample(inner=inner, tagged=tagged)
        assert decode(Sample, version, encode(value, version)) == value


def test_a_tagged_field_at_its_default_is_not_sent() -> None:
    explicit = PartitionData(diverging_epoch=EpochEndOffset())
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[explicit])])
    data = encode(response, 12)
    explicit.diverging_epoch = None
    assert encode(response, 12) == data


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encode(sample(), 3)
    assert data.endswith(b"\0")
    unknown = b"\x03" + b"\x00\x00" + b"\x07\x02ab" + b"\xff\xff\xff\xff\x0f\x80\x01" + bytes(128)
    assert decode(Sample, 3, data[:-1] + unknown) == sample()
    assert encode(decode(Sample, 3, data[:-1] + unknown), 3) == data


def test_unknown_tags_are_skipped_in_structs_without_tags_of_their_own() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="a")])
    data = encode(request, 12)
    at = data.index(b"\x02a\x01\x00") + 3
    assert decode(FetchRequest, 12, data[:at] + b"\x01\x09\x01z" + data[at + 1 :]) == request


def test_a_field_that_the_version_lacks() -> None:
    assert decode(Sample, 0, encode(sample(soft=1), 0)).soft == 8
    with pytest.raises(UnsupportedVersionError, match="Sample v2 has no field firm, which is 1"):
        encode(sample(firm=1), 2)
    with pytest.raises(UnsupportedVersionError, match="has no field tagged"):
        encode(sample(tagged=[Inner()]), 1)
    with pytest.raises(UnsupportedVersionError, match="has no field removed"):
        encode(sample(removed="x"), 3)
    request = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=3)])])
    with pytest.raises(UnsupportedVersionError, match=r"topics\[\]\.partitions\[\]\.last_fetched_epoch"):
        encode(request, 11)


@pytest.mark.parametrize("version", [-1, 4, 32767])
def test_a_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        decode(Sample, version, b"")
    assert caught.value.code == 35
    with pytest.raises(UnsupportedVersionError):
        encode(sample(), version)


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 65536},
        {"port": -1},
        {"mask": "1"},
        {"ratio": None},
        {"text": "x" * 32768},
        {"text": "\ud800"},
        {"text": b"bytes"},
        {"raw": 5},
        {"names": None},
        {"names": [None]},
        {"numbers": [2**63]},
        {"numbers": 5},
        {"ids": [bytes(15)]},
        {"inner": 5},
        {"tagged": [Inner(number=2**31)]},
    ],
    ids=repr,
)
def test_values_that_do_not_fit_are_typed_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(UnencodableMessageError, match="Sample v2"):
        encode(sample(**changes), 2)


def test_a_uuid_is_16_bytes() -> None:
    with pytest.raises(UnencodableMessageError, match="topic_id is not 16 bytes"):
        encode(FetchRequest(topics=[FetchTopic(topic_id=bytes(17))]), 13)


def test_records_are_views_of_the_buffer() -> None:
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="a", partition_data=[PartitionProduceData(records=b"batch")])]
    )
    for version in (3, 9):
        buffer = bytearray(encode(request, version))
        records = decode(ProduceRequest, version, buffer).topic_data[0].partition_data[0].records
        at = buffer.index(b"batch")
        buffer[at] = ord("B")
        assert records == b"Batch"
        records[1:2] = b"A"
        assert buffer[at : at + 5] == b"BAtch"


def test_bytes_are_copies() -> None:
    buffer = bytearray(encode(sample(), 0))
    decoded = decode(Sample, 0, buffer)
    buffer[:] = bytes(len(buffer))
    assert decoded.raw == b"raw"


class FileSlice:
    """Stands for bytes in a file: it has a size and nothing else."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def fetch_response(*records: Payload) -> FetchResponse:
    partitions = [PartitionData(partition_index=number, records=one) for number, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11, 12])
def test_payloads_are_handed_through(version: int) -> None:
    first, second, third = FileSlice(70_000), b"x" * 70_000, FileSlice(0)
    response = fetch_response(first, None, second, third)
    parts = encode_parts(response, version, b"prefix")
    assert parts[1] is first
    assert parts[3] is second
    assert [type(part) for part in parts] == [bytes, FileSlice, bytes, bytes, bytes]  # not the empty one
    plain = fetch_response(bytes(70_000), None, second, b"")
    whole = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    assert whole == b"prefix" + encode(plain, version)


def test_a_message_without_payloads_is_one_part() -> None:
    assert encode_parts(FetchRequest(), 12, b"p") == [b"p" + encode(FetchRequest(), 12)]


def test_a_message_may_end_with_a_payload() -> None:
    class Last(Response, key=901, versions="0"):
        first: Payload = field(RECORDS)
        last: Payload = field(RECORDS)

    parts = encode_parts(Last(first=b"one", last=memoryview(b"three")), 0)
    assert parts == [b"\0\0\0\x03", b"one", b"\0\0\0\x05", b"three"]


def test_a_view_of_wider_items_counts_its_bytes() -> None:
    wide = memoryview(struct.pack("=4q", 1, 2, 3, 4)).cast("q")
    parts = encode_parts(fetch_response(wide), 12)
    assert [len(part) for part in parts][1] == 32
    assert b"".join(parts) == encode(fetch_response(wide.cast("B")), 12) == encode(fetch_response(wide), 12)


def test_only_buffers_can_be_joined() -> None:
    with pytest.raises(UnencodableMessageError, match="no buffer"):
        encode(fetch_response(FileSlice(3)), 12)


@pytest.mark.parametrize(
    ("version", "data", "says"),
    [
        (0, LEGACY, "does not end within its"),
        (0, b"", "does not end"),
        (0, LEGACY + b"\0\0\0", "1 bytes follow it"),
        (0, FIXED + b"\xff\xfe", "text has length -2"),
        (0, FIXED + b"\0\x05abcd", "text has 5 bytes, but only 4 follow"),
        (0, FIXED + b"\xff\xff\x80\0\0\0", "raw has length -2147483648"),
        (0, FIXED + b"\xff\xff\x7f\xff\xff\xff", "raw has 2147483647 bytes, but only 0 follow"),
        (0, FIXED + b"\xff\xff" + b"\xff" * 8 + b"\xff\xff\xff\xfe", "numbers has -2 elements"),
        (0, FIXED + b"\xff\xff" + b"\xff" * 8 + b"\0\0\0\x02" + bytes(15), "numbers has 2 elements of 8 or more bytes"),
        (0, FIXED + b"\xff\xff" + b"\xff" * 12 + b"\xff\xff\xff\xff", "names is null"),
        (0, FIXED + b"\xff\xff" + b"\xff" * 12 + b"\0\0\0\x01\xff\xff", r"names\[\] is null"),
        (0, FIXED + b"\xff\xff" + b"\xff" * 12 + b"\x7f\xff\xff\xff" + bytes(99), "names has 2147483647 elements of 2"),
        (2, FIXED + b"\xff\xff\xff\xff\xff", "a variable-length number at byte 15 does not end"),
        (2, FIXED + b"\x80\x80\x80\x80\x80\x00", "does not end"),
        (2, FIXED + b"\xff\xff\xff\xff\x7f", "but only 0 follow"),
        (2, FIXED + b"\x80\x80\x02" + b"a" * 32767, "does not end within"),
        (2, FIXED + b"\x81\x80\x02" + b"a" * 32768, "text has 32768 bytes, more than 32767"),
        (2, COMPACT + b"\xff\x01" + b"\x01\x05\x01\x01\x00", "1 bytes follow it"),
        (2, COMPACT + b"\xff\x01" + b"\x01\x05\x02\x01\x00", "tagged field tagged has 2 bytes, but its value takes 1"),
        (2, COMPACT + b"\xff\x01" + b"\x01\x05\x09\x01", "tagged field 5 has 9 bytes, but only 1 follow"),
        (2, COMPACT + b"\xff\x01" + b"\x01\x06\x09\x01", "tagged field 6 has 9 bytes, but only 1 follow"),
        (2, COMPACT + b"\xff\x01" + b"\xff\xff\xff\xff\x0f\x06\x00", "tagged fields in one struct"),
    ],
)
def test_malformed_bytes(version: int, data: bytes, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"Sample v{version}: .*{says}") as caught:
        decode(Sample, version, data)
    assert caught.value.code == 42
    assert caught.value.name == "INVALID_REQUEST"


@pytest.mark.parametrize("version", [0, 2])
def test_text_of_a_request_that_is_not_utf_8(version: int) -> None:
    data = encode(sample(text="key", names=["nme"]), version)
    found = decode(Sample, version, data.replace(b"key", b"k\xff\xc3").replace(b"nme", b"n\xe9e"))
    assert (found.text, found.names) == ("k\ufffd\ufffd", ["n\ufffde"])


def test_text_of_a_response_that_is_not_utf_8() -> None:
    data = encode(MetadataResponse(cluster_id="abc"), 12)
    with pytest.raises(CorruptMessageError, match="not UTF-8"):
        decode(MetadataResponse, 12, data.replace(b"abc", b"a\xffc"))


def test_malformed_responses_are_corrupt_messages() -> None:
    with pytest.raises(CorruptMessageError):
        decode(FetchResponse, 12, b"\0")


def test_elements_of_a_request_are_limited_in_all() -> None:
    class Nest(Request, key=902, versions="0", flexible="0+"):
        items: list[Inner] = field(array_of(Inner))
        more: list[int] = field(array_of(INT32))

    Nest.MAX_ELEMENTS = 10
    assert len(decode(Nest, 0, encode(Nest(items=[Inner()] * 4, more=[1] * 6), 0)).items) == 4
    with pytest.raises(InvalidRequestError, match="more has 7 elements, when the message may have 6 more"):
        decode(Nest, 0, encode(Nest(items=[Inner()] * 4, more=[1] * 7), 0))


def test_a_payload_in_a_tagged_field_cannot_be_declared() -> None:
    class Wrong(Response, key=903, versions="0", flexible="0+"):
        records: Payload = field(RECORDS, tag=0, default=b"")

    with pytest.raises(TypeError, match="tagged"):
        encode(Wrong(records=b"x"), 0)


def test_sources_can_be_read() -> None:
    assert "o2.fetch_offset" in decoder_source(FetchRequest, 12)
    assert "o2.fetch_offset" in encoder_source(FetchRequest, 12)
