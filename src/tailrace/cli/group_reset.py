"""`tailrace group reset-offsets`: what a group would read from, and with --execute will."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tailrace.cli.consume import Start
from tailrace.cli.group_views import unknown_group
from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, known_topic
from tailrace.client.cluster import Cluster
from tailrace.client.errors import UNKNOWN_MEMBER_ID
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.offset_reset import Exactly, OffsetChange, Point, Shift, Target, plan_reset
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.ids import TopicPartition


def run(args: argparse.Namespace) -> int:
    target = target_of(args)
    with connected(args) as cluster:
        admin = GroupAdmin(cluster)
        kind = admin.kind_of(args.group)
        if kind is not None:
            check_is_empty(admin, args.group)
        committed = {each: at.offset for each, at in admin.offsets(args.group, kind).items()}
        if kind is None and args.topic is None and args.from_file is None:
            raise unknown_group(admin, args.group)
        partitions = chosen(args, cluster, committed, target)
        changes = plan_reset(cluster, committed, partitions, target)
        if args.execute:
            execute(admin, args.group, kind, changes)
    items = [change_item(args, each) for each in changes]
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import group_reset_text

    group_reset_text.show(items, args.group, is_new=kind is None, is_executed=args.execute)
    return 0


def target_of(args: argparse.Namespace) -> Target:
    if args.from_file is not None:
        return Exactly(offsets_in(args.from_file))
    if args.shift_by is not None:
        return Shift(args.shift_by)
    if args.by_duration is not None:
        return Point(max(time.time_ns() // 1_000_000 - args.by_duration, 0))
    start: Start = args.to
    return Point(start.point) if start.offset is None else Exactly(start.offset)


def check_is_empty(admin: GroupAdmin, group: str) -> None:
    described = admin.describe(group)
    if described.members:
        clients = sorted({f"{each.client_id} at {each.host}" for each in described.members})
        named = ", ".join(clients[:3]) + (f" and {len(clients) - 3} more" if len(clients) > 3 else "")
        raise CommandError(f"group {group} is {described.state}: {named} would read on as before", "stop them first")


def chosen(
    args: argparse.Namespace, cluster: Cluster, committed: Iterable[TopicPartition], target: Target
) -> list[TopicPartition]:
    """The partitions that are named; else those of the file; else all that have an offset."""
    if args.topic is None:
        if isinstance(target, Exactly) and not isinstance(target.offsets, int):
            return [each for each in target.offsets if check_partition(cluster, each)]
        found = list(committed)
        if not found:
            raise CommandError(
                f"group {args.group} has committed no offsets", "name the topics that it is to read with --topic"
            )
        return found
    partitions = []
    for name, numbers in args.topic:
        topic = known_topic(cluster, name)
        named = [TopicPartition(name, number) for number in numbers or topic.partitions]
        partitions += [each for each in named if check_partition(cluster, each)]
        if isinstance(target, Exactly) and not isinstance(target.offsets, int) and not numbers:
            partitions = [each for each in partitions if each in target.offsets]
    return partitions


def check_partition(cluster: Cluster, partition: TopicPartition) -> bool:
    topic = known_topic(cluster, partition.topic)
    if partition.partition not in topic.partitions:
        there = f"it has 0 to {len(topic.partitions) - 1}"
        raise CommandError(f"{topic.name} has no partition {partition.partition}", there)
    return True


def execute(admin: GroupAdmin, group: str, kind: str | None, changes: list[OffsetChange]) -> None:
    try:
        admin.alter_offsets(group, {each.partition: each.after for each in changes}, kind)
    except TailraceError as error:
        if error.code != UNKNOWN_MEMBER_ID:
            raise
        raise CommandError(f"a member has joined group {group} meanwhile", "stop its consumers first") from error


def change_item(args: argparse.Namespace, change: OffsetChange) -> Item:
    return {
        "type": "reset",
        "group": args.group,
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "before": change.before,
        "offset": change.after,
        "asked": change.asked,
        "executed": args.execute,
    }


# Files


def offsets_in(name: str) -> dict[TopicPartition, int]:
    """CSV of topic, partition and offset, or JSON lines that have these keys; other lines of JSON are passed over."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        if isinstance(cause, UnicodeDecodeError):
            raise CommandError(f"{name} is no text", "it has lines like orders,0,1500") from cause
        raise StorageError(f"read {name}", cause) from cause
    offsets = dict(lines_of(name, text))
    if not offsets:
        raise CommandError(f"{name} has no offsets", "it has lines like orders,0,1500")
    return offsets


def lines_of(name: str, text: str) -> Iterator[tuple[TopicPartition, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith("{"):
                item = json.loads(line)
                if item.get("offset") is None:
                    continue
                topic, partition, offset = item["topic"], item["partition"], item["offset"]
            else:
                topic, partition, offset = (part.strip().strip('"') for part in line.split(","))
            found = TopicPartition(str(topic), int(partition)), int(offset)
        except (ValueError, KeyError, TypeError, AttributeError):
            found = TopicPartition("", -1), -1
        if not found[0].topic or found[0].partition < 0 or not 0 <= found[1] < 1 << 63:
            raise CommandError(
                f"line {number} of {name} has no topic, partition and offset", "write lines like orders,0,1500"
            )
        yield found
