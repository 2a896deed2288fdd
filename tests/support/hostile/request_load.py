"""Sends hostile requests to a broker over many connections at a time, and asks in between whether it still serves.

A connection that was closed is made anew; one whose request was not answered within a moment (half a frame, a long
poll, acks=0) is given up without a farewell: clients vanish in the middle. Topics that the requests made are deleted
every now and then, so that what the broker holds at the end is what it held at the beginning.

As a program it does this to a broker of its own and prints one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import tailrace
from support.clients.raw_client import RawClient
from support.hostile.requests import HostileRequests
from support.requests.case import COMPACTED, DATA, ServerFacts
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.model.ids import TopicId
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder

LANES = 16
PATIENCE_SECONDS = 0.05
CHECKED_EVERY = 500
TIDIED_EVERY = 2000
THOROUGH_EVERY = 4
FIND_COORDINATOR = 6
OWN = "its-own"
"""A topic that no hostile request knows the name of: a healthy client writes to it all the while."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": str(2 << 20),  # what the first compaction takes and keeps is not of interest
}
CONTROLLER_SHARE = 8  # every so-many-th connection goes to the controller's listener
TROUBLE = re.compile(r"^Traceback|Z (ERROR|CRITICAL)\b")
MAX_GROWTH_BYTES = 24 << 20
"""What caches may still take after the first fifth: 1,000 fetch sessions, producers, codecs of every version."""
_AT_ONCE = struct.pack("ii", 1, 0)


@dataclass
class StormTally:
    requests: int = 0
    answered: int = 0
    closed: int = 0
    given_up: int = 0
    slowest_check_ms: int = 0
    rss_before_bytes: int = 0
    rss_after_bytes: int = 0
    trouble: list[str] = field(default_factory=list)

    @property
    def grown_bytes(self) -> int:
        return self.rss_after_bytes - self.rss_before_bytes


class _Lane:
    """One connection, made anew when it was lost, with at most one request on its way."""

    def __init__(self, address: tuple[str, int], requests: HostileRequests) -> None:
        self._address = address
        self.requests = requests
        self.sock: socket.socket | None = None
        self.sent_at = 0.0
        self.is_lost = False
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        if self.sock is None:
            self.sock = socket.create_connection(self._address, 10)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)  # no port is kept for its memory
            self.sock.setblocking(False)
        self._received.clear()
        self.is_lost = False
        self.sent_at = time.monotonic()
        self.sock.sendall(frame)

    def receive(self) -> bool:
        """Whether the answer is there whole. EOFError when the broker has closed."""
        assert self.sock is not None
        part = self.sock.recv(1 << 16)
        if not part:
            raise EOFError
        self._received += part
        return len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4], "big")

    def drop(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None


class RequestStorm:
    def __init__(self, broker: tailrace.Broker, seed: int) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self._client = RawClient(broker.bootstrap_servers)
        self._written = 0
        self._tidied = 0
        self.tally = StormTally()

    def __enter__(self) -> RequestStorm:
        facts = furnished(self._client)
        self._have_coordinators()
        controller = controller_listener(self._client)
        self._targets = (
            *((("127.0.0.1", self._broker.port), HostileRequests(facts, BROKER_HANDLERS)),) * (CONTROLLER_SHARE - 1),
            (controller, HostileRequests(facts, CONTROLLER_HANDLERS)),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def run(self, count: int, progress: Callable[[int], None] | None = None) -> StormTally:
        """A fifth of the requests goes first: what they make the broker load and cache is not held against it."""
        self._send(count // 5, progress)
        self.tidy()
        self.tally.rss_before_bytes = rss_bytes(self._broker)
        self._send(count - count // 5, progress)
        self.tidy()
        self.tally.rss_after_bytes = rss_bytes(self._broker)
        self.tally.trouble = self.trouble()
        return self.tally

    def hang_up(self) -> None:
        """The next question is asked on a new connection."""
        self._client.close()

    def trouble(self) -> list[str]:
        """Lines of the broker's log that should not be there."""
        return [line for line in self._broker.log.splitlines() if TROUBLE.search(line)]

    def _send(self, count: int, progress: Callable[[int], None] | None) -> None:
        lanes = [_Lane(*self._targets[number % len(self._targets)]) for number in range(LANES)]
        busy: dict[int, _Lane] = {}
        idle = list(lanes)
        poll = select.poll()
        left = count
        while left or busy:
            while idle and left:
                lane = idle.pop()
                left -= 1
                if self._begin(lane):
                    assert lane.sock is not None
                    busy[lane.sock.fileno()] = lane
                    poll.register(lane.sock, select.POLLIN)
                else:
                    idle.append(lane)
                self._between(progress)
            ready = {fd for fd, _ in poll.poll(1000 * PATIENCE_SECONDS)}
            for fd, lane in [*busy.items()]:
                if self._is_over(lane, fd in ready):
                    poll.unregister(fd)
                    if lane.is_lost:
                        lane.drop()
                    idle.append(busy.pop(fd))
        for lane in lanes:
            lane.drop()

    def _begin(self, lane: _Lane) -> bool:
        self.tally.requests += 1
        try:
            lane.send(lane.requests.draw(self._chance))
        except (ConnectionError, BlockingIOError):
            self.tally.closed += 1
            lane.drop()
            return False
        return True

    def _is_over(self, lane: _Lane, is_ready: bool) -> bool:
        """Nothing more is to be expected on this connection, or it is not waited for."""
        try:
            if is_ready and lane.receive():
                self.tally.answered += 1
                return True
        except (ConnectionError, EOFError):
            self.tally.closed += 1
            lane.is_lost = True
            return True
        if time.monotonic() - lane.sent_at < PATIENCE_SECONDS:
            return False
        self.tally.given_up += 1
        lane.is_lost = True
        return True

    def _between(self, progress: Callable[[int], None] | None) -> None:
        if self.tally.requests % CHECKED_EVERY == 0:
            self.check()
            if progress is not None:
                progress(self.tally.requests)
        if self.tally.requests % TIDIED_EVERY == 0:
            self.tidy()

    def check(self) -> None:
        """A healthy client is served, with offsets that nobody else had a hand in."""
        began = time.monotonic()
        builder = BatchBuilder()
        builder.append(1000, b"key", b"value")
        part = PartitionProduceData(index=0, records=bytes(builder.build()))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=OWN, partition_data=[part])]
        )
        answer: Any = self._client.ask(request, 9)
        got = answer.responses[0].partition_responses[0]
        assert (got.error_code, got.base_offset) == (0, self._written), got
        self._written += 1
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=OWN, partitions=[wanted])
        found: Any = self._client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 6)
        assert found.topics[0].partitions[0].offset == self._written, found
        self.tally.slowest_check_ms = max(self.tally.slowest_check_ms, int(1000 * (time.monotonic() - began)))

    def tidy(self) -> None:
        """Delete every topic that is not of this storm's own; now and then those of the coordinators too."""
        self._tidied += 1
        is_thorough = self._tidied % THOROUGH_EVERY == 0
        described: Any = self._client.ask(MetadataRequest(topics=None), 12)
        strange = [
            topic.name
            for topic in described.topics
            if topic.name not in (DATA, COMPACTED, OWN) and (is_thorough or not topic.is_internal)
        ]
        for start in range(0, len(strange), 100):
            topics = [DeleteTopicState(name=name) for name in strange[start : start + 100]]
            answer: Any = self._client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
            assert {each.error_code for each in answer.responses} <= {0}, answer
        self._have_coordinators()

    def _have_coordinators(self) -> None:
        """Most of what is sent to them would otherwise end in the search for one."""
        for kind, key in enumerate(("any", "any", f"any:{TopicId(bytes(15) + b'x')}:0")):
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
            answer: Any = self._client.ask(request, FIND_COORDINATOR)
            assert answer.coordinators[0].error_code == 0, answer


def furnished(client: RawClient) -> ServerFacts:
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(name=DATA, num_partitions=3, replication_factor=1),
        CreatableTopic(name=COMPACTED, num_partitions=1, replication_factor=1, configs=compacted),
        CreatableTopic(name=OWN, num_partitions=1, replication_factor=1),
    ]
    made: Any = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
    assert {topic.error_code for topic in made.topics} == {0}, made
    dirs: Any = client.ask(DescribeLogDirsRequest(topics=None), 4)
    ids = {topic.name: topic.topic_id for topic in made.topics if topic.name != OWN}
    return ServerFacts(dirs.results[0].log_dir, ids)


def controller_listener(client: RawClient) -> tuple[str, int]:
    quorum = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    described: Any = client.ask(DescribeQuorumRequest(topics=[quorum]), 2)
    (listener,) = described.nodes[0].listeners
    return listener.host, listener.port


def rss_bytes(broker: tailrace.Broker) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return 1024 * int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description="Send hostile requests to a broker.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    args = parser.parse_args()

    def tell(requests: int) -> None:
        print(json.dumps({"inputs": requests}), flush=True)

    with tailrace.Broker(SETTINGS) as broker, RequestStorm(broker, args.seed) as storm:
        tally = storm.run(args.count, tell)
    print("\n".join(tally.trouble))
    print(json.dumps(vars(tally) | {"trouble": len(tally.trouble)}), flush=True)
    return 1 if tally.trouble or tally.grown_bytes > MAX_GROWTH_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
