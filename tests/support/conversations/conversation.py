"""Requests that build on the answers before them, with what a server said to each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from support.clients.raw_client import NoAnswer, RawClient
from support.kafka.exchanges import Exchange, brief, fingerprint
from support.requests.case import DATA, ServerFacts
from support.requests.records import batch
from support.requests.response_values import shape
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest

FETCH = 12
PRODUCE = 9
DELETED = "deleted-records"


class Noted(NamedTuple):
    """A response that counts. Conversations may hide parts of it after it was noted."""

    name: str
    request: str
    answer: Any


class Talk:
    """Asks, and remembers the answers by a name."""

    def __init__(self, client: RawClient, facts: ServerFacts) -> None:
        self._client = client
        self.facts = facts
        self.answers: list[Noted] = []

    def ask(self, name: str, request: Request, version: int) -> Any:
        answer: Any
        try:
            answer = self._client.ask(request, version)
        except NoAnswer as outcome:
            answer = str(outcome)
        self.note(name, answer, (request, version))
        return answer

    def note(self, name: str, answer: Any, *requests: tuple[Request, int]) -> None:
        self.answers.append(Noted(name, fingerprint(*requests), answer))

    def exchanges(self) -> list[Exchange]:
        return [Exchange(name, request, brief(shape(answer))) for name, request, answer in self.answers]

    def produce(self, name: str, records: bytes, *, acks: int = -1, topic: str = DATA, partition: int = 1) -> Any:
        return self.ask(name, produce_request(records, acks=acks, topic=topic, partition=partition), PRODUCE)


def produce_request(records: bytes, *, acks: int = -1, topic: str = DATA, partition: int = 1) -> ProduceRequest:
    part = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[part])])


def fetch_session(talk: Talk) -> None:
    def ask(name: str, session: int, epoch: int, *offsets: tuple[int, int], gone: tuple[int, ...] = ()) -> Any:
        parts = [FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=1 << 20) for index, at in offsets]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=session, session_epoch=epoch)
        request.topics = [FetchTopic(topic=DATA, partitions=parts)] if parts else []
        request.forgotten_topics_data = [ForgottenTopic(topic=DATA, partitions=list(gone))] if gone else []
        return talk.ask(name, request, FETCH)

    session = ask("begun", 0, 0, (0, 0), (1, 0)).session_id
    ask("nothing new", session, 1, (0, 10))
    ask("still nothing", session, 2)
    ask("wrong epoch", session, 9)
    ask("epoch of the past", session, 1)
    ask("another partition", session, 3, (2, 0))
    ask("an unknown partition", session, 4, (9, 0))
    ask("out of range", session, 5, (0, 10**6))
    ask("forgotten", session, 6, gone=(0, 9))
    ask("all forgotten", session, 7, gone=(1, 2))
    ask("and gone", session, 8)
    other = ask("begun again", 0, 0, (0, 5)).session_id
    replaced = ask("replaced", other, 0, (0, 5)).session_id
    ask("the one before", other, 1)
    ask("closed", replaced, -1, (0, 5))
    ask("after its end", replaced, 1)


def idempotent_producer(talk: Talk) -> None:
    got = talk.ask("id", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)

    def send(name: str, sequence: int, *, epoch: int = 0, count: int = 2) -> None:
        talk.produce(name, batch(count, producer_id=got.producer_id, producer_epoch=epoch, base_sequence=sequence))

    send("first", 0)
    send("second", 2)
    send("second again", 2)
    send("first again", 0)
    send("a gap", 9)
    send("half of one again", 2, count=1)
    send("a later epoch", 0, epoch=1)
    send("the epoch before", 4)
    send("a later epoch, not from 0", 5, epoch=2)
    for sequence in range(2, 14, 2):
        send(f"sequence {sequence}", sequence, epoch=1)
    send("too old to know", 0, epoch=1)
    topics = [TopicRequest(name=DATA, partition_indexes=[1])]
    talk.ask("producers", DescribeProducersRequest(topics=topics), 0)


def deleted_records(talk: Talk) -> None:
    make_topic(talk, DELETED)

    def delete(name: str, offset: int) -> None:
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=DELETED, partitions=[wanted])], timeout_ms=5000)
        talk.ask(name, request, 2)

    def fetch(name: str, offset: int) -> None:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic=DELETED, partitions=[part])])
        talk.ask(name, request, FETCH)

    def offsets(name: str) -> None:
        for timestamp in (-2, -1, -3, -4, 0, 2001):
            talk.ask(f"{name} at {timestamp}", offset_request(DELETED, timestamp), 8)

    for number in range(3):
        talk.produce(f"batch {number}", batch(3, time_ms=2000 + number), topic=DELETED, partition=0)
    delete("within a batch", 4)
    fetch("before the start", 3)
    fetch("at the start", 4)
    offsets("offset")
    talk.produce("the newest time", batch(1, time_ms=9000), topic=DELETED, partition=0)
    talk.produce("an older time", batch(1, time_ms=3000), topic=DELETED, partition=0)
    delete("the newest time", 10)
    offsets("offset without the newest time")
    delete("everything", -1)
    fetch("at the end", 11)
    offsets("offset without anything")
    talk.produce("after that", batch(1), topic=DELETED, partition=0)


def offset_request(topic: str, timestamp: int) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])])


def make_topic(talk: Talk, name: str, partitions: int = 1) -> None:
    """It can be written to then: a broker may hear of it a moment after the controller has answered."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    talk._client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
    for _ in range(100):
        found: Any = talk._client.ask(offset_request(name, -1), 8)
        if not found.topics[0].partitions[0].error_code:
            return
        time.sleep(0.1)


def no_acknowledgement(talk: Talk) -> None:
    """acks=0: only the next answer shows what became of it."""

    def send(name: str, records: bytes, topic: str = DATA) -> None:
        unanswered = produce_request(records, acks=0, topic=topic)
        frame = talk._client.frame_of(unanswered, PRODUCE)
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=DATA)])
        talk._client.close()  # each on a connection of its own
        try:
            answer: Any = talk._client.answer_to(3, 12, frame + talk._client.frame_of(metadata, 12))
        except NoAnswer as outcome:
            answer = str(outcome)
        talk.note(name, answer, (unanswered, PRODUCE), (metadata, 12))

    send("good", batch(1))
    send("to a topic that is not there", batch(1), "nope")
    send("of damaged records", batch(1)[:-1] + b"\xff")
    send("without records", b"")


def unregistered(talk: Talk) -> None:
    """The broker that answers is alive: it is taken out of the cluster all the same."""
    talk.ask("broker 1", UnregisterBrokerRequest(broker_id=1), 0)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    fetch_session,
    idempotent_producer,
    deleted_records,
    no_acknowledgement,
)
LAST_WORDS: tuple[Callable[[Talk], None], ...] = (unregistered,)
