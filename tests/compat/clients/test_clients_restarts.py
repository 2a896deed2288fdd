"""The broker goes down and comes up again on the same data: groups and transactions go on exactly where they were."""

from __future__ import annotations

import gc
import importlib
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from client_driver import DRIVERS, Message
from client_servers import Server
from confluent_driver import ConfluentDriver
from group_members import Kind, Member, Members

pytestmark = [pytest.mark.compat, pytest.mark.long]

KINDS = (
    Kind("confluent-kafka"),
    Kind("confluent-kafka", {"group.protocol": "consumer"}),
    Kind("kafka-python"),
    Kind("aiokafka"),
    Kind("kafkajs"),
)
PARTITIONS = 2
COUNT = 30
TIME_FOR_COMMITS_S = 1


@pytest.fixture
def drivers(server_of_my_own: Server, caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    for library in ("kafka", "aiokafka"):
        caplog.set_level(logging.CRITICAL, library)  # a record of a failed connection would keep its socket
    made = [
        getattr(importlib.import_module(module), kind)(server_of_my_own.address) for module, kind in DRIVERS.values()
    ]
    yield made
    for driver in made:
        driver.close()
    del driver
    made.clear()
    gc.collect()  # kafka-python leaves sockets open, which is to be said of this test if of any


def fill(helper: ConfluentDriver, topic: str, already: int) -> dict[int, int]:
    """`COUNT` more records in each partition; how many there are then."""
    for partition in range(PARTITIONS):
        helper.produce(topic, [Message(b"%d" % n) for n in range(already, already + COUNT)], partition=partition)
    return dict.fromkeys(range(PARTITIONS), already + COUNT)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_groups_resume_where_they_were(server_of_my_own: Server, how: str) -> None:
    """Of each kind two groups: one whose members stay, and one whose members have gone and come again."""
    address = server_of_my_own.address
    helper = ConfluentDriver(address)
    with ExitStack() as stack:
        stays: list[tuple[Members, list[Member]]] = []
        comes: list[tuple[Members, Kind]] = []
        for n, kind in enumerate(KINDS):
            topic = f"topic-{n}"
            helper.create_topic(topic, PARTITIONS)
            counts = fill(helper, topic, 0)
            staying = stack.enter_context(Members(address, f"stays-{n}", topic))
            stays.append((staying, [staying.join(kind)]))
            coming = stack.enter_context(Members(address, f"comes-{n}", topic))
            first = coming.join(kind)
            coming.wait_until_handled(counts, [first])
            first.leave()
            comes.append((coming, kind))
        for members, present in stays:
            members.wait_until_handled(counts, present)
        time.sleep(TIME_FOR_COMMITS_S)  # a member tells of a record before it commits

        server_of_my_own.restart(how)
        for n in range(len(KINDS)):
            counts = fill(helper, f"topic-{n}", COUNT)
        present_in = [*stays, *((members, [members.join(kind)]) for members, kind in comes)]
        for members, present in present_in:
            members.wait_until_handled(counts, present)
        for members, present in present_in:
            members.leave(present)
            assert members.faults(counts) == []
    for n in range(len(KINDS)):
        for group in (f"stays-{n}", f"comes-{n}"):
            assert helper.committed(group, f"topic-{n}") == counts


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_open_transactions_go_on(server_of_my_own: Server, drivers: list[Any], how: str) -> None:
    """One that is open when the broker goes is ended after: committed, or aborted, with its offsets."""
    helper = drivers[0]
    writers = []
    for driver in drivers:
        topic = f"topic-of-{driver.name}"
        helper.create_topic(topic)
        for end in ("commit", "abort"):
            writer = driver.transactional(f"{end}-of-{driver.name}")
            writer.begin()
            writer.produce(topic, [Message(end.encode())])
            writer.send_offsets(f"{end}-of-{driver.name}", topic, {0: 7})
            writers.append((writer, end))
    server_of_my_own.restart(how)
    for driver in drivers:
        assert helper.read_to_end(f"topic-of-{driver.name}", committed=True) == []
    for writer, end in writers:
        getattr(writer, end)()
        writer.close()
    for driver in drivers:
        topic = f"topic-of-{driver.name}"
        helper.produce(topic, [Message(b"last")])
        assert helper.read_until(topic, b"last") == [b"commit", b"last"]
        assert helper.committed(f"commit-of-{driver.name}", topic) == {0: 7}
        assert helper.committed(f"abort-of-{driver.name}", topic) == {}
