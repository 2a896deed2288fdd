"""Requests of share groups at a broker that coordinates none: bad names, epochs, sessions, acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.requests.case import DATA, NO_ID, UNKNOWN_ID, Case, ServerFacts, label, versions
from tailrace.protocol.messages import alter_share_group_offsets as alter
from tailrace.protocol.messages import delete_share_group_offsets as delete
from tailrace.protocol.messages import delete_share_group_state as forget
from tailrace.protocol.messages import describe_share_group_offsets as describe
from tailrace.protocol.messages import initialize_share_group_state as initialize
from tailrace.protocol.messages import read_share_group_state as read
from tailrace.protocol.messages import read_share_group_state_summary as summary
from tailrace.protocol.messages import share_acknowledge as acknowledge
from tailrace.protocol.messages import share_fetch as fetch
from tailrace.protocol.messages import write_share_group_state as write
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

NAMES = ("nobody", "", " ", "x" * 10_000, "ünicode")
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
NO_MEMBERS = ("", "m", "x" * 37, None)
EPOCHS = (1, -1, -2, 2**31 - 1)


def share_members(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(ShareGroupHeartbeatRequest):
        for epoch in (1, 0, -1, -2, 2**31 - 1):
            beat = ShareGroupHeartbeatRequest(group_id="nobody", member_id=MEMBER, member_epoch=epoch)
            yield Case(f"in epoch {epoch}", beat, version)
        odd: tuple[tuple[str, dict[str, Any]], ...] = (
            *((f"group {label(name)}", {"group_id": name}) for name in NAMES),
            *((f"member {label(name)}", {"member_id": name}) for name in (*NAMES, "x" * 36, "x" * 37)),
            *((f"rack {rack!r}", {"rack_id": rack}) for rack in ("", " ", "r")),
            *((f"topics {number}", {"subscribed_topic_names": names}) for number, names in enumerate((None, [], [""]))),
        )
        for name, fields in odd:
            values = {"group_id": "nobody", "member_id": MEMBER, "subscribed_topic_names": [DATA]} | fields
            yield Case(f"with {name}", ShareGroupHeartbeatRequest(**values), version)
    for version in versions(ShareGroupDescribeRequest):
        yield Case("any", ShareGroupDescribeRequest(group_ids=list(NAMES)), version)
        yield Case("none", ShareGroupDescribeRequest(), version)
        yield Case("twice", ShareGroupDescribeRequest(group_ids=["a", "a"]), version)


def share_fetches(facts: ServerFacts) -> Iterator[Case]:
    """Sessions that are not there, and topics."""
    for version in versions(fetch.ShareFetchRequest):
        for member in (MEMBER, *NO_MEMBERS):
            for epoch in EPOCHS:
                request = fetch.ShareFetchRequest(group_id="nobody", member_id=member, share_session_epoch=epoch)
                yield Case(f"of {member and label(member)!r} in epoch {epoch}", request, version)
        for group in ("", None):
            yield Case(f"of group {group!r}", fetch.ShareFetchRequest(group_id=group, member_id=MEMBER), version)
        for name, topic in (("unknown", UNKNOWN_ID), ("no", NO_ID)):
            rows = [fetch.FetchTopic(topic_id=topic, partitions=[fetch.FetchPartition(partition_index=0)])]
            request = fetch.ShareFetchRequest(group_id="nobody", member_id=MEMBER, share_session_epoch=1, topics=rows)
            yield Case(f"of {name} topic", request, version)
    for version in versions(acknowledge.ShareAcknowledgeRequest):
        for member in (MEMBER, *NO_MEMBERS):
            for epoch in (*EPOCHS, 0):
                said = acknowledge.ShareAcknowledgeRequest(
                    group_id="nobody", member_id=member, share_session_epoch=epoch
                )
                yield Case(f"of {member and label(member)!r} in epoch {epoch}", said, version)
        for group in ("", None):
            said = acknowledge.ShareAcknowledgeRequest(group_id=group, member_id=MEMBER, share_session_epoch=1)
            yield Case(f"of group {group!r}", said, version)
        for types in ([], [7], [-1], [1, 1], [0], [1] * 5000):
            batch = acknowledge.AcknowledgementBatch(first_offset=5, last_offset=3, acknowledge_types=types)
            part = acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
            row = acknowledge.AcknowledgeTopic(topic_id=facts.topic_ids[DATA], partitions=[part])
            said = acknowledge.ShareAcknowledgeRequest(
                group_id="nobody", member_id=MEMBER, share_session_epoch=1, topics=[row]
            )
            yield Case(f"of types {types[:3]}", said, version)


def share_states(facts: ServerFacts) -> Iterator[Case]:
    """What brokers say to the coordinator of states, which is not here."""
    for group in ("nobody", "", "x" * 10_000):
        for what, topic in (("a topic", facts.topic_ids[DATA]), ("unknown topic", UNKNOWN_ID), ("no topic", NO_ID)):
            name = f"{label(group)}, {what}"
            for index in (0, 9, -1):
                for case in _of_a_partition(group, topic, index):
                    yield case._replace(name=f"{name} {index}")
    for version in versions(write.WriteShareGroupStateRequest):
        yield Case("of nothing", write.WriteShareGroupStateRequest(group_id="nobody"), version)
    for version in versions(read.ReadShareGroupStateRequest):
        yield Case("of nothing", read.ReadShareGroupStateRequest(group_id="nobody"), version)


def _of_a_partition(group: str, topic: bytes, index: int) -> Iterator[Case]:
    new = initialize.InitializeStateData(topic_id=topic, partitions=[initialize.PartitionData(partition=index)])
    yield Case("", initialize.InitializeShareGroupStateRequest(group_id=group, topics=[new]), 0)
    asked = read.ReadStateData(topic_id=topic, partitions=[read.PartitionData(partition=index)])
    yield Case("", read.ReadShareGroupStateRequest(group_id=group, topics=[asked]), 0)
    gone = forget.DeleteStateData(topic_id=topic, partitions=[forget.PartitionData(partition=index)])
    yield Case("", forget.DeleteShareGroupStateRequest(group_id=group, topics=[gone]), 0)
    for version in versions(write.WriteShareGroupStateRequest):
        batch = write.StateBatch(first_offset=5, last_offset=3, delivery_state=9, delivery_count=-1)
        part = write.PartitionData(partition=index, state_batches=[batch])
        said = write.WriteStateData(topic_id=topic, partitions=[part])
        yield Case("", write.WriteShareGroupStateRequest(group_id=group, topics=[said]), version)
    for version in versions(summary.ReadShareGroupStateSummaryRequest):
        row = summary.ReadStateSummaryData(topic_id=topic, partitions=[summary.PartitionData(partition=index)])
        yield Case("", summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=[row]), version)


def share_offsets(facts: ServerFacts) -> Iterator[Case]:
    for group in NAMES:
        for topics in (None, [], [("nope", [0])], [("", [])]):
            name = f"{label(group)}, {topics}"
            rows = None if topics is None else [_described(topic, parts) for topic, parts in topics]
            asked = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=rows)
            for version in versions(describe.DescribeShareGroupOffsetsRequest):
                yield Case(name, describe.DescribeShareGroupOffsetsRequest(groups=[asked]), version)
            if topics is not None:
                moved = [_moved(topic, parts) for topic, parts in topics]
                yield Case(name, alter.AlterShareGroupOffsetsRequest(group_id=group, topics=moved), 0)
                gone = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic, _ in topics]
                yield Case(name, delete.DeleteShareGroupOffsetsRequest(group_id=group, topics=gone), 0)


def _described(topic: str, partitions: list[int]) -> describe.DescribeShareGroupOffsetsRequestTopic:
    return describe.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)


def _moved(topic: str, partitions: list[int]) -> alter.AlterShareGroupOffsetsRequestTopic:
    part = alter.AlterShareGroupOffsetsRequestPartition
    rows = [part(partition_index=index, start_offset=-7) for index in partitions]
    return alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=rows)
