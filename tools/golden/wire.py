"""Requests no client library lets us make: a batch with chosen header fields, and a fetch whose answer we see whole."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

CLIENT = b"golden"


class FetchAnswer(NamedTuple):
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]] | None
    records: bytes


def produce(port: int, topic: str, batch: bytes) -> int:
    """Produce (version 9, acks=all) of one ready-made batch; its base offset."""
    one = struct.pack(">i", 0) + _uvarint(len(batch) + 1) + batch + b"\0"
    body = b"\0" + struct.pack(">hi", -1, 30_000) + b"\2" + _compact(topic.encode()) + b"\2" + one + b"\0\0"
    answer = _Reader(_ask(port, 0, 9, body))
    answer.skip_topic()
    _, error, base_offset = answer.unpack(">ihq")
    if error:
        raise RuntimeError(f"produce to {topic} was answered with error {error}")
    return int(base_offset)


def fetch(port: int, topic: str, offset: int, max_bytes: int, read_committed: bool) -> FetchAnswer:
    """Fetch (version 12) from partition 0, at once with whatever is there."""
    head = struct.pack(">iiiibii", -1, 0, 0, 50 << 20, read_committed, 0, -1)
    one = struct.pack(">iiqiqi", 0, -1, offset, -1, -1, max_bytes) + b"\0"
    body = head + b"\2" + _compact(topic.encode()) + b"\2" + one + b"\0" + b"\1" + b"\1" + b"\0"
    answer = _Reader(_ask(port, 1, 12, body))
    _, error, _ = answer.unpack(">ihi")
    answer.skip_topic()
    _, partition_error, high_watermark, last_stable_offset, log_start_offset = answer.unpack(">ihqqq")
    if error or partition_error:
        raise RuntimeError(f"fetch of {topic} at {offset} was answered with error {error or partition_error}")
    count = answer.uvarint() - 1
    aborted = None if count < 0 else [answer.aborted_transaction() for _ in range(count)]
    answer.unpack(">i")  # preferred read replica
    size = answer.uvarint() - 1
    return FetchAnswer(high_watermark, last_stable_offset, log_start_offset, aborted, answer.take(max(size, 0)))


def _ask(port: int, api_key: int, version: int, body: bytes) -> bytes:
    message = struct.pack(">hhih", api_key, version, 1, len(CLIENT)) + CLIENT + b"\0" + body
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        stream = connection.makefile("rb")
        size = struct.unpack(">i", stream.read(4))[0]
        return stream.read(size)[5:]  # after the correlation id and the header's tagged fields


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def skip_topic(self) -> None:
        """An array of one topic with an array of one partition, up to the partition's first field."""
        self.uvarint()
        self.take(self.uvarint() - 1)
        self.uvarint()

    def aborted_transaction(self) -> tuple[int, int]:
        producer_id, first_offset = self.unpack(">qq")
        self.take(1)
        return producer_id, first_offset


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _compact(text: bytes) -> bytes:
    return _uvarint(len(text) + 1) + text
