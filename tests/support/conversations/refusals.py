"""What coordinators refuse, and that it leaves no trace: groups and offsets are looked at before and after.

Who comes with a wrong epoch, a name that another has taken over, values that no client would send, or as the second
producer of one transactional id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from support.conversations import classic_members
from support.conversations.classic_members import story
from support.conversations.consumer_groups import Party, pause
from support.conversations.conversation import Talk, make_topic
from support.conversations.offsets import coordinated
from support.conversations.transactions import Producer
from support.requests.case import DATA, UNKNOWN_ID, label, versions
from support.requests.consumer_groups import SEVERAL_FROM, Fields, joining, odd_values
from support.requests.offsets import commit, delete, fetch, id_of
from support.requests.streams_groups import joining as joining_streams
from tailrace.model.ids import TopicId
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest
from tailrace.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tailrace.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

COMMIT, FETCH, TXN_COMMIT = 9, 9, 5
FIRST_MEMBERS_FROM = 3
"""The first TxnOffsetCommit that says who commits."""
ONE = ((DATA, (0,)),)
LONG = "x" * 10_000
LONGEST = 32_767


def seen(talk: Talk, group: str, when: str) -> None:
    talk.ask(f"offsets {when}", fetch(talk.facts, FETCH, group, topics=None), FETCH)


def txn_commit(producer: Producer, group: str, offset: int = 99, **fields: Any) -> TxnOffsetCommitRequest:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    values: Fields = {
        "transactional_id": producer.transactional_id,
        "group_id": group,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [TxnOffsetCommitRequestTopic(name=DATA, partitions=[part])],
    }
    return TxnOffsetCommitRequest(**(values | fields))


def refused_commits(talk: Talk, group: str, producer: Producer, who: str, **member: Any) -> None:
    """In every version that can say who it is, and within a transaction."""
    for version in versions(OffsetCommitRequest, 7 if "group_instance_id" in member else 2):
        talk.ask(
            f"{who} commits in version {version}", commit(talk.facts, version, group, 99, topics=ONE, **member), version
        )
    epoch = member.pop("generation_id_or_member_epoch", -1)
    for version in versions(TxnOffsetCommitRequest, FIRST_MEMBERS_FROM):
        request = txn_commit(producer, group, generation_id=epoch, **member)
        talk.ask(f"{who} commits in a transaction in version {version}", request, version)


@story("refusing")
def fenced_members_of_a_classic_group(party: classic_members.Party) -> None:
    talk = party._talk
    producer = Producer(talk, "of the fenced")
    producer.init("a producer")
    a, b = party.stable("a", "b", static=True)
    a.commit()
    party.describe("before")
    seen(talk, party.group_id, "before")
    old = a.id
    a.id = ""
    a.join("comes back")
    a.take()
    epochs: dict[str, Fields] = {
        "the fenced one": {"member_id": old, "group_instance_id": a.instance_id},
        "the fenced one without its name": {"member_id": old},
        "somebody else": {"member_id": "x"},
        "another instance": {"member_id": a.id, "group_instance_id": "i-c"},
        "a under b's name": {"member_id": a.id, "group_instance_id": b.instance_id},
        "nobody": {"member_id": ""},
        "an instance alone": {"member_id": "", "group_instance_id": a.instance_id},
    }
    for who, fields in epochs.items():
        refused_commits(talk, party.group_id, producer, who, generation_id_or_member_epoch=a.generation, **fields)
    for epoch in (-2, -1, 0, a.generation - 1, a.generation + 1, 2**31 - 1):
        known = {"member_id": a.id, "group_instance_id": a.instance_id}
        who = f"a in {epoch - a.generation}"
        refused_commits(talk, party.group_id, producer, who, generation_id_or_member_epoch=epoch, **known)
    talk.ask("its offsets deleted", delete(party.group_id), 0)
    producer.end("and aborts", commit=False)
    party.describe("after")
    seen(talk, party.group_id, "after")


def fenced_members_of_a_consumer_group(talk: Talk) -> None:
    make_topic(talk, DATA)
    party = Party(talk, "refusing-consumers")
    producer = Producer(talk, "of fenced consumers")
    producer.init("a producer")
    a = party.member("a", DATA, instance_id="i")
    a.join("a joins")
    good = commit(talk.facts, COMMIT, party.group_id, 7, topics=ONE, **_epoch("a", a.epoch))
    talk.ask("a commits", good, COMMIT)
    party.describe("before")
    seen(talk, party.group_id, "before")
    for member in ("a", "x", ""):
        for epoch in (-3, -2, -1, 0, a.epoch - 1, a.epoch + 1, 2**31 - 1):
            refused_commits(talk, party.group_id, producer, f"{member!r} in {epoch}", **_epoch(member, epoch))
            if member != "a" or epoch > 0:
                fetched = fetch(talk.facts, FETCH, party.group_id, member_id=member, member_epoch=epoch)
                talk.ask(f"{member!r} fetches in {epoch}", fetched, FETCH)
    refused_commits(talk, party.group_id, producer, "an instance", group_instance_id="j", **_epoch("x", a.epoch))
    talk.ask("offsets deleted", delete(party.group_id), 0)
    party.delete("deleted")
    producer.end("and aborts", commit=False)
    party.describe("after")
    party.describe_classic("after, as a classic group")
    seen(talk, party.group_id, "after")


def _epoch(member: str, epoch: int) -> Fields:
    return {"member_id": member, "generation_id_or_member_epoch": epoch}


def odd_heartbeats(talk: Talk) -> None:
    """To a group that is there, and to one that is not: the first is as it was, the second is not made."""
    make_topic(talk, "hb-data")
    pause(talk)
    party, nowhere = Party(talk, "odd-heartbeats"), Party(talk, "odd-heartbeats-nowhere")
    a = party.member("a", "hb-data")
    a.join("a joins")
    for version in versions(ConsumerGroupHeartbeatRequest):
        party.describe(f"before {version}")
        for name, fields in refused_values(talk, version):
            party.beat(f"{version}: a newcomer with {name}", "b", 0, version, **joining() | fields)
            party.beat(f"{version}: somebody else with {name}", "b", 1, version, **fields)
            party.beat(f"{version}: a stale one with {name}", "a", a.epoch + 7, version, **fields)
            nowhere.beat(f"{version}: in no group with {name}", "b", 0, version, **joining() | fields)
            nowhere.beat(f"{version}: a member of no group with {name}", "b", 1, version, **fields)
        party.describe(f"after {version}")
        nowhere.describe(f"nowhere after {version}")
    for name in (LONG, "x" * LONGEST, "ünicode", "\0", "x" * 36):
        other = Party(talk, f"odd-{name[:20_000]}")
        other.beat(f"a member called {label(name)}", name, 0, **joining())
        other.describe(f"with {label(name)}")
        other.beat(f"{label(name)} leaves", name, -1)
        other.delete(f"{label(name)} deleted")


def refused_values(talk: Talk, version: int) -> Iterator[tuple[str, Fields]]:
    """Only those: others would have the newcomer join."""
    for name, fields in odd_values(talk.facts, version):
        (key, value), *_ = fields.items()
        is_refused = (
            (key == "rebalance_timeout_ms" and value < 0)
            or (key == "subscribed_topic_names" and value is None and len(fields) == 1)
            or (key in ("instance_id", "rack_id", "server_assignor") and not (value or "").strip())
            or (key == "server_assignor" and value not in ("range", "uniform"))
            or (key == "topic_partitions" and value != [])
            or (key == "subscribed_topic_regex" and value and not value.isalnum())
        )
        if is_refused:
            yield name, fields


def owned_partitions(talk: Talk) -> None:
    """What a member says it owns, and does not."""
    make_topic(talk, "own-data", 3)
    pause(talk)
    party = Party(talk, "owning")
    known = party.topic_id("own-data")
    a, b = party.member("a", "own-data"), party.member("b", "own-data")
    a.join("a joins")
    b.join("b joins")
    for name, rows in {
        "nothing": [],
        "a partition that is not there": [(known, [0, 1, 2, 3])],
        "a negative one": [(known, [-1])],
        "one twice": [(known, [0, 0])],
        "its topic twice": [(known, [0]), (known, [1])],
        "an unknown topic": [(UNKNOWN_ID, [0])],
        "no topic": [(bytes(16), [0])],
        "a topic without partitions": [(known, [])],
        "many": [(known, list(range(20_000)))],
    }.items():
        given = [RequestTopicPartitions(topic_id=topic, partitions=each) for topic, each in rows]
        party.beat(f"b owns {name}", "b", b.epoch, topic_partitions=given)
        party.beat(f"a owns {name}", "a", a.epoch, topic_partitions=given)
        party.describe(f"after {name}")


def names_of_any_length(talk: Talk) -> None:
    """As group ids, in every API that takes one of a group that is not there."""
    coordinated(talk)
    for name in ("", " ", LONG, "x" * LONGEST, "ünicode", "a/b", "\0"):
        party = Party(talk, name)
        said = label(name)
        party.describe(f"{said} described")
        party.describe_classic(f"{said} described as classic")
        party.delete(f"{said} deleted")
        party.beat(f"{said} beaten", "m", 1)
        talk.ask(f"{said} fetched", fetch(talk.facts, FETCH, name), FETCH)
        talk.ask(f"{said} offsets deleted", delete(name), 0)
        party.list(f"{said} listed")


def found_coordinators(talk: Talk) -> None:
    coordinated(talk)
    Producer(talk, "found")
    share = f"g:{TopicId(id_of(talk.facts, DATA))}:0"
    for kind, keys in ((0, ("g", "", LONG, "ünicode")), (1, ("t", "", LONG)), (2, (share, "x", "g:h:i:0"))):
        for version in versions(FindCoordinatorRequest, 1 if kind else 0):
            for number, key in enumerate(keys if version < SEVERAL_FROM else ()):
                request = FindCoordinatorRequest(key=key, key_type=kind)
                talk.ask(f"{version}: kind {kind}, key {number}", request, version)
            if version >= SEVERAL_FROM and (kind < 2 or version < 6):
                request = FindCoordinatorRequest(coordinator_keys=[*keys, *keys], key_type=kind)
                answer = talk.ask(f"{version}: kind {kind} of many", request, version)
                for row in answer.coordinators:
                    row.key = str(keys.index(row.key))


def two_producers_with_one_id(talk: Talk) -> None:
    """The second fences the first, whose offsets and partitions come to nothing."""
    coordinated(talk)
    group = "of two producers"
    talk.ask("somebody commits", commit(talk.facts, COMMIT, group, 5, topics=ONE), COMMIT)
    first, second = Producer(talk, "one id"), Producer(talk, "one id")
    first.init("first")
    first.add_offsets("first adds offsets")
    talk.ask("first commits", txn_commit(first, "group", 50), 4)
    second.init("second")
    second.init("second again")
    for version in versions(TxnOffsetCommitRequest):
        talk.ask(f"first commits offsets in version {version}", txn_commit(first, group), version)
    first.add("first adds a partition", {DATA: [0]})
    first.end("first commits")
    first.end("first commits, newer", 5, keeps=True)
    seen(talk, group, "of the first")
    seen(talk, "group", "that were aborted")
    second.add_offsets("second adds offsets")
    talk.ask("second commits", txn_commit(second, "group", 51), 4)
    talk.ask("pending", fetch(talk.facts, FETCH, "group", topics=None, stable=True), FETCH)
    second.end("second ends")
    settled(talk, "group")
    seen(talk, "group", "of the second")
    second.describe("described")


def settled(talk: Talk, group: str) -> None:
    """The marker is there."""
    for _ in range(100):
        answer: Any = talk._client.ask(fetch(talk.facts, FETCH, group, topics=None, stable=True), FETCH)
        rows = [part for topic in answer.groups[0].topics for part in topic.partitions]
        if rows and not any(part.error_code for part in rows):
            return
        time.sleep(0.1)


def large_requests(talk: Talk) -> None:
    """Up to what a batch of the coordinator's log can take, and beyond."""
    coordinated(talk)
    for size in (10, 1 << 20, 10 << 20):
        group = f"large-{size}"
        protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size))]
        request = JoinGroupRequest(
            group_id=group, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols
        )
        answer = talk.ask(f"metadata of {size}", request, 4)
        answer.member_id = answer.member_id and "chosen"
        party = Party(talk, group)
        party.describe_classic(f"with {size}")
    many = ((DATA, tuple(range(3)) * 6_000),)
    talk.ask("many partitions", commit(talk.facts, COMMIT, "large-commit", topics=many), COMMIT)
    seen(talk, "large-commit", "after many partitions")
    asked = fetch(talk.facts, 8, *(f"g{number}" for number in range(3000)), topics=ONE)
    talk.ask("many groups", asked, 8)
    talk.ask("a group very often", OffsetFetchRequest(groups=asked.groups[:1] * 3000), 8)


def topologies_that_nobody_has(talk: Talk) -> None:
    """Each in a group of its own, which is not made."""
    coordinated(talk)
    good = Subtopology(subtopology_id="0", source_topics=[DATA])
    repartition = [TopicInfo(name="r", partitions=-1)]
    apart = [CopartitionGroup(source_topics=[7])]
    for name, brought in {
        "an epoch below 0": Topology(epoch=-1, subtopologies=[good]),
        "a part twice": Topology(subtopologies=[good, good]),
        "partitions below 0": Topology(
            subtopologies=[
                Subtopology(
                    subtopology_id="0",
                    source_topics=[DATA],
                    repartition_sink_topics=["r"],
                    repartition_source_topics=repartition,
                )
            ]
        ),
        "a source that is not there": Topology(
            subtopologies=[Subtopology(subtopology_id="0", source_topics=[DATA], copartition_groups=apart)]
        ),
    }.items():
        fields = joining_streams() | {"group_id": f"topology with {name}", "topology": brought}
        talk.ask(name, StreamsGroupHeartbeatRequest(**fields), 0)
        described = StreamsGroupDescribeRequest(group_ids=[f"topology with {name}"])
        talk.ask(f"{name} described", described, 0)


CONVERSATIONS_OF_REFUSALS: tuple[Callable[[Talk], None], ...] = (
    fenced_members_of_a_classic_group,
    fenced_members_of_a_consumer_group,
    odd_heartbeats,
    owned_partitions,
    names_of_any_length,
    found_coordinators,
    two_producers_with_one_id,
    large_requests,
    topologies_that_nobody_has,
)
