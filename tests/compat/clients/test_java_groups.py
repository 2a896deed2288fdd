"""Kafka's tools for groups, on the Java client: members of both protocols, and what an operator does with a group."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from client_driver import Message
from client_servers import Server
from group_members import Kind, Members

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

COMMAND = "consumer.group.ConsumerGroupCommand"
PROTOCOLS = ("classic", "consumer")
PARTITIONS = 3
COUNT = 20


@pytest.fixture
def filled(name: str, helper: Any) -> str:
    """A topic of three partitions with twenty records each: `0-0`, `0-1` and so on."""
    helper.create_topic(name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        helper.produce(name, [Message(b"%d-%d" % (partition, n)) for n in range(COUNT)], partition=partition)
    return name


def rows(output: str) -> list[dict[str, str]]:
    """A table by its headings. A heading is one word, but for the one that has a number in brackets."""
    head, *lines = [
        re.sub(r" +\((\w+)\)", r"(\1)", line)
        for line in output.splitlines()
        if line.strip() and "has no active" not in line
    ]
    return [dict(zip(head.split(), line.split(), strict=True)) for line in lines]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_consumers_share_what_is_there(tool: Any, filled: str, protocol: str, helper: Any) -> None:
    def consume(count: int) -> list[str]:
        printed = tool(
            "consumer.ConsoleConsumer",
            *("--topic", filled, "--group", f"g-{filled}", "--from-beginning", "--max-messages", str(count)),
            *("--timeout-ms", "20000", "--command-property", f"group.protocol={protocol}"),
        )
        return [line for line in printed.splitlines() if re.fullmatch(r"\d-\d+", line)]

    first, second = consume(25), consume(35)
    assert len(first) == 25
    assert sorted(first + second) == sorted(f"{part}-{n}" for part in range(PARTITIONS) for n in range(COUNT))
    assert helper.committed(f"g-{filled}", filled) == dict.fromkeys(range(PARTITIONS), COUNT)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("instance", [None, "one-of-them"], ids=["dynamic", "static"])
def test_verifiable_consumer(tool: Any, filled: str, protocol: str, instance: str | None, helper: Any) -> None:
    total = PARTITIONS * COUNT
    output = tool(
        "VerifiableConsumer",
        *("--topic", filled, "--group-id", f"g-{filled}", "--group-protocol", protocol, "--verbose"),
        *("--max-messages", str(total), *(("--group-instance-id", instance) if instance else ())),
    )
    said = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    by_name: dict[str, list[Any]] = {}
    for each in said:
        by_name.setdefault(each["name"], []).append(each)
    assigned = {each["partition"] for event in by_name["partitions_assigned"] for each in event["partitions"]}
    assert assigned == set(range(PARTITIONS))
    values = [each["value"] for each in by_name["record_data"]]
    assert sorted(values) == sorted(f"{part}-{n}" for part in range(PARTITIONS) for n in range(COUNT))
    assert sum(each["count"] for each in by_name["records_consumed"]) == total
    assert all(each["success"] for each in by_name["offsets_committed"])
    assert helper.committed(f"g-{filled}", filled) == dict.fromkeys(range(PARTITIONS), COUNT)


@pytest.fixture(params=PROTOCOLS)
def lively(request: pytest.FixtureRequest, filled: str, server: Server) -> Iterator[tuple[str, str, Members]]:
    """A group of two members that have read everything; its name, its protocol, and they."""
    group = f"g-{filled}"
    kind = Kind("confluent-kafka", {"group.protocol": request.param, "client.id": "lively"})
    with Members(server.address, group, filled) as members:
        both = [members.join(kind) for _ in range(2)]
        members.wait_until_owners_are(both, PARTITIONS)
        members.wait_until_handled(dict.fromkeys(range(PARTITIONS), COUNT), both)
        yield group, request.param, members


def test_a_group_with_members_is_described(
    tool: Any, filled: str, lively: tuple[str, str, Members], helper: Any, server: Server
) -> None:
    group, protocol, members = lively
    listed = {row["GROUP"]: row for row in rows(tool(COMMAND, "--list", "--state"))}
    assert listed[group]["STATE"] == "Stable"
    typed = {row["GROUP"]: row for row in rows(tool(COMMAND, "--list", "--type"))}
    assert typed[group]["TYPE"].lower() == protocol
    (state,) = rows(tool(COMMAND, "--describe", "--group", group, "--state"))
    assert state["STATE"] == "Stable"
    assert state["#MEMBERS"] == "2"
    assert state["ASSIGNMENT-STRATEGY"] == ("uniform" if protocol == "consumer" else "range")
    assert state["COORDINATOR(ID)"].startswith(server.address)
    found = rows(tool(COMMAND, "--describe", "--group", group, "--members"))
    assert sorted(row["#PARTITIONS"] for row in found) == ["1", "2"]
    assert {row["CLIENT-ID"] for row in found} == {"lively"}
    assert {row["HOST"] for row in found} == {"/127.0.0.1"}
    verbose = rows(tool(COMMAND, "--describe", "--group", group, "--members", "--verbose"))
    shown = {row.get("ASSIGNMENT", row.get("CURRENT-ASSIGNMENT")) for row in verbose}
    assert all(each.startswith(f"{filled}:") for each in shown)
    assert sorted(part for each in shown for part in re.findall(r"\d+", each.partition(":")[2])) == ["0", "1", "2"]
    offsets = rows(tool(COMMAND, "--describe", "--group", group, "--offsets"))
    assert {row["CONSUMER-ID"] for row in offsets} == {row["CONSUMER-ID"] for row in found}
    assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in offsets] == [
        (str(partition), str(COUNT), str(COUNT), "0") for partition in range(PARTITIONS)
    ]
    assert "GroupNotEmptyException" in tool(COMMAND, "--delete", "--group", group)
    refused = tool(COMMAND, "--reset-offsets", "--group", group, "--topic", filled, "--to-earliest", "--execute")
    assert "Assignments can only be reset if the group" in refused
    members.leave(members.started)
    (empty,) = rows(tool(COMMAND, "--describe", "--group", group, "--state"))
    assert (empty["STATE"], empty["#MEMBERS"]) == ("Empty", "0")


def test_offsets_are_reset_and_deleted(tool: Any, filled: str, helper: Any) -> None:
    group = f"g-{filled}"
    helper.commit(group, filled, {0: 5, 1: 6, 2: 7})

    def reset(*how: str) -> dict[int, int]:
        found = rows(tool(COMMAND, "--reset-offsets", "--group", group, *how))
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in found}

    assert reset("--topic", filled, "--to-earliest", "--dry-run") == {0: 0, 1: 0, 2: 0}
    assert helper.committed(group, filled) == {0: 5, 1: 6, 2: 7}
    assert reset("--topic", f"{filled}:0,1", "--shift-by", "-2", "--execute") == {0: 3, 1: 4}
    assert helper.committed(group, filled) == {0: 3, 1: 4, 2: 7}
    assert reset("--topic", filled, "--to-latest", "--execute") == dict.fromkeys(range(PARTITIONS), COUNT)
    assert reset("--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute") == {0: 0, 1: 0, 2: 0}
    deleted = tool(COMMAND, "--delete-offsets", "--group", group, "--topic", f"{filled}:1")
    assert "Request succeeded for deleting offsets" in deleted
    assert helper.committed(group, filled) == {0: 0, 2: 0}


def test_groups_are_deleted(tool: Any, filled: str, helper: Any) -> None:
    group = f"g-{filled}"
    helper.commit(group, filled, {0: 5})
    assert group in tool(COMMAND, "--list").split()
    assert "was successful" in tool(COMMAND, "--delete", "--group", group)
    assert group not in tool(COMMAND, "--list").split()
    assert "GroupIdNotFoundException" in tool(COMMAND, "--delete", "--group", group)
    assert "GroupIdNotFoundException" in tool(COMMAND, "--describe", "--group", group)


def test_groups_command(tool: Any, filled: str, helper: Any) -> None:
    helper.commit(f"g-{filled}", filled, {0: 5})
    listed = [line.split() for line in tool("GroupsCommand", "--list").splitlines()]
    assert [f"g-{filled}", "Classic"] in listed
