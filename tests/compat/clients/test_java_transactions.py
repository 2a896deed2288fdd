"""Kafka's tools for transactions, on the Java client: shown, found where they hang, aborted; and copies are exact."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from client_driver import FencedError, Message
from client_servers import Server

from support.clients.raw_client import RawClient
from support.kafka.tools import TOOLS, run_tool
from support.records.raw_records import batch, record
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

VERIFICATION = "transaction.partition.verification.enable"
IS_TRANSACTIONAL = 0x10
LONG_AGO_MS = 1_700_000_000_000


def rows(output: str) -> list[dict[str, str]]:
    head, *lines = [line for line in output.splitlines() if "\t" in line]
    names = [each.strip() for each in head.split("\t")]
    return [dict(zip(names, (each.strip() for each in line.split("\t")), strict=True)) for line in lines]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def transactions(tool: Any) -> Callable[..., list[dict[str, str]]]:
    return lambda *arguments: rows(tool("TransactionsCommand", *arguments))


def test_an_open_transaction_is_shown_and_terminated(transactions: Any, tool: Any, name: str, helper: Any) -> None:
    helper.create_topic(name, partitions=2)
    helper.produce(name, [Message(b"before")])
    writer = helper.transactional(f"id-{name}")
    writer.begin()
    for partition in (0, 1):
        writer.produce(name, [Message(b"open")], partition)
    ours = {row["TransactionalId"]: row for row in transactions("list")}[f"id-{name}"]
    assert ours["TransactionState"] == "Ongoing"
    assert transactions("list", "--transactional-id-pattern", f"id-{name[:-1]}.*") == [ours]
    assert ours not in transactions("list", "--duration-filter", "3600000")
    (described,) = transactions("describe", "--transactional-id", f"id-{name}")
    assert described["TransactionState"] == "Ongoing"
    assert described["ProducerId"] == ours["ProducerId"]
    assert described["TransactionTimeoutMs"] == "60000"
    assert set(described["TopicPartitions"].split(",")) == {f"{name}-0", f"{name}-1"}
    (producer,) = [
        row
        for row in transactions("describe-producers", "--topic", name, "--partition", "0")
        if row["CurrentTransactionStartOffset"] != "None"
    ]
    assert producer["ProducerId"] == ours["ProducerId"]
    assert producer["CurrentTransactionStartOffset"] == "1"
    assert transactions("find-hanging", "--topic", name) == []
    tool("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", f"id-{name}")
    eventually(lambda: helper.read_to_end(name, committed=True) == [b"before"])
    with pytest.raises(FencedError):
        writer.commit()
    (ended,) = transactions("describe", "--transactional-id", f"id-{name}")
    assert ended["TransactionState"] == "Empty"  # of the producer in whose name it was ended


@pytest.fixture
def without_verification(tool: Any) -> Iterator[None]:
    """As brokers were before they asked the coordinator about every transaction, when one could hang."""
    where = ("kafka.admin.ConfigCommand", "--entity-type", "brokers", "--entity-default", "--alter")
    tool(*where, "--add-config", f"{VERIFICATION}=false")
    yield
    tool(*where, "--delete-config", VERIFICATION)


@pytest.mark.usefixtures("without_verification")
def test_a_hanging_transaction_is_found_and_aborted(
    transactions: Any, tool: Any, topic: str, helper: Any, server: Server
) -> None:
    with RawClient(server.address) as client:
        given: Any = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        data, _ = batch(
            record(0, b"hangs"),
            1,
            attributes=IS_TRANSACTIONAL,
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            base_timestamp=LONG_AGO_MS,
            max_timestamp=LONG_AGO_MS,
        )
        topics = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])]
        asked = ProduceRequest(transactional_id=f"id-{topic}", acks=-1, timeout_ms=5000, topic_data=topics)
        answer: Any = client.ask(asked, 11)
        assert answer.responses[0].partition_responses[0].error_code == 0
    helper.produce(topic, [Message(b"after")])
    assert helper.read_to_end(topic, committed=True) == []
    (found,) = transactions("find-hanging", "--topic", topic)
    assert (found["Partition"], found["ProducerId"], found["StartOffset"]) == ("0", str(given.producer_id), "0")
    tool("TransactionsCommand", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    eventually(lambda: helper.read_to_end(topic, committed=True) == [b"after"])
    assert transactions("find-hanging", "--topic", topic) == []


@pytest.mark.parametrize("mode", [(), ("--group-mode",), ("--group-mode", "--use-group-metadata")], ids="-".join)
def test_copiers_with_random_aborts_are_exact(name: str, mode: tuple[str, ...], helper: Any, server: Server) -> None:
    """Two copiers: what they wrote and committed is what there was, though they gave up many transactions."""
    count, partitions = 600, 2
    source, target = f"source-{name}", f"target-{name}"
    for each in (source, target):
        helper.create_topic(each, partitions=partitions)
    for partition in range(partitions):
        messages = [Message(b"%d-%d" % (partition, n), b"%d" % n) for n in range(count)]
        helper.produce(source, messages, partition=partition)

    def copy(partition: int) -> list[dict[str, Any]]:
        """What it says after every transaction."""
        output, _ = run_tool(
            f"{TOOLS}TransactionalMessageCopier",
            *("--broker-list", server.address, "--input-topic", source, "--output-topic", target),
            *("--input-partition", str(partition), "--consumer-group", f"g-{name}", "--transaction-size", "20"),
            *("--transactional-id", f"id-{name}-{partition}", "--enable-random-aborts", *mode),
        )
        return [json.loads(line) for line in output.splitlines()]

    with ThreadPoolExecutor(partitions) as threads:
        said = list(threads.map(copy, range(partitions)))
    assert [lines[-1]["stage"] for lines in said] == ["ShutdownComplete"] * partitions
    assert [lines[-1]["remaining"] for lines in said] == [0] * partitions
    # An aborted one leaves as much to do as there was before. Its records may never have been sent.
    aborted = sum(one["remaining"] == next_one["remaining"] for lines in said for one, next_one in pairwise(lines))
    assert aborted > 0, "nothing was aborted"
    assert helper.committed(f"g-{name}", source) == dict.fromkeys(range(partitions), count)
    copied = [
        value for part in range(partitions) for value in helper.read_to_end(target, committed=True, partition=part)
    ]
    assert sorted(copied) == sorted(b"%d-%d" % (part, n) for part in range(partitions) for n in range(count))
