"""`tailrace txn list`, `describe` and `producers`: what is asked, as items with keys that stay."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, known_topic, near
from tailrace.client.cluster import Cluster
from tailrace.client.errors import TRANSACTIONAL_ID_NOT_FOUND
from tailrace.client.transaction_admin import PartitionProducer, TransactionAdmin, TransactionDescription
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def run_list(args: argparse.Namespace) -> int:
    states = [wanted_state(name) for name in args.state]
    with connected(args) as cluster:
        found = TransactionAdmin(cluster).transactions(
            states=states,
            longer_than_ms=-1 if args.longer_than is None else args.longer_than,
            pattern=args.match,
        )
    items: list[Item] = [
        {
            "type": "transaction",
            "id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    return show(args, items, "show_list")


def wanted_state(name: str) -> str:
    folded = {state.lower(): state for state in STATES}
    if name.lower() not in folded:
        raise CommandError(f"no transaction is in a state {name}", f"the states are {', '.join(STATES)}")
    return folded[name.lower()]


def run_describe(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = TransactionAdmin(cluster)
        items = [described_item(known_id(admin, each)) for each in dict.fromkeys(args.ids)]
    return show(args, items, "show_descriptions")


def known_id(admin: TransactionAdmin, name: str) -> TransactionDescription:
    """CommandError with ids that are like it where there is none."""
    try:
        return admin.describe(name)
    except TailraceError as error:
        if error.code != TRANSACTIONAL_ID_NOT_FOUND:
            raise
        names = [each.transactional_id for each in admin.transactions()]
        hint = f"{near(name, names, 'transactional ids')}see which there are: tailrace txn list"
        raise CommandError(f"there is no transactional id {name}", hint) from error


def described_item(described: TransactionDescription) -> Item:
    now_ms = time.time_ns() // 1_000_000
    open_ms = None if described.began_ms is None else max(now_ms - described.began_ms, 0)
    return {
        "type": "transaction",
        "id": described.transactional_id,
        "state": described.state,
        "producer_id": described.producer_id,
        "epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "began_ms": described.began_ms,
        "open_ms": open_ms,
        "coordinator": described.coordinator,
        "partitions": [str(each) for each in described.partitions],
    }


def run_producers(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        partitions = named_partitions(cluster, args.topic)
        found = TransactionAdmin(cluster).producers(partitions)
    items = [producer_item(each) for each in found if each.open_since is not None or not args.open]
    return show(args, items, "show_producers")


def named_partitions(cluster: Cluster, named: tuple[str, Sequence[int]]) -> list[TopicPartition]:
    name, numbers = named
    topic = known_topic(cluster, name)
    for number in numbers:
        if number not in topic.partitions:
            raise CommandError(f"{name} has no partition {number}", f"it has 0 to {len(topic.partitions) - 1}")
    return [TopicPartition(name, number) for number in numbers or topic.partitions]


def producer_item(producer: PartitionProducer) -> Item:
    return {
        "type": "producer",
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "producer_id": producer.producer_id,
        "epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence if producer.last_sequence >= 0 else None,
        "last_timestamp": producer.last_timestamp_ms if producer.last_timestamp_ms >= 0 else None,
        "coordinator_epoch": producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
        "start_offset": producer.open_since,
    }


def show(args: argparse.Namespace, items: Sequence[Item], picture: str) -> int:
    if args.json or not sys.stdout.isatty():
        print_items(list(items), as_json=args.json)
        return 0
    from tailrace.cli import txn_text

    draw: Callable[[Sequence[Item]], None] = getattr(txn_text, picture)
    draw(items)
    return 0
