"""The protocol's codec against kio's, which decodes in Rust and encodes in Python: rows as in `benchmarks/run.py`.

    python benchmarks/protocol.py [ROW …]

Each row alternates the two sides within one run, five rounds, and compares medians. Both sides get the same bytes, or
the same values as messages of their own kind. kio's messages are frozen and hold a copy of the records; ours hold a
view.
"""

from __future__ import annotations

import io
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from rows import Row, ratio_row
from tailrace.protocol.codec import decode, encode, encode_parts
from tailrace.protocol.frame import decode_request, decode_request_header, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BATCH = random.Random(1).randbytes(65536)


def seconds(work: Callable[[], object], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - started


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=BATCH)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders-of-today", partition_data=[partition])]
    )


def fetch_request(version: int) -> FetchRequest:
    named = {"topic": "orders"} if version < 13 else {"topic_id": bytes(range(16))}
    partitions = [FetchPartition(partition=p, fetch_offset=p * 1000, partition_max_bytes=1 << 20) for p in range(100)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(**named, partitions=partitions)])  # type: ignore[arg-type]


def fetch_response() -> FetchResponse:
    partitions = [
        PartitionData(partition_index=p, high_watermark=10**6, last_stable_offset=10**6, records=BATCH)
        for p in range(10)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=partitions)])


def metadata_response() -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            name=f"topic-{t}",
            topic_id=random.randbytes(16),
            partitions=[
                MetadataResponsePartition(
                    partition_index=p, leader_id=1, leader_epoch=5, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
                )
                for p in range(10)
            ],
        )
        for t in range(100)
    ]
    brokers = [MetadataResponseBroker(node_id=n, host=f"broker-{n}.example", port=9092) for n in range(3)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


def kio_class(message: type[Message], version: int) -> Any:
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    return load(message.KEY, version)  # type: ignore[arg-type]


def frame_row(version: int) -> Row:
    """Header and body of a produce request; kio's side is given where the header ends."""
    frame = memoryview(b"".join(encode_request(produce_request(), version, 7, "bench")))[4:]
    kind = kio_class(ProduceRequest, version)
    read_header, read_body, whole = entity_reader(kind.__header_schema__), entity_reader(kind), bytes(frame)

    def ours() -> object:
        header, position = decode_request_header(frame)
        return decode_request(header, frame, position)

    def kios() -> object:
        _, size = read_header(whole, 0)
        return read_body(whole, size)

    return row(f"decode Produce v{version} with its header, 64 KB of records", ours, kios, 20_000)


def decode_row(name: str, message: Message, version: int, times: int) -> Row:
    data = encode(message, version)
    kind, read = type(message), entity_reader(kio_class(type(message), version))
    return row(name, lambda: decode(kind, version, data), lambda: read(data, 0), times)


def encode_row(name: str, message: Message, version: int, times: int, work: Callable[..., object] = encode) -> Row:
    kind = kio_class(type(message), version)
    theirs, _ = entity_reader(kind)(encode(message, version), 0)
    write = entity_writer(kind)

    def kios() -> object:
        out = io.BytesIO()
        write(out, theirs)
        return out.getvalue()

    return row(name, lambda: work(message, version), kios, times)


def row(name: str, ours: Callable[[], object], kios: Callable[[], object], times: int) -> Row:
    return ratio_row(
        name,
        ours=lambda: seconds(ours, times),
        bare=lambda: seconds(kios, max(1, times // 10)) * times / max(1, times // 10),
        work=times,
        unit="/s",
        mark=1,
    )


ROWS: dict[str, Callable[[], Row]] = {
    **{f"produce-v{version}": lambda version=version: frame_row(version) for version in (9, 10, 11, 12)},
    "fetch-v12": lambda: decode_row("decode Fetch v12, 100 partitions", fetch_request(12), 12, 2000),
    "fetch-v17": lambda: decode_row("decode Fetch v17, 100 partitions", fetch_request(17), 17, 2000),
    "metadata-encode": lambda: encode_row("encode Metadata v12, 1,000 partitions", metadata_response(), 12, 100),
    "metadata-decode": lambda: decode_row("decode Metadata v12, 1,000 partitions", metadata_response(), 12, 100),
    "fetch-parts": lambda: encode_row(
        "encode Fetch response v12 to parts, 10 × 64 KB", fetch_response(), 12, 2000, encode_parts
    ),
}


def main() -> int:
    wanted = sys.argv[1:] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        print(f"error: no row {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    table = Table(title="protocol codec")
    for column in ("row", "ours", "kio", "ratio, median (spread)"):
        table.add_column(column)
    for name in wanted:
        result = ROWS[name]()
        table.add_row(result.name, result.ours, result.bare, result.result)
    Console(width=130).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
