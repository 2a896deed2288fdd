"""`tailrace cluster describe`, `dirs` and `unregister`: what is asked, as items with keys that stay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import confirmed, connected, connected_to_controllers, known_topic
from tailrace.cli.sizes import counted
from tailrace.cli.topic_changes import say
from tailrace.client.cluster import Cluster
from tailrace.client.cluster_admin import ClusterAdmin, LogDir, unregister_broker
from tailrace.model.ids import TopicPartition


def run_describe(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        described = ClusterAdmin(cluster).describe()
        topics = cluster.topics()
    partitions = [each for topic in topics for each in topic.partitions.values()]
    items: list[Item] = [
        {
            "type": "cluster",
            "cluster_id": described.cluster_id,
            "brokers": len(described.brokers),
            "topics": len(topics),
            "partitions": len(partitions),
            "without_leader": sum(each.leader < 0 for each in partitions),
            "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
        }
    ]
    items += [
        {
            "type": "broker",
            "broker": broker.node_id,
            "address": str(broker.address),
            "rack": broker.rack,
            "fenced": broker.is_fenced,
            "leads": sum(each.leader == broker.node_id for each in partitions),
            "replicas": sum(broker.node_id in each.replicas for each in partitions),
        }
        for broker in described.brokers
    ]
    return show(args, items, "show_cluster")


def run_dirs(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = ClusterAdmin(cluster)
        there = [broker.node_id for broker in admin.describe().brokers]
        for node_id in args.broker or ():
            if node_id not in there:
                raise CommandError(f"there is no broker {node_id}", f"the brokers are {', '.join(map(str, there))}")
        partitions = None
        if args.topic is not None:
            numbers = known_topic(cluster, args.topic).partitions
            partitions = [TopicPartition(args.topic, number) for number in numbers]
        directories = admin.log_dirs(args.broker or there, partitions)
    items = [item for directory in directories for item in directory_items(directory)]
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import cluster_text

    cluster_text.show_dirs(items, args.limit)
    return 0


def directory_items(directory: LogDir) -> list[Item]:
    items: list[Item] = [
        {
            "type": "directory",
            "broker": directory.node_id,
            "path": directory.path,
            "error": directory.error.name if directory.error is not None else None,
            "cordoned": directory.is_cordoned,
            "partitions": len(directory.partitions),
            "log_bytes": sum(each.size_bytes for each in directory.partitions),
            "free_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
            "total_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
        }
    ]
    items += [
        {
            "type": "partition",
            "broker": directory.node_id,
            "directory": directory.path,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "bytes": each.size_bytes,
            "lag": each.offset_lag,
            "moving_here": each.is_future,
        }
        for each in directory.partitions
    ]
    return items


def run_unregister(args: argparse.Namespace) -> int:
    with connected_to_controllers(args) as caller:
        question = f"Unregister broker {args.broker}?"
        if isinstance(caller, Cluster):  # controllers do not describe brokers and topics
            check_stopped(caller, args.broker)
            partitions = [each for topic in caller.topics() for each in topic.partitions.values()]
            only = sum(each.replicas == (args.broker,) for each in partitions)
            if only:
                question += f" It has the only replica of {counted(only, 'partition')}."
        confirmed(question, is_sure=args.yes)
        unregister_broker(caller, args.broker)
    say(args, {"type": "done", "action": "unregistered", "broker": args.broker}, f"broker {args.broker} unregistered")
    return 0


def check_stopped(cluster: Cluster, node_id: int) -> None:
    running = [each.node_id for each in ClusterAdmin(cluster).describe().brokers if not each.is_fenced]
    if node_id in running:
        raise CommandError(
            f"broker {node_id} is running and would register again",
            "stop it first; a broker whose process was killed is fenced after broker.session.timeout.ms",
        )


def show(args: argparse.Namespace, items: Sequence[Item], picture: str) -> int:
    if args.json or not sys.stdout.isatty():
        print_items(list(items), as_json=args.json)
        return 0
    from tailrace.cli import cluster_text

    draw: Callable[[Sequence[Item]], None] = getattr(cluster_text, picture)
    draw(items)
    return 0
