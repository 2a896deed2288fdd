"""`tailrace cluster describe`, `quorum`, `dirs` and `features`: what is asked, as items with keys that stay."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, known_topic
from tailrace.client.cluster_admin import ClusterAdmin, LogDir, QuorumDescription, QuorumReplica
from tailrace.model.ids import TopicId, TopicPartition


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


def run_quorum(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        quorum = ClusterAdmin(cluster).quorum()
    items: list[Item] = [
        {
            "type": "quorum",
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": len(quorum.voters),
            "observers": len(quorum.observers),
        }
    ]
    end = max((each.log_end_offset for each in (*quorum.voters, *quorum.observers)), default=0)
    items += [replica_item(quorum, each, "voter", end) for each in quorum.voters]
    items += [replica_item(quorum, each, "observer", end) for each in quorum.observers]
    return show(args, items, "show_quorum")


def replica_item(quorum: QuorumDescription, replica: QuorumReplica, role: str, end: int) -> Item:
    now_ms = time.time_ns() // 1_000_000
    is_known = replica.last_caught_up_ms >= 0
    return {
        "type": "replica",
        "node": replica.node_id,
        "role": "leader" if replica.node_id == quorum.leader_id else role,
        "log_end": replica.log_end_offset,
        "lag": end - replica.log_end_offset,
        "caught_up_ms_ago": max(now_ms - replica.last_caught_up_ms, 0) if is_known else None,
        "directory_id": str(TopicId(replica.directory_id)) if any(replica.directory_id) else None,
        "endpoints": list(quorum.endpoints.get(replica.node_id, ())),
    }


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


def run_features(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        features = ClusterAdmin(cluster).features()
    items: list[Item] = [
        {
            "type": "feature",
            "feature": each.name,
            "level": each.level,
            "supported_from": each.supported[0],
            "supported_to": each.supported[1],
        }
        for each in features
    ]
    return show(args, items, "show_features")


def show(args: argparse.Namespace, items: Sequence[Item], picture: str) -> int:
    if args.json or not sys.stdout.isatty():
        print_items(list(items), as_json=args.json)
        return 0
    from tailrace.cli import cluster_text

    draw: Callable[[Sequence[Item]], None] = getattr(cluster_text, picture)
    draw(items)
    return 0
