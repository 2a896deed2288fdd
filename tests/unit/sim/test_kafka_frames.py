"""What the event log says about the chunks of a connection."""

from __future__ import annotations

import random

import pytest

from support.brokers.simulated import fetch_request
from tailrace.protocol.frame import encode_request
from tailrace.sim.kafka_frames import describe_chunk

REQUEST = b"".join(encode_request(fetch_request("orders", 0), 12, 7, "client"))


@pytest.mark.parametrize(
    ("data", "to_listener", "text"),
    [
        (REQUEST, True, "Fetch v12 #7"),
        (REQUEST[:12], True, "Fetch v12 #7"),
        (REQUEST[:11], True, ""),
        (REQUEST[1:], True, ""),
        (REQUEST[:5] + b"\xff" + REQUEST[6:], True, ""),
        (b"\0\0\0\x10\0\0\0\x07", False, "response #7"),
        (b"\0\0\0\x10\0\0\0", False, ""),
        (b"GET / HTTP/1.1\r\n", True, ""),
        (b"HTTP/1.1 400", False, ""),
        (b"", True, ""),
    ],
)
def test_the_beginning_of_a_frame_is_named(data: bytes, to_listener: bool, text: str) -> None:
    assert describe_chunk(data, to_listener) == text


def test_any_bytes_are_described() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        assert len(describe_chunk(chance.randbytes(chance.randrange(20)), chance.random() < 0.5)) < 60
