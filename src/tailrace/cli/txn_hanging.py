"""`tailrace txn find-hanging` and `abort`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from tailrace.cli.lines import Item
from tailrace.cli.output import CommandError
from tailrace.cli.remote import confirmed, connected, known_topic
from tailrace.cli.topic_changes import say
from tailrace.cli.txn_run import described_item, known_id, named_partitions, producer_item, show
from tailrace.client.cluster import Cluster
from tailrace.client.transaction_admin import PartitionProducer, TransactionAdmin
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop

PARTITIONS_AT_ONCE = 200


def run_find(args: argparse.Namespace) -> int:
    found: list[PartitionProducer] = []
    with connected(args) as cluster:
        admin = TransactionAdmin(cluster)
        partitions = searched(args, cluster)
        with progress(len(partitions)) as advance:
            for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
                some = partitions[at : at + PARTITIONS_AT_ONCE]
                found += admin.find_hanging(some, longer_than_ms=args.older_than)
                advance(len(some))
    items = [{**producer_item(each), "type": "hanging", "abort": abort_command(each)} for each in found]
    return show(args, items, "show_hanging")


def searched(args: argparse.Namespace, cluster: Cluster) -> list[TopicPartition]:
    """Those that are named, else all; partitions without a leader cannot be asked."""
    if args.topic is not None:
        return list(dict.fromkeys(each for named in args.topic for each in named_partitions(cluster, named)))
    return [
        TopicPartition(topic.name, each.number)
        for topic in cluster.topics()
        for each in topic.partitions.values()
        if each.leader >= 0
    ]


class Advance(Protocol):
    def __call__(self, count: int, /) -> None: ...


@contextmanager
def progress(total: int) -> Iterator[Advance]:
    """A bar on standard error where that is a terminal, and there is more than one step to it."""
    if total <= PARTITIONS_AT_ONCE or not sys.stderr.isatty():
        yield noop
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("partitions", total=total)
        yield lambda count: bar.advance(task, count)


def abort_command(producer: PartitionProducer) -> str:
    partition = producer.partition
    return (
        f"tailrace txn abort --topic {shlex.quote(partition.topic)} --partition {partition.partition}"
        f" --start-offset {producer.open_since}"
    )


def run_abort(args: argparse.Namespace) -> int:
    named = [each is not None for each in (args.topic, args.partition, args.start_offset)]
    if args.id is not None and any(named):
        raise CommandError("both an id and a place are named", "give an ID, or --topic, --partition and --start-offset")
    if args.id is None and not all(named):
        raise CommandError(
            "which transaction?", "give an ID, or all of --topic, --partition and --start-offset for one that hangs"
        )
    with connected(args) as cluster:
        if args.id is not None:
            return abort_id(args, cluster)
        return abort_hanging(args, cluster)


def abort_id(args: argparse.Namespace, cluster: Cluster) -> int:
    admin = TransactionAdmin(cluster)
    before = known_id(admin, args.id)
    what = "Abort the open transaction of" if before.began_ms is not None else "Fence"
    confirmed(f"{what} {args.id}, so that its producer fails?", is_sure=args.yes)
    admin.fence(args.id)
    after = described_item(known_id(admin, args.id))
    item: Item = {**after, "type": "done", "action": "aborted" if before.began_ms is not None else "fenced"}
    done = "its transaction is aborted" if before.began_ms is not None else "no transaction was open"
    say(args, item, f"{args.id}: {done}, its producer is fenced at epoch {after['epoch']}")
    return 0


def abort_hanging(args: argparse.Namespace, cluster: Cluster) -> int:
    admin = TransactionAdmin(cluster)
    known_topic(cluster, args.topic)
    (partition,) = named_partitions(cluster, (args.topic, (args.partition,)))
    still_open = {each.open_since: each for each in admin.producers([partition]) if each.open_since is not None}
    producer = still_open.get(args.start_offset)
    if producer is None:
        offsets = ", ".join(str(each) for each in sorted(still_open)) or "none"
        raise CommandError(
            f"{partition} has no open transaction that begins at offset {args.start_offset}",
            f"those that are open begin at: {offsets}; see tailrace txn producers {args.topic} --open",
        )
    refuse_if_known(admin, producer)
    confirmed(f"Abort the transaction of producer {producer.producer_id} on {partition}?", is_sure=args.yes)
    admin.abort_hanging(producer)
    item: Item = {**producer_item(producer), "type": "done", "action": "aborted"}
    say(args, item, f"{partition}: the transaction from offset {args.start_offset:,} on is aborted")
    return 0


def refuse_if_known(admin: TransactionAdmin, producer: PartitionProducer) -> None:
    """Its coordinator ends it everywhere, and so it must."""
    for listed in admin.transactions(producer_ids=[producer.producer_id]):
        if producer.partition in admin.describe(listed.transactional_id).partitions:
            raise CommandError(
                f"this transaction does not hang: it is that of {listed.transactional_id}, which is {listed.state}",
                f"let its coordinator abort it: tailrace txn abort {shlex.quote(listed.transactional_id)}",
            )
