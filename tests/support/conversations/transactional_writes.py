"""What is written in transactions, and what partitions answer: batches, offsets, markers; in time and too late."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from support.conversations.conversation import Talk
from support.conversations.transactions import Producer, pause
from support.logs.builders import in_transaction, produced_by
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PARTITIONS = 4
GROUP = "committed-in-transactions"
COORDINATOR_OF_GROUPS = 0
NOT_READY = (14, 15, 16)
NOT_LEADER_OR_FOLLOWER = 6
OLD, KNOWS_ABORTABLE, ADDS = 9, 11, 12
"""Versions of Produce."""


class Writer(Producer):
    """A transactional producer with a topic of its own."""

    def __init__(self, talk: Talk, transactional_id: str) -> None:
        super().__init__(talk, transactional_id)
        self.topic = f"of-{transactional_id}"
        self._client = talk._client
        made = CreatableTopic(name=self.topic, num_partitions=PARTITIONS, replication_factor=1)
        self._client.ask(CreateTopicsRequest(topics=[made], timeout_ms=20_000), 7)
        self._topic_id = self._made_topic()

    def _made_topic(self) -> bytes:
        """Its id, when the broker knows that it leads every partition."""
        wanted = TopicRequest(name=self.topic, partition_indexes=list(range(PARTITIONS)))
        for _ in range(200):
            described: Any = self._client.ask(DescribeProducersRequest(topics=[wanted]), 0)
            if not any(part.error_code for part in described.topics[0].partitions):
                break
            pause(self._talk, 0.1)
        found: Any = self._client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), 12)
        topic_id: bytes = found.topics[0].topic_id
        return topic_id

    def _now_ms(self) -> int:
        """By the server's clock, or nearly: a segment holds no records that are weeks apart."""
        now_ms: int = getattr(self._client, "now_ms", lambda: round(time.time() * 1000))()
        return now_ms

    def batch(self, sequence: int = 0, *, id_off: int = 0, epoch_off: int = 0, is_transactional: bool = True) -> bytes:
        make = in_transaction if is_transactional else produced_by
        return bytes(make(self.id + id_off, sequence, epoch=self.epoch + epoch_off, timestamp=self._now_ms()))

    def write(
        self, name: str, *sets: tuple[int, bytes], version: int = OLD, acks: int = -1, under: str | None = ""
    ) -> None:
        """`under` another transactional id, or none.

        It is sent again while Kafka responds as no leader: a loaded one did so at its first write to a partition.
        """
        parts = [PartitionProduceData(index=index, records=records) for index, records in sets]
        topic = TopicProduceData(name=self.topic, topic_id=self._topic_id, partition_data=parts)
        transactional_id = self.transactional_id if under == "" else under
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=5000, topic_data=[topic])
        for _ in range(50):
            answer = self._talk.ask(name, request, version)
            if isinstance(answer, str) or not _is_led_elsewhere(answer):
                break
            self._talk.answers.pop()
            pause(self._talk, 0.1)

    def mark(
        self,
        name: str,
        topics: dict[str, list[int]],
        version: int = 1,
        *,
        commit: bool = False,
        id_off: int = 0,
        epoch_off: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        marker = WritableTxnMarker(
            producer_id=self.id + id_off,
            producer_epoch=self.epoch + epoch_off,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=each, partition_indexes=indexes) for each, indexes in topics.items()],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        self._talk.ask(name, WriteTxnMarkersRequest(markers=[marker]), version)

    def read(self, name: str, partition: int) -> None:
        """What a read_committed consumer is told, and what else the partition knows of its producers."""
        part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topic, partitions=[part])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=[topic])
        answer = self._talk.ask(f"{name}: read", request, 12)
        answer.responses[0].partitions[0].records = None  # the bytes tell of times and ids
        topics = [TopicRequest(name=self.topic, partition_indexes=[partition])]
        self._talk.ask(f"{name}: producers", DescribeProducersRequest(topics=topics), 0)

    def commit_offset(
        self, name: str, version: int, *, under: str = "", id_off: int = 0, epoch_off: int = 0, offset: int = 5
    ) -> None:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=under or self.transactional_id,
            group_id=GROUP,
            producer_id=self.id + id_off,
            producer_epoch=self.epoch + epoch_off,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[part])],
        )
        self._talk.ask(name, request, version)

    def read_offset(self, name: str, *, is_stable: bool = True) -> None:
        wanted = OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])]
        self._talk.ask(name, OffsetFetchRequest(groups=groups, require_stable=is_stable), 8)


def _is_led_elsewhere(answer: Any) -> bool:
    parts = [part for topic in answer.responses for part in topic.partition_responses]
    return any(part.error_code == NOT_LEADER_OR_FOLLOWER for part in parts)


def find_group_coordinator(talk: Talk) -> None:
    """And wait until it knows that it is."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[])])
    for _ in range(200):
        talk._client.ask(FindCoordinatorRequest(key_type=COORDINATOR_OF_GROUPS, coordinator_keys=[GROUP]), 4)
        found: Any = talk._client.ask(request, 8)
        if found.groups[0].error_code not in NOT_READY:
            return
        pause(talk, 0.1)


def never_added(talk: Talk) -> None:
    for version in range(OLD, ADDS + 2):
        writer = Writer(talk, f"never-added-{version}")
        writer.init(f"v{version}")
        writer.write(f"v{version} a later epoch", (1, writer.batch(epoch_off=3)), version=version)
        writer.write(f"v{version} an unknown producer", (1, writer.batch(id_off=1000)), version=version)
        writer.write(f"v{version} an unknown id", (1, writer.batch()), version=version, under="nobodys")
        writer.write(f"v{version} no id", (1, writer.batch()), version=version, under=None)
        writer.write(f"v{version} first", (0, writer.batch()), version=version)
        writer.write(f"v{version} second", (0, writer.batch(1)), version=version)
        writer.end(f"v{version} ended", 5 if version >= ADDS else 4)
        writer.read(f"v{version}", 0)


def with_one_epoch(talk: Talk) -> None:
    writer = Writer(talk, "one-epoch-writes")
    writer.init("new")
    writer.add("added", {writer.topic: [0, 1]})
    writer.write("one of two", (0, writer.batch()), (2, writer.batch()))
    writer.write("one of two, v11", (1, writer.batch()), (2, writer.batch()), version=KNOWS_ABORTABLE)
    writer.write("second", (0, writer.batch(1)))
    writer.write("second again", (0, writer.batch(1)))
    writer.write("a gap", (0, writer.batch(7)))
    writer.write("of two producers", (0, writer.batch(2)), (3, writer.batch(id_off=1)))
    writer.write("wrong acks", (0, writer.batch(2)), acks=7)
    writer.write("wrong acks, not added", (3, writer.batch()), acks=7)
    writer.write("not in the transaction", (0, writer.batch(2, is_transactional=False)))
    writer.read("open", 0)
    writer.end("committed", 4)
    writer.read("committed", 0)
    for version in (OLD, KNOWS_ABORTABLE):
        writer.write(f"late, v{version}", (0, writer.batch(2)), version=version)
        writer.write(f"late and known, v{version}", (0, writer.batch(1)), version=version)
    writer.init("again")
    for version in (OLD, KNOWS_ABORTABLE, ADDS):
        writer.write(f"fenced, v{version}", (0, writer.batch(2, epoch_off=-1)), version=version)
    writer.add("added again", {writer.topic: [0]})
    writer.write("not from 0", (0, writer.batch(3)))
    writer.write("from 0", (0, writer.batch()))
    writer.end("aborted", 4, commit=False)
    writer.read("aborted", 0)


def with_new_epochs(talk: Talk) -> None:
    writer = Writer(talk, "new-epochs-writes")
    writer.init("new", 5)
    writer.write("first", (3, writer.batch()), version=ADDS)
    writer.write("not from 0", (2, writer.batch(4)), version=ADDS)
    writer.end("committed", 5)
    writer.write("of the epoch before", (3, writer.batch(1, epoch_off=-1)), version=ADDS)
    writer.write("of the epoch before, v9", (3, writer.batch(1, epoch_off=-1)))
    writer.write("of the epoch before, elsewhere", (1, writer.batch(epoch_off=-1)), version=ADDS)
    writer.write("next", (3, writer.batch()), version=ADDS)
    writer.end("aborted", 5, commit=False)
    for partition in range(1, 4):
        writer.read(f"partition {partition}", partition)


def markers(talk: Talk) -> None:
    writer = Writer(talk, "marked")
    here = {writer.topic: [2]}
    writer.init("new")
    writer.add("added", here)
    writer.write("written", (2, writer.batch()))
    writer.mark("a negative epoch", here, epoch_off=-1 - writer.epoch)
    writer.mark("a negative producer", here, id_off=-1 - writer.id)
    writer.mark("must raise the epoch", here, 2, transaction_version=2)
    writer.mark("unknown", {"none": [0], writer.topic: [9]})
    writer.mark("nowhere", {})
    talk.ask("nothing", WriteTxnMarkersRequest(markers=[]), 1)
    writer.read("open", 2)
    writer.mark("aborted", here, coordinator_epoch=3)
    writer.mark("raised again", here, 2, transaction_version=2, coordinator_epoch=3)
    writer.mark("of a coordinator before", here, coordinator_epoch=2)
    writer.mark("committed as well", here, coordinator_epoch=3, commit=True)
    writer.mark("of nobody", here, id_off=5000, coordinator_epoch=-1)
    writer.mark("a later epoch", here, epoch_off=5, coordinator_epoch=3)
    writer.mark("an epoch before", here, epoch_off=4, coordinator_epoch=3)
    writer.read("ended", 2)


def offsets(talk: Talk) -> None:
    find_group_coordinator(talk)
    for version in (3, 4, 5):
        writer = Writer(talk, f"offsets-{version}")
        writer.init(f"v{version}")
        writer.commit_offset(f"v{version} a later epoch", version, epoch_off=2)
        writer.commit_offset(f"v{version} another id", version, under="nobodys")
        writer.commit_offset(f"v{version} another producer", version, id_off=4000)
        writer.commit_offset(f"v{version}", version)
        writer.read_offset(f"v{version} open")
        writer.read_offset(f"v{version} open, as it is", is_stable=False)
        writer.end(f"v{version} ended", 5 if version > 4 else 4)
        writer.read_offset(f"v{version} ended")
        writer.commit_offset(f"v{version} late", version, epoch_off=-1 if version > 4 else 0)


CONVERSATIONS_OF_TRANSACTIONAL_WRITES: tuple[Callable[[Talk], None], ...] = (
    never_added,
    with_one_epoch,
    with_new_epochs,
    markers,
    offsets,
)
