"""Requests of streams groups at a broker that coordinates none: what is refused before a coordinator is looked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.requests.case import DATA, Case, ServerFacts, label, versions
from tailrace.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tailrace.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

NAMES = ("nobody", "", " ", "x" * 10_000, "ünicode")


def joining() -> dict[str, Any]:
    return {
        "group_id": "nobody",
        "member_id": "m",
        "rebalance_timeout_ms": 1000,
        "topology": Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[DATA])]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
    }


def odd_values() -> Iterator[tuple[str, dict[str, Any]]]:
    tasks = [RequestTaskIds(subtopology_id="0", partitions=[0])]
    changelog = TopicInfo(name="log", partitions=-1, replication_factor=-1)
    twice = [Subtopology(subtopology_id="0", source_topics=[DATA])] * 2
    for name, values in {
        "group_id": NAMES,
        "member_id": NAMES,
        "member_epoch": (1, -1, -2, -3, 2**31 - 1),
        "rebalance_timeout_ms": (-1, -2, 0),
        "instance_id": ("", " ", "i"),
        "rack_id": ("", " ", "r"),
        "process_id": (None, "", " "),
        "topology": (
            None,
            Topology(epoch=-1),
            Topology(epoch=7),
            Topology(epoch=0, subtopologies=twice),
            Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="", source_topics=["bad/name"])]),
            Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["("])]),
            Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", state_changelog_topics=[changelog])]),
        ),
        "active_tasks": (None, tasks),
        "standby_tasks": (None, tasks),
        "warmup_tasks": (None, tasks),
        "shutdown_application": (True,),
        "endpoint_information_epoch": (-1, 7),
    }.items():
        for number, value in enumerate(values):
            yield f"{name} {number}" if not isinstance(value, str) else f"{name} {label(value)}", {name: value}


def streams_groups(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(StreamsGroupHeartbeatRequest):
        first: dict[str, Any] = {"group_id": "nobody", "member_id": "m", "member_epoch": 1}
        yield Case("of nobody", StreamsGroupHeartbeatRequest(**first), version)
        for name, fields in odd_values():
            yield Case(f"that joins with {name}", StreamsGroupHeartbeatRequest(**(joining() | fields)), version)
            yield Case(f"of a member with {name}", StreamsGroupHeartbeatRequest(**(first | fields)), version)
    for version in versions(StreamsGroupDescribeRequest):
        yield Case("any", StreamsGroupDescribeRequest(group_ids=list(NAMES)), version)
        yield Case("none", StreamsGroupDescribeRequest(), version)
        yield Case("twice", StreamsGroupDescribeRequest(group_ids=["a", "a"]), version)
