"""A broker on the loopback interface that says what a test tells it to: real sockets, real frames, logs in lists.

    with ScriptedBroker() as broker:
        broker.add_topic("orders", 3)
        broker.answers[ProduceRequest] = lambda request: …      a response, NO_ANSWER, or HANG_UP

What is not scripted is answered as a broker of one node would that has everything in memory. Requests are kept in
`seen`. One thread a connection; all of them end with the block.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tailrace.protocol.apis import APIS, BROKER
from tailrace.protocol.frame import decode_request, decode_request_header, encode_response
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.record.batch import set_base_offset
from tailrace.record.shallow import batches

NO_ANSWER = object()
HANG_UP = object()
EARLIEST = -2

_SIZE = struct.Struct(">i")
Answer = Callable[[Any], object]
R = TypeVar("R", bound=Request)


class Log:
    """Batches of a partition, by base offset."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.takes_any_first_sequence = False
        self.sequences: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """By producer and epoch: base sequence and base offset of each batch."""

    def append(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset), with the checks of an idempotent producer."""
        (batch,) = batches(data)
        known = self.sequences.setdefault((batch.producer_id, batch.producer_epoch), [])
        if batch.producer_id >= 0:
            for sequence, offset in known:
                if sequence == batch.base_sequence:
                    return 0, offset
            last = known[-1][0] + self._count(known[-1][1]) if known else 0
            if batch.base_sequence != last and (known or not self.takes_any_first_sequence):
                return 45, -1
            known.append((batch.base_sequence, self.end))
        stored = bytearray(data)
        set_base_offset(stored, 0, self.end)
        self.batches.append(bytes(stored))
        offset, self.end = self.end, self.end + batch.record_count
        return 0, offset

    def _count(self, base_offset: int) -> int:
        found = (next(batches(data)) for data in self.batches)
        return next(batch.record_count for batch in found if batch.base_offset == base_offset)

    def read(self, offset: int) -> bytes:
        return b"".join(data for data in self.batches if next(batches(data)).next_offset > offset)


class ScriptedBroker:
    def __init__(self) -> None:
        self.answers: dict[type[Request], Answer] = {}
        self.versions = {
            api.key: (api.first_version, api.last_stable_version) for api in APIS.values() if api.listeners & BROKER
        }
        self.seen: list[Request] = []
        self.seen_versions: dict[int, set[int]] = {}
        self.topics: dict[str, list[Log]] = {}
        self.connections = 0
        self.next_producer_id = 4000
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._links: list[socket.socket] = []
        self._lock = threading.Lock()

    def add_topic(self, name: str, partitions: int = 1) -> list[Log]:
        self.topics[name] = [Log() for _ in range(partitions)]
        return self.topics[name]

    def requests(self, kind: type[R]) -> list[R]:
        return [request for request in self.seen if isinstance(request, kind)]

    def __enter__(self) -> ScriptedBroker:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """On everybody."""
        for link in self._links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        self._links.clear()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self._links.append(link)
            self.connections += 1
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError), link, link.makefile("rb") as stream:
            while head := stream.read(4):
                if not self._answer(link, stream.read(_SIZE.unpack(head)[0])):
                    return

    def _answer(self, link: socket.socket, frame: bytes) -> bool:
        header, position = decode_request_header(frame)
        version, answer_version = header.request_api_version, None
        low, high = self.versions.get(header.request_api_key, (0, -1))
        with self._lock:
            self.seen_versions.setdefault(header.request_api_key, set()).add(version)
            if header.request_api_key == 18 and not low <= version <= high:
                response: object = self._api_versions(35)
                answer_version = 0
            else:
                request = decode_request(header, frame, position)
                self.seen.append(request)
                response = self.answers.get(type(request), self._usual)(request)
        if response is HANG_UP:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            return False
        if response is NO_ANSWER:
            return True
        if isinstance(response, Response):
            response = b"".join(bytes(part) for part in encode_response(header, response, version=answer_version))
        assert isinstance(response, bytes)
        link.sendall(response)
        return True

    # As a broker would

    def _usual(self, request: Request) -> object:
        by_kind: dict[type[Request], Answer] = {
            ApiVersionsRequest: lambda _: self._api_versions(0),
            MetadataRequest: self.metadata,
            ProduceRequest: self.produce,
            FetchRequest: self.fetch,
            ListOffsetsRequest: self.list_offsets,
            InitProducerIdRequest: self._init_producer_id,
        }
        return by_kind[type(request)](request)

    def _api_versions(self, error_code: int) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)

    def metadata(self, request: MetadataRequest, error_codes: Iterable[int] = ()) -> MetadataResponse:
        codes = iter(error_codes)
        wanted = self.topics if request.topics is None else [topic.name or "" for topic in request.topics]
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        topics = []
        for name in wanted:
            code = next(codes, 0 if name in self.topics else 3)
            logs = self.topics.get(name, ()) if not code else ()
            partitions = [
                MetadataResponsePartition(
                    partition_index=at, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                )
                for at in range(len(logs))
            ]
            topics.append(
                MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id(name), partitions=partitions)
            )
        return MetadataResponse(brokers=[broker], cluster_id="test", controller_id=1, topics=topics)

    def name(self, name: str, raw: bytes) -> str:
        return name or next(each for each in self.topics if topic_id(each) == raw)

    def produce(self, request: ProduceRequest, error_code: int = 0, message: str | None = None) -> object:
        """Write it, or refuse all of it."""
        responses = []
        for topic in request.topic_data:
            name, parts = self.name(topic.name, topic.topic_id), []
            for each in topic.partition_data:
                code, offset = (error_code, -1) if error_code else self.topics[name][each.index].append(each.records)
                parts.append(
                    PartitionProduceResponse(
                        index=each.index, error_code=code, base_offset=offset, error_message=message
                    )
                )
            responses.append(TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=parts))
        return ProduceResponse(responses=responses) if request.acks else NO_ANSWER

    def fetch(self, request: FetchRequest, error_codes: dict[int, int] | None = None) -> FetchResponse:
        responses = []
        for topic in request.topics:
            name, parts = self.name(topic.topic, topic.topic_id), []
            for each in topic.partitions:
                log = self.topics[name][each.partition]
                code = (error_codes or {}).get(each.partition, 0)
                if not log.start <= each.fetch_offset <= log.end:
                    code = 1
                data = b"" if code else log.read(each.fetch_offset)
                parts.append(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=code,
                        high_watermark=log.end,
                        last_stable_offset=log.end,
                        log_start_offset=log.start,
                        records=data,
                    )
                )
            responses.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=parts))
        return FetchResponse(responses=responses)

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                log = self.topics[topic.name][each.partition_index]
                offset = log.start if each.timestamp == EARLIEST else log.end if each.timestamp == -1 else -1
                parts.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    def _init_producer_id(self, _: object) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)


def topic_id(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\x01")


class Pauses:
    """In place of time.sleep: remembers, and does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
