"""Share groups (KIP-932): Java's console share consumer and confluent-kafka's, each record to one of the members."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from client_driver import TIMEOUT_S, Message
from client_servers import Server
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

pytestmark = pytest.mark.compat

COUNT = 200
PARTITIONS = 2


@pytest.fixture
def group(name: str, server: Server) -> str:
    """One that starts with the first record; by default it would start with the next one."""
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, f"share-{name}", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": server.address})
    (answer,) = admin.incremental_alter_configs([resource]).values()
    answer.result(TIMEOUT_S)
    return f"share-{name}"


@pytest.fixture
def filled(name: str, helper: Any) -> str:
    helper.create_topic(name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        helper.produce(name, [Message(b"%d-%d" % (partition, n)) for n in range(COUNT)], partition=partition)
    return name


def values() -> list[bytes]:
    return sorted(b"%d-%d" % (partition, n) for partition in range(PARTITIONS) for n in range(COUNT))


def test_members_share_the_records_of_a_topic(filled: str, group: str, server: Server) -> None:
    """Three members of two partitions, which no other kind of group would let work at the same time."""
    seen: list[tuple[int, bytes]] = []
    is_over = threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        consumer = ShareConsumer({"bootstrap.servers": server.address, "group.id": group})
        try:
            consumer.subscribe([filled])
            while not is_over.is_set():
                for message in consumer.poll(0.2):
                    assert message.error() is None, message.error()
                    seen.append((number, message.value()))
        except BaseException as error:
            failures.append(error)
        finally:
            consumer.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 3 * TIMEOUT_S
    while len(seen) < PARTITIONS * COUNT and not failures and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # for what would come twice
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(value for _, value in seen) == values(), Counter(number for number, _ in seen)


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_console_share_consumer(tool: Any, filled: str, group: str) -> None:
    def consume(count: int) -> list[bytes]:
        printed = tool(
            "consumer.ConsoleShareConsumer",
            *("--topic", filled, "--group", group, "--max-messages", str(count), "--timeout-ms", "30000"),
        )
        return [line.encode() for line in printed.splitlines() if line[:2] in ("0-", "1-")]

    first, second = consume(150), consume(2 * COUNT - 150)
    assert sorted(first + second) == values()


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_share_group_command(tool: Any, filled: str, group: str) -> None:
    tool(
        "consumer.ConsoleShareConsumer",
        *("--topic", filled, "--group", group, "--max-messages", str(2 * COUNT), "--timeout-ms", "30000"),
    )
    command = "consumer.group.ShareGroupCommand"
    assert group in tool(command, "--list").split()
    state = tool(command, "--describe", "--group", group, "--state").split()
    assert "Empty" in state
    offsets = [line.split() for line in tool(command, "--describe", "--group", group, "--offsets").splitlines()]
    lags = {int(row[2]): row[4] for row in offsets if row[:2] == [group, filled]}
    assert lags == dict.fromkeys(range(PARTITIONS), "0")
    assert "successful" in tool(command, "--delete", "--group", group)
    assert group not in tool(command, "--list").split()
