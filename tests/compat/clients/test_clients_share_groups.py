"""Share groups with the share consumers of confluent-kafka and of Java: each record for one member, none lost."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client_driver import Message
from client_servers import Server
from confluent_driver import ConfluentDriver
from confluent_kafka import ShareConsumer

from support.clients.raw_client import RawClient
from support.kafka.tools import run_tool
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]

GROUP_RESOURCE = 32
PATIENCE_SECONDS = 60.0
TOOLS = "org.apache.kafka.tools."
ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def group(server: Server, name: str) -> str:
    """A share group that begins at the beginning."""
    from_the_beginning(server, f"{name}-group")
    return f"{name}-group"


def from_the_beginning(server: Server, group: str) -> None:
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    with RawClient(server.address) as client:
        answer: Any = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


class Reader:
    """A member that is asked for what it gets."""

    def __init__(self, server: Server, group: str, topic: str, **settings: Any) -> None:
        self.consumer = ShareConsumer({"bootstrap.servers": server.address, "group.id": group, **settings})
        self.consumer.subscribe([topic])

    def poll(self, seconds: float = 0.5) -> list[Any]:
        messages = list(self.consumer.poll(seconds))
        assert all(each.error() is None for each in messages), [each.error() for each in messages]
        return messages

    def read(self, count: int, seconds: float = PATIENCE_SECONDS) -> list[Any]:
        """Until there were so many."""
        end = time.monotonic() + seconds
        got: list[Any] = []
        while len(got) < count and time.monotonic() < end:
            got += self.poll()
        return got


@pytest.fixture
def members(server: Server) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(*arguments: Any, **settings: Any) -> Reader:
        made.append(Reader(server, *arguments, **settings))
        return made[-1]

    yield make
    for each in made:
        each.consumer.close()


def values(messages: list[Any]) -> list[bytes]:
    return sorted(each.value() for each in messages)


def test_a_member_reads_everything_once(members: Any, helper: Any, name: str, group: str) -> None:
    helper.create_topic(name, partitions=3)
    sent = [b"%03d" % n for n in range(90)]
    for partition in range(3):
        helper.produce(name, [Message(each) for each in sent[partition::3]], partition=partition)
    one = members(group, name)
    got = one.read(90)
    assert values(got) == sent
    assert {each.delivery_count() for each in got} == {1}
    one.consumer.commit_sync()
    one.consumer.close()
    assert members(group, name).read(1, seconds=5) == []


def test_two_members_share_one_partition(members: Any, helper: Any, topic: str, group: str) -> None:
    first, second = members(group, topic), members(group, topic)
    first.poll(), second.poll()
    sent = [b"%04d" % n for n in range(400)]
    got: Counter[bytes] = Counter()
    by: list[int] = [0, 0]
    for begin in range(0, 400, 10):
        helper.produce(topic, [Message(each) for each in sent[begin : begin + 10]])
        for at, each in enumerate((first, second)):
            found = each.poll(0.05)
            by[at] += len(found)
            got.update(message.value() for message in found)
    end = time.monotonic() + PATIENCE_SECONDS
    while len(got) < 400 and time.monotonic() < end:
        for at, each in enumerate((first, second)):
            found = each.poll(0.2)
            by[at] += len(found)
            got.update(message.value() for message in found)
    assert sorted(got) == sent
    assert set(got.values()) == {1}
    assert min(by) > 0


def test_a_member_says_what_becomes_of_each_record(members: Any, helper: Any, topic: str, group: str) -> None:
    helper.produce(topic, [Message(b"%d" % n) for n in range(3)])
    one = members(group, topic, **{"share.acknowledgement.mode": "explicit"})
    for message, kind in zip(
        sorted(one.read(3), key=lambda each: each.offset()), (ACCEPT, RELEASE, REJECT), strict=True
    ):
        one.consumer.acknowledge(message, kind)
    assert set(one.consumer.commit_sync().values()) == {None}
    (again,) = one.read(1)
    assert (again.value(), again.delivery_count()) == (b"1", 2)
    one.consumer.acknowledge(again, ACCEPT)
    one.consumer.commit_sync()
    assert one.read(1, seconds=2) == []


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_goes_on_after_a_restart(server_of_my_own: Server, how: str) -> None:
    group = topic = f"restart-{how}"
    driver = ConfluentDriver(server_of_my_own.address)
    driver.create_topic(topic)
    from_the_beginning(server_of_my_own, group)
    driver.produce(topic, [Message(b"%d" % n) for n in range(20)])
    driver.close()
    one = Reader(server_of_my_own, group, topic, **{"share.acknowledgement.mode": "explicit"})
    got = one.read(20)
    for message in got:
        one.consumer.acknowledge(message, ACCEPT if message.offset() % 2 else RELEASE)
    one.consumer.commit_sync()
    server_of_my_own.restart(how)
    again: set[int] = set()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(again) < 10 and time.monotonic() < end:
        for message in one.poll():
            again.add(message.offset())
            one.consumer.acknowledge(message, ACCEPT)
    assert again == set(range(0, 20, 2))
    one.consumer.close()


# Java


def run(server: Server, name: str, *arguments: str) -> str:
    return run_tool(TOOLS + name, "--bootstrap-server", server.address, *arguments)[0]


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_console_share_consumer(server: Server, helper: Any, topic: str, group: str) -> None:
    helper.produce(topic, [Message(b"value %d" % n) for n in range(50)])
    command = ("consumer.ConsoleShareConsumer", "--topic", topic, "--group", group, "--timeout-ms", "30000")
    released = run(server, *command, "--max-messages", "5", "--release")
    assert len(released.splitlines()) == 5
    rejected = run(server, *command, "--max-messages", "10", "--reject").splitlines()
    assert len(rejected) == 10
    accepted = run(server, *command, "--max-messages", "40").splitlines()
    assert sorted(rejected + accepted) == sorted(f"value {n}" for n in range(50))


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_verifiable_share_consumer(server: Server, topic: str, name: str) -> None:
    run(server, "VerifiableProducer", "--topic", topic, "--max-messages", "5000")
    output = run(
        server,
        "VerifiableShareConsumer",
        *("--topic", topic, "--group-id", f"{name}-verified", "--max-messages", "5000"),
        *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
    )
    said = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    acknowledged = [each for each in said if each["name"] == "offsets_acknowledged"]
    assert all(each["success"] for each in acknowledged)
    offsets = Counter(at for each in acknowledged for row in each["partitions"] for at in row["offsets"])
    assert sorted(offsets) == list(range(5000))
    assert set(offsets.values()) == {1}


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_share_groups_command(server: Server, members: Any, helper: Any, topic: str, group: str) -> None:
    def command(*arguments: str) -> list[list[str]]:
        text = run(server, "consumer.group.ShareGroupCommand", *arguments)
        return [line.split() for line in text.splitlines() if line.strip()]

    helper.produce(topic, [Message(b"%d" % n) for n in range(10)])
    one = members(group, topic)
    assert len(one.read(10)) == 10
    one.consumer.commit_sync()
    assert [group] in command("--list")
    assert command("--describe", "--group", group)[1][1:] == [topic, "0", "0", "0"]
    assert command("--describe", "--group", group, "--members")[1][4:] == ["1", f"{topic}:0"]
    assert command("--describe", "--group", group, "--state")[1][-2:] == ["Stable", "1"]
    refused = run(server, "consumer.group.ShareGroupCommand", "--delete", "--group", group)
    assert "not empty" in refused.lower().replace("non_empty", "not empty").replace("nonempty", "not empty"), refused
    one.consumer.close()
    command("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert command("--describe", "--group", group)[1][1:] == [topic, "0", "0", "10"]
    assert command("--delete-offsets", "--group", group, "--topic", topic)[1] == [topic, "Successful"]
    command("--delete", "--group", group)
    assert [group] not in command("--list")
