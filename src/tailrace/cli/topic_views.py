"""`tailrace topic list` and `describe`: what is asked of the cluster, as items with keys that stay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from tailrace.cli.lines import Item, print_items
from tailrace.cli.remote import connected, known_topic
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster, Partition, Topic
from tailrace.client.cluster_admin import ClusterAdmin
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.offsets import EARLIEST, LATEST
from tailrace.model.ids import TopicId, TopicPartition


def run_list(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        topics = Admin(cluster).topics(with_internal=args.internal)
        amounts = Amounts(cluster, topics) if args.sizes else None
        items = [topic_item(topic, amounts) for topic in topics]
    if args.sizes:
        items.sort(key=lambda item: (-(item["bytes"] or 0), item["topic"]))
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import topic_text

    topic_text.show_list(items)
    return 0


def run_describe(args: argparse.Namespace) -> int:
    items: list[Item] = []
    with connected(args) as cluster:
        topics = [known_topic(cluster, name) for name in dict.fromkeys(args.topics)]
        amounts = Amounts(cluster, topics)
        for topic in topics:
            entries = ConfigAdmin(cluster).describe(Resource.topic(topic.name))
            configs = {each.name: each.value for each in entries if each.is_override}
            items.append({**topic_item(topic, amounts), "configs": configs})
            items += [partition_item(topic, each, amounts) for each in topic.partitions.values()]
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import topic_text

    topic_text.show_description(items)
    return 0


class Amounts:
    """Offsets of the partitions that have a leader, and the bytes that each leader has of them."""

    def __init__(self, cluster: Cluster, topics: Iterable[Topic]) -> None:
        leaders = {
            TopicPartition(topic.name, each.number): each.leader
            for topic in topics
            for each in topic.partitions.values()
            if each.leader >= 0
        }
        admin = Admin(cluster)
        self.earliest: Mapping[TopicPartition, int] = admin.offsets_of(leaders, EARLIEST)
        self.latest: Mapping[TopicPartition, int] = admin.offsets_of(leaders, LATEST)
        self.bytes: dict[TopicPartition, int] = {}
        for directory in ClusterAdmin(cluster).log_dirs(sorted(set(leaders.values())), leaders):
            for each in directory.partitions:
                if leaders.get(each.partition) == directory.node_id and not each.is_future:
                    self.bytes[each.partition] = each.size_bytes

    def records(self, partition: TopicPartition) -> int | None:
        if partition not in self.latest:
            return None
        return self.latest[partition] - self.earliest[partition]


def topic_item(topic: Topic, amounts: Amounts | None) -> Item:
    partitions = list(topic.partitions.values())
    keys = [TopicPartition(topic.name, each.number) for each in partitions]
    return {
        "type": "topic",
        "topic": topic.name,
        "id": str(TopicId(topic.id)),
        "partitions": len(partitions),
        "replication_factor": max((len(each.replicas) for each in partitions), default=0),
        "internal": topic.is_internal,
        "without_leader": sum(each.leader < 0 for each in partitions),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
        "records": None if amounts is None else sum(amounts.records(each) or 0 for each in keys),
        "bytes": None if amounts is None else sum(amounts.bytes.get(each, 0) for each in keys),
    }


def partition_item(topic: Topic, each: Partition, amounts: Amounts) -> Item:
    key = TopicPartition(topic.name, each.number)
    return {
        "type": "partition",
        "topic": topic.name,
        "partition": each.number,
        "leader": each.leader if each.leader >= 0 else None,
        "leader_epoch": each.leader_epoch if each.leader_epoch >= 0 else None,
        "replicas": list(each.replicas),
        "in_sync": list(each.isr),
        "offline": list(each.offline),
        "earliest": amounts.earliest.get(key),
        "latest": amounts.latest.get(key),
        "records": amounts.records(key),
        "bytes": amounts.bytes.get(key),
    }
