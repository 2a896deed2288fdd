"""Requests of consumer groups, and for coordinators, at a broker that coordinates nothing: what is refused before.

What a coordinator would refuse is only refused here because there is none; `support.conversations.refusals` has the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.requests.case import DATA, NO_ID, UNKNOWN_ID, Case, ServerFacts, label, versions
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest

NAMES = ("nobody", "", " ", "x" * 10_000, "ünicode")
PATTERNS = ("", "(", "[a", "a**", "(?=a)", "\\1", "a{1001}", "x" * 30_000)
SHARE = 2
REGEX_FROM = 1
SEVERAL_FROM = 4

Fields = dict[str, Any]


def joining() -> Fields:
    return {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [DATA], "topic_partitions": []}


def odd_values(facts: ServerFacts, version: int) -> Iterator[tuple[str, Fields]]:
    """Of a heartbeat that joins: one field at a time, and what cannot go together."""
    data_id = facts.topic_ids[DATA]
    for name, values in {
        "rebalance_timeout_ms": (-2, -1, 0, 2**31 - 1),
        "subscribed_topic_names": (None, [], [""], [DATA, DATA], ["bad/name"], ["x" * 250], ["nope"]),
        "instance_id": ("", " ", "i", "x" * 10_000),
        "rack_id": ("", " ", "r"),
        "server_assignor": ("", " ", "best", "Uniform", "range", "x" * 10_000),
        "topic_partitions": (
            None,
            [RequestTopicPartitions(topic_id=data_id, partitions=[])],
            [RequestTopicPartitions(topic_id=data_id, partitions=[0, 0, 9, -1])],
            [RequestTopicPartitions(topic_id=UNKNOWN_ID, partitions=[0])],
            [RequestTopicPartitions(topic_id=NO_ID, partitions=[0])],
        ),
    }.items():
        for number, value in enumerate(values):
            yield f"{name} {number}", {name: value}
    if version >= REGEX_FROM:
        for number, pattern in enumerate(PATTERNS):
            yield f"pattern {number}", {"subscribed_topic_regex": pattern, "subscribed_topic_names": None}
            yield f"names and pattern {number}", {"subscribed_topic_regex": pattern}


def heartbeat(group: str, member: str, epoch: int, fields: Fields) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def consumer_groups(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(ConsumerGroupHeartbeatRequest):
        for epoch in (1, 0, -1, -2, -3, 2**31 - 1):
            yield Case(f"in epoch {epoch}", heartbeat("nobody", "m", epoch, {}), version)
            yield Case(f"without an id in epoch {epoch}", heartbeat("nobody", "", epoch, joining()), version)
            instance = {"instance_id": "i"}
            yield Case(f"of an instance in epoch {epoch}", heartbeat("nobody", "m", epoch, instance), version)
        for name in NAMES:
            yield Case(f"to {label(name)}", heartbeat(name, "m", 0, joining()), version)
            yield Case(f"of {label(name)}", heartbeat("nobody", name, 0, joining()), version)
        for name, fields in odd_values(facts, version):
            yield Case(f"with {name}", heartbeat("nobody", "m", 0, joining() | fields), version)
            yield Case(f"of a member with {name}", heartbeat("nobody", "m", 1, fields), version)
    for version in versions(ConsumerGroupDescribeRequest):
        yield Case("any", ConsumerGroupDescribeRequest(group_ids=list(NAMES)), version)
        yield Case("none", ConsumerGroupDescribeRequest(), version)
        twice = ConsumerGroupDescribeRequest(group_ids=["a", "a"], include_authorized_operations=True)
        yield Case("twice", twice, version)


def no_coordinators(facts: ServerFacts) -> Iterator[Case]:
    """Of kinds that there are not, or under keys that cannot be: so that no topic is made."""
    keys = (
        "",
        "x",
        "x:y",
        "g:AAAAAAAAAAAAAAAAAAAAAQ",
        "g:AAAAAAAAAAAAAAAAAAAAAQ:one",
        "g::0",
        ":AAAAAAAAAAAAAAAAAAAAAQ:0",
    )
    for version in versions(FindCoordinatorRequest):
        for kind in (-1, SHARE, 3, 127) if version else ():
            if version < SEVERAL_FROM:
                yield Case(f"kind {kind}", FindCoordinatorRequest(key="x", key_type=kind), version)
            else:
                request = FindCoordinatorRequest(coordinator_keys=["x", "x"], key_type=kind)
                yield Case(f"kind {kind}", request, version)
        if version >= SEVERAL_FROM:
            for key in keys:
                request = FindCoordinatorRequest(coordinator_keys=[key], key_type=SHARE)
                yield Case(f"share key {key!r}", request, version)
            yield Case("of nothing", FindCoordinatorRequest(coordinator_keys=[]), version)
