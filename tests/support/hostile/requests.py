"""Requests that nobody in his right mind would send, made from ones that are right.

    bytes     a right request with damaged bytes, mostly with a size that fits what is left of it
    values    a right request with other values in some of its fields: extreme numbers, other texts, nulls, repetitions
    random    any values in all fields, in any version
    records   a right produce request with damaged batches in it, half of them with checksums that hold
    garbage   bytes that never were a request, and sizes that lie

Everything is drawn from one `random.Random`. What would end the conversation with a healthy broker as well is not
sent: speaking for the only broker or taking it out of the cluster, changing its settings, making thousands of
partitions.
"""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Collection, Iterator
from typing import Any

from support.hostile.corpus import sent_seeds
from support.hostile.mutation import Seed, hostile_batches, mutated
from support.protocol.random_messages import random_message
from support.requests.case import COMPACTED, DATA, Case, ServerFacts
from support.requests.catalog import all_cases
from tailrace.model.errors import TailraceError
from tailrace.protocol.apis import APIS, api_of
from tailrace.protocol.frame import decode_request, decode_request_header, encode_request
from tailrace.protocol.message import Message, Request, Struct
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE = 0
MAX_PARTITIONS = 64
REFUSED_PARTITIONS = 10_000  # more than these are refused whoever asks
BROKER_RESOURCES = (4, 8)
THIS_BROKER = 1
FEATURES = ("metadata.version", "group.version", "transaction.version", "share.version", "streams.version")
TEXTS = (
    "",
    DATA,
    COMPACTED,
    "nope",
    "bad/name",
    "x" * 249,
    "x" * 5000,
    "\x00",
    "ü€😀",
    "-1",
    "1",
    "retention.ms",
    "a.b",
    "nobody",
    "m",
    "range",
    "(a|b",
    "x" * 32_767,
)
IDS = (bytes(16), bytes(15) + b"\x01", b"\xff" * 16)
HEADER_FIELDS = ((0, 2), (2, 2), (4, 4), (8, 2))
WRONG_SIZES = (-1, 0, 1, 9, 1 << 20, 0x7FFF_FFFF, -(1 << 31))


class HostileRequests:
    """Frames with their sizes, for a listener of the broker that `facts` describes: `keys` are the APIs it serves."""

    def __init__(self, facts: ServerFacts, keys: Collection[int]) -> None:
        self._facts = facts
        self._keys = sorted(keys)
        self._cases = [case for case in all_cases(facts) if case.request.KEY in keys]
        self._seeds = [Seed(_body(case), HEADER_FIELDS) for case in self._cases]
        self._ways: tuple[Callable[[random.Random], bytes], ...] = (
            *(self._damaged_bytes,) * 8,
            *(self._other_values,) * 6,
            *(self._random_values,) * 3,
            *(self._damaged_records if PRODUCE in keys else self._random_values,) * 3,
            self._garbage,
        )

    def draw(self, chance: random.Random) -> bytes:
        while True:
            frame = chance.choice(self._ways)(chance)
            if self._may_be_sent(frame):
                return frame

    # Ways

    def _damaged_bytes(self, chance: random.Random) -> bytes:
        body = bytes(mutated(chance, chance.choice(self._seeds), self._seeds))
        if chance.random() < 0.03:
            return struct.pack(">i", len(body) + chance.choice((-1, 1, 4, -len(body) // 2))) + body
        return _sized(body)

    def _other_values(self, chance: random.Random) -> bytes:
        while True:
            case = chance.choice(self._cases)
            request = copy.deepcopy(case.request)
            for _ in range(chance.choice((1, 1, 2, 4))):
                _change_something(chance, request, self._facts)
            frame = _encoded(request, case.version, chance)
            if frame is not None:
                return frame

    def _random_values(self, chance: random.Random) -> bytes:
        while True:
            api = APIS[chance.choice(self._keys)]
            version = chance.randint(api.first_version, api.last_version)
            request = random_message(api.request, version, chance)
            for _ in range(chance.randrange(4)):
                _change_something(chance, request, self._facts)
            frame = _encoded(request, version, chance)
            if frame is not None:
                return frame

    def _damaged_records(self, chance: random.Random) -> bytes:
        version = chance.randint(3, 12)
        request = ProduceRequest(acks=chance.choice((-1, 1, 1, 0)), timeout_ms=chance.choice((0, 1000, -1)))
        for _ in range(chance.choice((1, 1, 1, 3))):
            records = bytes(hostile_batches(chance, sent_seeds()))
            part = PartitionProduceData(index=chance.choice((0, 0, 1, 2, 3)), records=records)
            topic = chance.choice((DATA, DATA, COMPACTED))
            request.topic_data.append(TopicProduceData(name=topic, partition_data=[part]))
        frame = _encoded(request, version, chance)
        assert frame is not None
        return frame

    def _garbage(self, chance: random.Random) -> bytes:
        body = chance.randbytes(chance.choice((0, 1, 9, 10, 40, 2000)))
        if chance.random() < 0.5:
            return struct.pack(">i", chance.choice(WRONG_SIZES)) + body
        return _sized(body)

    # What is not sent

    def _may_be_sent(self, frame: bytes) -> bool:
        size = int.from_bytes(frame[:4], "big", signed=True)
        if not 0 <= size <= len(frame) - 4:
            return True
        try:
            header, position = decode_request_header(frame[4 : 4 + size])
            request: Any = decode_request(header, frame[4 : 4 + size], position)
        except TailraceError:
            return True
        api = api_of(header.request_api_key)
        if api.key not in self._keys or not api.has_version(header.request_api_version):
            return True
        check = _CHECKS.get(api.name)
        return check is None or check(request, self._facts)


def _change_something(chance: random.Random, message: Struct, facts: ServerFacts) -> None:
    """One field, somewhere in the message."""
    structs = list(_structs(message))
    struct_ = chance.choice(structs)
    if not struct_.__fields__:
        return
    declared = chance.choice(struct_.__fields__)
    old = getattr(struct_, declared.name)
    setattr(struct_, declared.name, _other(chance, old, facts))


def _structs(message: Struct) -> Iterator[Struct]:
    yield message
    for declared in message.__fields__:
        value = getattr(message, declared.name)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Struct):
                yield from _structs(item)


def _other(chance: random.Random, old: Any, facts: ServerFacts) -> Any:
    if chance.random() < 0.1:
        return None
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        bits = chance.choice((7, 15, 15, 31, 31, 63))
        return chance.choice((0, 1, 2, -1, -2, old + 1, old - 1, (1 << bits) - 1, -(1 << bits), 10_001))
    if isinstance(old, str):
        return chance.choice(TEXTS)
    if isinstance(old, list):
        many = chance.choice((0, 1, 2, 2, 3, 100))
        return [copy.deepcopy(item) for item in old * many]
    if isinstance(old, bytes) and len(old) == 16:
        return chance.choice((*IDS, *facts.topic_ids.values()))
    if isinstance(old, bytes | bytearray | memoryview):
        return bytes(old)[: chance.choice((0, 1, 60, 100))] + chance.randbytes(chance.choice((0, 1, 70)))
    return old


def _encoded(request: Message, version: int, chance: random.Random) -> bytes | None:
    """None for values that the version has no way to say."""
    assert isinstance(request, Request)
    client_id = chance.choice((None, "", "hostile", "hostile", "x" * 300, "x" * 32_767))
    try:
        return b"".join(bytes(part) for part in encode_request(request, version, chance.getrandbits(31), client_id))
    except TailraceError:
        return None


def _body(case: Case) -> bytes:
    return b"".join(bytes(part) for part in encode_request(case.request, case.version, 7, "hostile"))[4:]


def _sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# By API, whether a request leaves the broker in a state in which the next one can be tried.


def _new_topics(request: Any, facts: ServerFacts) -> bool:
    total = sum(max(topic.num_partitions, len(topic.assignments), 0) for topic in request.topics)
    return total <= MAX_PARTITIONS or total > REFUSED_PARTITIONS + len(request.topics)


def _new_partitions(request: Any, facts: ServerFacts) -> bool:
    counts = [max(topic.count, 0) for topic in request.topics]
    return sum(counts) <= MAX_PARTITIONS or min(counts) > 2 * REFUSED_PARTITIONS


def _deleted_topics(request: Any, facts: ServerFacts) -> bool:
    names = {*(request.topic_names or ()), *(topic.name for topic in request.topics or ())}
    ids = {topic.topic_id for topic in request.topics or ()}
    return not names & {DATA, COMPACTED} and not ids & set(facts.topic_ids.values())


def _settings(request: Any, facts: ServerFacts) -> bool:
    kinds = {resource.resource_type for resource in request.resources}
    return request.validate_only or not kinds & set(BROKER_RESOURCES)


def _features(request: Any, facts: ServerFacts) -> bool:
    return request.validate_only or all(update.feature not in FEATURES for update in request.feature_updates)


def _of_another_broker(request: Any, facts: ServerFacts) -> bool:
    return bool(request.broker_id != THIS_BROKER)


_CHECKS: dict[str, Callable[[Any, ServerFacts], bool]] = {
    "CreateTopics": _new_topics,
    "CreatePartitions": _new_partitions,
    "DeleteTopics": _deleted_topics,
    "AlterConfigs": _settings,
    "IncrementalAlterConfigs": _settings,
    "UpdateFeatures": _features,
    "UnregisterBroker": _of_another_broker,
    "BrokerRegistration": _of_another_broker,
    "BrokerHeartbeat": _of_another_broker,
}
