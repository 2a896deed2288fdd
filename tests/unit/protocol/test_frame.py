"""Requests and responses in their frames: headers by version, ApiVersions' exception, sizes."""

from __future__ import annotations

import pytest

from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRequestError,
    UnencodableMessageError,
    UnsupportedVersionError,
)
from tailrace.protocol.frame import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame_bytes,
)
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_V1 = bytes.fromhex("0003 0001 00000007 0003 6c6162 00000001 0001 61")
METADATA_V9 = bytes.fromhex("0003 0009 00000007 0003 6c6162 00 02 0261 00 00 00 00 00")
NO_CLIENT_ID = bytes.fromhex("0003 0001 00000007 ffff 00000000")


def decoded(frame: bytes) -> tuple[RequestHeader, Request]:
    header, position = decode_request_header(frame)
    return header, decode_request(header, frame, position)


@pytest.mark.parametrize(("frame", "version"), [(METADATA_V1, 1), (METADATA_V9, 9)])
def test_request_headers(frame: bytes, version: int) -> None:
    header, request = decoded(frame)
    expected = RequestHeader(request_api_key=3, request_api_version=version, correlation_id=7, client_id="lab")
    assert header == expected
    assert isinstance(request, MetadataRequest)
    assert [topic.name for topic in request.topics or []] == ["a"]


def test_no_client_id_is_an_empty_one() -> None:
    assert decoded(NO_CLIENT_ID)[0].client_id == ""


def test_unknown_tags_of_a_header_are_skipped() -> None:
    tagged = METADATA_V9.replace(b"lab\0", b"lab\x01\x05\x02xx")
    assert decoded(tagged) == decoded(METADATA_V9)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", InvalidRequestError),
        (METADATA_V1[:9], InvalidRequestError),
        (METADATA_V1[:12], InvalidRequestError),
        (METADATA_V1[:-1], InvalidRequestError),
        (b"\x00\x04" + METADATA_V1[2:], InvalidRequestError),  # LeaderAndIsr is no more
        (b"\xff\xff" + METADATA_V1[2:], InvalidRequestError),
        (METADATA_V1[:8] + b"\xff\xfe" + METADATA_V1[10:], InvalidRequestError),
        (METADATA_V1[:8] + b"\x7f\xff" + METADATA_V1[10:], InvalidRequestError),
        (METADATA_V1[:2] + b"\x7f\xff" + METADATA_V9[4:], UnsupportedVersionError),
        (METADATA_V1[:2] + b"\xff\xff" + METADATA_V1[4:], UnsupportedVersionError),
    ],
)
def test_malformed_requests(frame: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decoded(frame)


def test_bytes_behind_a_request_are_ignored() -> None:
    """librdkafka sends three zeros behind Metadata v13."""
    assert decoded(METADATA_V1 + bytes(3)) == decoded(METADATA_V1)


def test_the_header_of_an_unknown_version_of_api_versions_is_read() -> None:
    """So that it can be answered, in version 0, under its correlation id."""
    frame = bytes.fromhex("0012 0063 0000002a 0003 6c6162 00 ffffff")
    header, _ = decode_request_header(frame)
    assert (header.request_api_version, header.correlation_id) == (99, 42)
    (answer,) = encode_response(header, ApiVersionsResponse(error_code=35), version=0)
    assert answer == bytes.fromhex("0000000a 0000002a 0023 00000000")


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        (0, "00000010 00000007 0000 00000001 0012 0000 0004"),
        (3, "00000013 00000007 0000 02 0012 0000 0004 00 00000000 00"),
    ],
)
def test_api_versions_is_always_answered_with_the_old_header(version: int, frame: str) -> None:
    header = RequestHeader(request_api_key=18, request_api_version=version, correlation_id=7)
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    assert b"".join(encode_response(header, response)) == bytes.fromhex(frame)


def test_other_flexible_responses_have_the_new_header() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=9, correlation_id=7)
    whole = b"".join(encode_response(header, MetadataResponse()))
    assert whole[4:9] == bytes.fromhex("00000007 00")
    assert decode_response(3, 9, whole[4:]) == (7, MetadataResponse())
    header.request_api_version = 8
    whole = b"".join(encode_response(header, MetadataResponse()))
    assert whole[4:12] == bytes.fromhex("00000007 00000000")


def test_a_request_we_send_is_one_we_receive() -> None:
    for version in range(14):
        request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
        whole = b"".join(encode_request(request, version, 5, "me"))
        assert frame_bytes(whole, 0, 1000) == len(whole) - 4
        header, again = decoded(whole[4:])
        assert (header.correlation_id, header.client_id, again) == (5, "me", request)


def test_malformed_responses() -> None:
    whole = b"".join(encode_response(RequestHeader(request_api_key=3, request_api_version=9), MetadataResponse()))
    with pytest.raises(CorruptMessageError, match="1 bytes follow"):
        decode_response(3, 9, whole[4:] + b"\0")
    for end in (-1, 8, 6):
        with pytest.raises(CorruptMessageError):
            decode_response(3, 9, whole[4:end])


def test_the_size_counts_what_is_not_there_yet() -> None:
    class FileSlice:
        def __len__(self) -> int:
            return 1 << 20

    records = FileSlice()
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])])
    parts = encode_response(RequestHeader(request_api_key=1, request_api_version=12), response)
    assert parts[1] is records
    assert frame_bytes(parts[0], 0, 1 << 30) == sum(map(len, parts)) - 4


def test_a_frame_has_at_most_2_gib() -> None:
    class Huge:
        def __len__(self) -> int:
            return 0x7FFF_FFFF

    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=Huge())])])
    with pytest.raises(UnencodableMessageError, match="no frame is so large"):
        encode_response(RequestHeader(request_api_key=1, request_api_version=12), response)


@pytest.mark.parametrize(
    ("size", "right"), [(-1, False), (0, False), (9, False), (10, True), (100, True), (101, False)]
)
def test_sizes_of_frames(size: int, right: bool) -> None:
    buffer = b"xx" + size.to_bytes(4, "big", signed=True)
    if right:
        assert frame_bytes(buffer, 2, 100) == size
    else:
        with pytest.raises(InvalidRequestError, match=f"a request of {size} bytes"):
            frame_bytes(buffer, 2, 100)
