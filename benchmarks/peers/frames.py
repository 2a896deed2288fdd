"""Write the request files that wireload sends, for a topic that exists.

    python frames.py TOPIC PARTITIONS DIR

For each partition p: DIR/produce-1k.p (one record of about 1 KB in its own batch), DIR/produce-64k.p (one batch of
about 680 records of 100 bytes), DIR/fetch-1m.p (up to 1 MB from offset 0). Produce is version 9 with acks=all, Fetch
version 12; both carry the topic's name (at most 30 bytes). Prints wireload's ERROR_AT and MIN_BYTES for each kind;
fetch wants 1 MB a partition in the topic first. Needs crc32c.
"""

import os
import struct
import sys
import time
from pathlib import Path

from crc32c import crc32c


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def compact(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text


def record(delta: int, value_bytes: int) -> bytes:
    key, value = os.urandom(16), os.urandom(value_bytes)
    body = b"\0" + varint(0) + varint(delta) + varint(16) + key + varint(value_bytes) + value + varint(0)
    return varint(len(body)) + body


def batch(count: int, value_bytes: int, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """`producer` is an id, its epoch and the sequence of the first record."""
    now_ms = int(time.time() * 1000)
    records = b"".join(record(i, value_bytes) for i in range(count))
    covered = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, *producer, count) + records
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def request(api_key: int, version: int, body: bytes) -> bytes:
    message = struct.pack(">hhih", api_key, version, 1, 8) + b"wireload" + b"\0" + body
    return struct.pack(">i", len(message)) + message


def produce(topic: bytes, partition: int, records: bytes) -> bytes:
    one = struct.pack(">i", partition) + uvarint(len(records) + 1) + records + b"\0"
    return request(0, 9, b"\0" + struct.pack(">hi", -1, 30_000) + b"\x02" + compact(topic) + b"\x02" + one + b"\0\0")


def init_producer_id() -> bytes:
    """InitProducerId version 1. In the answer, error, id and epoch are at 12."""
    message = struct.pack(">hhih", 22, 1, 1, 8) + b"wireload" + struct.pack(">hi", -1, 60_000)
    return struct.pack(">i", len(message)) + message


def fetch(topic: bytes, partition: int, max_bytes: int) -> bytes:
    head = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    one = struct.pack(">iiqiqi", partition, -1, 0, -1, -1, max_bytes) + b"\0"
    return request(1, 12, head + b"\x02" + compact(topic) + b"\x02" + one + b"\0" + b"\x01" + b"\x01" + b"\0")


def commit(group: bytes, topic: bytes, partition: int) -> bytes:
    """OffsetCommit version 8 of a group without members. ERROR_AT is 20 and the topic's length."""
    one = struct.pack(">iqi", partition, 1234, -1) + compact(b"") + b"\0"
    head = compact(group) + struct.pack(">i", -1) + compact(b"") + b"\0"
    return request(8, 8, head + b"\x02" + compact(topic) + b"\x02" + one + b"\0\0")


def main() -> None:
    topic, partitions, folder = sys.argv[1].encode(), int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for p in range(partitions):
        (folder / f"produce-1k.{p}").write_bytes(produce(topic, p, batch(1, 930)))
        (folder / f"produce-64k.{p}").write_bytes(produce(topic, p, batch(680, 70)))
        (folder / f"fetch-1m.{p}").write_bytes(fetch(topic, p, 1 << 20))
    print(f"produce {16 + len(topic)} 0")
    print(f"fetch 13,{26 + len(topic)} 900000")


if __name__ == "__main__":
    main()
