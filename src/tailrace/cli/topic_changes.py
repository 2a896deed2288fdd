"""`tailrace topic create`, `alter` and `delete`. Each says what was done: an item of type `done` for programs."""

from __future__ import annotations

import argparse
import sys

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import confirmed, connected, known_topic, unknown_topic
from tailrace.cli.sizes import counted
from tailrace.client.admin import BROKER_DEFAULT, TO_HIGH_WATERMARK, Admin
from tailrace.client.cluster import Cluster, Topic
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition


def run_create(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = Admin(cluster)
        was_there = False
        try:
            admin.create_topic(
                args.topic,
                partitions=args.partitions or BROKER_DEFAULT,
                replication_factor=args.replication_factor or BROKER_DEFAULT,
                configs=dict(args.config),
                validate_only=args.dry_run,
            )
        except TailraceError as error:
            if error.code != TOPIC_ALREADY_EXISTS or not args.if_not_exists:
                raise
            was_there = True
        if args.dry_run and not was_there:
            say(args, {"type": "done", "action": "checked", "topic": args.topic}, f"{args.topic} could be created")
            return 0
        topic = admin.topic(args.topic)
    replicas = max((len(each.replicas) for each in topic.partitions.values()), default=0)
    item: Item = {
        "type": "done",
        "action": "found" if was_there else "created",
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": replicas,
    }
    size = f"{counted(len(topic.partitions), 'partition')} × {counted(replicas, 'replica')}"
    say(args, item, f"{topic.name} {'was there already' if was_there else 'created'}: {size}")
    return 0


def run_delete(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = Admin(cluster)
        there: list[Topic] = []
        for name in dict.fromkeys(args.topics):
            try:
                there.append(cluster.topic(name))
            except TailraceError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not args.if_exists:
                    raise unknown_topic(cluster, name, "to ignore it, pass --if-exists") from error
        if there:
            names = ", ".join(topic.name for topic in there)
            confirmed(f"Delete {names} with all records?", is_sure=args.yes)
        for topic in there:
            admin.delete_topic(topic.name)
            say(args, {"type": "done", "action": "deleted", "topic": topic.name}, f"{topic.name} deleted")
    return 0


def run_alter(args: argparse.Namespace) -> int:
    if not (args.partitions or args.set or args.unset or args.delete_records_before is not None):
        raise CommandError("nothing to change is named", "give --partitions, --set, --unset or --delete-records-before")
    with connected(args) as cluster:
        topic = known_topic(cluster, args.topic)
        if args.set or args.unset:
            change_configs(args, cluster, topic)
        if args.partitions:
            Admin(cluster).add_partitions(topic.name, args.partitions)
            item = {"type": "done", "action": "partitions", "topic": topic.name, "partitions": args.partitions}
            say(args, item, f"{topic.name} has {counted(args.partitions, 'partition')}")
        if args.delete_records_before is not None:
            delete_records(args, cluster, topic)
    return 0


def change_configs(args: argparse.Namespace, cluster: Cluster, topic: Topic) -> None:
    values = dict(args.set)
    ConfigAdmin(cluster).alter(Resource.topic(topic.name), values=values, unset=args.unset)
    item: Item = {"type": "done", "action": "settings", "topic": topic.name, "set": values, "unset": args.unset}
    changes = [*(f"{key}={value}" for key, value in values.items()), *(f"{key} by default" for key in args.unset)]
    say(args, item, f"{topic.name} has {', '.join(changes)}")


def delete_records(args: argparse.Namespace, cluster: Cluster, topic: Topic) -> None:
    numbers = args.partition if args.partition is not None else list(topic.partitions)
    before = {TopicPartition(topic.name, number): args.delete_records_before for number in numbers}
    up_to = (
        "all records"
        if args.delete_records_before == TO_HIGH_WATERMARK
        else (f"records below offset {args.delete_records_before:,}")
    )
    confirmed(f"Delete {up_to} of {counted(len(before), 'partition')} of {topic.name}?", is_sure=args.yes)
    for partition, start in Admin(cluster).delete_records(before).items():
        item: Item = {
            "type": "done",
            "action": "records deleted",
            "topic": topic.name,
            "partition": partition.partition,
            "log_start": start,
        }
        say(args, item, f"{partition} now begins at offset {start:,}")


def say(args: argparse.Namespace, item: Item, words: str) -> None:
    """For a person what was done, for a program the item."""
    if args.json or not sys.stdout.isatty():
        print_items([item], as_json=args.json)
        return
    from tailrace.cli.tables import Screen

    Screen().done(words)
