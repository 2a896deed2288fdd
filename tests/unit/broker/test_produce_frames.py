"""The kernel that takes produce requests of one shape agrees with the way that takes them one by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from support.records.kernel_forms import FORMS, both_forms, form_of
from tailrace.broker.produce_rules import refusal
from tailrace.protocol.frame import decode_request, decode_request_header, encode_request
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.produce_shape import ProduceShape
from tailrace.record.builder import batch_of

VERSIONS = range(ProduceRequest.VERSIONS[0], ProduceRequest.VERSIONS[1] + 1)
LONGEST = 1 << 20
BATCH = batch_of([(1000, b"key", b"value")])
LARGE = batch_of([(1000, b"key", b"v" * 20_000)])
all_versions = pytest.mark.parametrize("version", VERSIONS)


def request(version: int, records: bytes, correlation_id: int = 7, index: int = 3, **changes: object) -> bytes:
    """A whole one, with its size."""
    topic = TopicProduceData(partition_data=[PartitionProduceData(index=index, records=records)])
    if version >= 13:
        topic.topic_id = bytes(range(16))
    else:
        topic.name = "orders"
    values = {"acks": -1, "timeout_ms": 1500, "topic_data": [topic], **changes}
    return b"".join(encode_request(ProduceRequest(**values), version, correlation_id, "client"))  # type: ignore[arg-type]


def shape_of(version: int) -> ProduceShape:
    frame = memoryview(request(version, BATCH))[4:]
    header, position = decode_request_header(frame)
    decoded = decode_request(header, frame, position)
    assert isinstance(decoded, ProduceRequest)
    shape = ProduceShape.of(header, decoded, frame)
    assert shape is not None
    return shape


def taken(
    form: SimpleNamespace, data: bytes, version: int, longest: int = LONGEST
) -> tuple[int, int, list[tuple[int, bytes]]]:
    """Partition, how many bytes, and of each request correlation id and records."""
    shape = shape_of(version)
    index, behind, found = form.produce_frames.take_frames(
        data, 0, len(data), shape.same, version, shape.is_flexible, longest
    )
    return index, behind, [(correlation_id, data[begin:end]) for correlation_id, begin, end in found]


def one_by_one(data: bytes, version: int) -> list[tuple[int, bytes]]:
    """What may be taken of the whole requests in front, to the partition of the first one."""
    shape, found, index, begin = shape_of(version), [], None, 0
    while len(data) - begin >= 12:
        size = int.from_bytes(data[begin : begin + 4], "big", signed=True)
        behind = begin + 4 + size
        if size < 8 or behind > len(data):
            break
        if data[begin + 4 : begin + 8] != bytes(2) + version.to_bytes(2, "big"):
            break
        match = shape.match(memoryview(data), begin + 4, behind)
        if match is None or index not in (None, match[0]):
            break
        index, records = match[0], bytes(match[1])
        stated = int.from_bytes(records[8:12], "big", signed=True) + 12
        if refusal(records, version, has_transaction=False) is not None or stated != len(records) or stated < 61:
            break
        found.append((int.from_bytes(data[begin + 8 : begin + 12], "big", signed=True), records))
        begin = behind
    return found


@both_forms
@all_versions
def test_requests_of_one_shape_are_taken_together(name: str, version: int) -> None:
    requests = [request(version, records, number) for number, records in enumerate((BATCH, LARGE, BATCH), -1)]
    data = b"".join(requests)
    assert taken(form_of(name), data, version) == (3, len(data), [(-1, BATCH), (0, LARGE), (1, BATCH)])
    assert one_by_one(data, version) == [(-1, BATCH), (0, LARGE), (1, BATCH)]


@both_forms
@all_versions
def test_a_run_ends_at_what_is_another(name: str, version: int) -> None:
    first = request(version, BATCH)
    others = (
        request(version, BATCH, index=4),
        request(version, BATCH, acks=1),
        request(version, BATCH, timeout_ms=1),
        request(version, BATCH + b"x"),
        request(version, BATCH + BATCH),
        request(version, BATCH[:-1]),
        request(version, BATCH[:60]),
        request(version, b"x"),
        request(version, b""),
        request(version, BATCH[:16] + b"\1" + BATCH[17:]),
        request(version, BATCH[:22] + b"\x10" + BATCH[23:]),
        request(version + 1 if version < VERSIONS[-1] else version - 1, BATCH),
        bytes((0, 0, 0, 8)) + bytes(8),
        (-1).to_bytes(4, "big", signed=True) + bytes(100),
    )
    for other in others:
        assert taken(form_of(name), first + other + first, version) == (3, len(first), [(7, BATCH)])
        assert taken(form_of(name), other, version)[1:] == (0, []) or other == others[0]


@both_forms
@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 9])
def test_a_length_that_does_not_end_is_not_taken(name: str, version: int) -> None:
    right = request(version, BATCH)
    place = right.index(BATCH) - 1
    assert right[place] == len(BATCH) + 1 < 0x80
    for length, is_taken in ((b"\x80\0", True), (b"\x80\x80\0", True), (b"\x80\x80\x80\x80", False)):
        padded = right[:place] + bytes((right[place] | 0x80,)) + length[1:] + right[place + 1 :]
        padded = (len(padded) - 4).to_bytes(4, "big") + padded[4:]
        found = taken(form_of(name), padded, version)[2]
        assert found == one_by_one(padded, version) == ([(7, BATCH)] if is_taken else [])


@both_forms
@all_versions
def test_zstd_is_taken_from_its_version_on(name: str, version: int) -> None:
    zstd = BATCH[:22] + b"\4" + BATCH[23:]
    found = taken(form_of(name), request(version, zstd), version)[2]
    assert found == ([(7, zstd)] if version >= 7 else [])


@both_forms
@all_versions
def test_a_cut_request_is_not_taken(name: str, version: int) -> None:
    first = request(version, BATCH)
    for size in range(len(first)):
        assert taken(form_of(name), first + first[:size], version) == (3, len(first), [(7, BATCH)])
    assert taken(form_of(name), first, version, longest=len(first) - 5)[2] == []
    assert taken(form_of(name), first, version, longest=len(first) - 4)[2] == [(7, BATCH)]


@all_versions
def test_with_any_byte_changed_it_agrees_with_the_other_way(version: int) -> None:
    data = request(version, BATCH) + request(version, BATCH, 8)
    for place in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            expected = one_by_one(bytes(changed), version)
            for form in FORMS.values():
                assert taken(form, bytes(changed), version)[2] == expected, (place, change)


@both_forms
def test_what_is_outside_of_the_buffer_is_refused(name: str) -> None:
    take_frames = form_of(name).produce_frames.take_frames
    for begin, end in ((-1, 5), (6, 5), (0, 11)):
        with pytest.raises(IndexError):
            take_frames(bytes(10), begin, end, b"same", 9, True, LONGEST)
