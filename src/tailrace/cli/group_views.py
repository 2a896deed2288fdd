"""`tailrace group list` and `describe`: what is asked of the cluster, as items with keys that stay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, near
from tailrace.client.errors import GROUP_ID_NOT_FOUND
from tailrace.client.group_admin import GroupAdmin, GroupListing, PartitionLag
from tailrace.client.group_descriptions import GroupDescription, GroupMember
from tailrace.model.errors import TailraceError


def run_list(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = GroupAdmin(cluster)
        listed = [each for each in admin.groups() if is_wanted(each, args.kind, args.state)]
        items = [listed_item(admin, each, with_lag=args.lag) for each in listed]
    if args.lag:
        items.sort(key=lambda item: (-(item["lag"] or 0), item["group"]))
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import group_text

    group_text.show_list(items, is_filtered=bool(args.kind or args.state))
    return 0


def is_wanted(listed: GroupListing, kinds: Sequence[str] | None, states: Sequence[str] | None) -> bool:
    return (not kinds or listed.kind in kinds) and (not states or listed.state.lower() in states)


def listed_item(admin: GroupAdmin, listed: GroupListing, *, with_lag: bool) -> Item:
    item: Item = {
        "type": "group",
        "group": listed.group_id,
        "kind": listed.kind,
        "state": listed.state or None,
        "protocol": listed.protocol_type or None,
        "coordinator": listed.coordinator,
        "members": None,
        "lag": None,
    }
    if with_lag:
        try:
            described = admin.describe(listed.group_id)
        except TailraceError as error:
            if error.code != GROUP_ID_NOT_FOUND:
                raise
            return item  # it went while we looked
        item["members"] = len(described.members)
        item["lag"] = total_lag(admin.lag(described))
    return item


def run_describe(args: argparse.Namespace) -> int:
    items: list[Item] = []
    with connected(args) as cluster:
        admin = GroupAdmin(cluster)
        for name in dict.fromkeys(args.groups):
            described = known_group(admin, name)
            items += described_items(described, admin.lag(described))
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import group_text

    group_text.show_descriptions(items)
    return 0


def known_group(admin: GroupAdmin, name: str) -> GroupDescription:
    """CommandError with names that are like it where there is none."""
    try:
        return admin.describe(name)
    except TailraceError as error:
        if error.code != GROUP_ID_NOT_FOUND:
            raise
        raise unknown_group(admin, name) from error


def unknown_group(admin: GroupAdmin, name: str) -> CommandError:
    names = [each.group_id for each in admin.groups()]
    return CommandError(
        f"there is no group {name}", f"{near(name, names, 'groups')}see which there are: tailrace group list"
    )


def total_lag(lags: Sequence[PartitionLag]) -> int | None:
    """None where nothing is known of any partition."""
    known = [each.lag for each in lags if each.lag is not None]
    return sum(known) if known else None


def described_items(described: GroupDescription, lags: Sequence[PartitionLag]) -> list[Item]:
    return [
        group_item(described, lags),
        *(member_item(described, each) for each in described.members),
        *(partition_item(described, each) for each in lags),
    ]


def group_item(described: GroupDescription, lags: Sequence[PartitionLag]) -> Item:
    return {
        "type": "group",
        "group": described.group_id,
        "kind": described.kind,
        "state": described.state,
        "assignor": described.assignor or None,
        "epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "coordinator": described.coordinator,
        "members": len(described.members),
        "partitions": len(lags),
        "lag": total_lag(lags),
    }


def member_item(described: GroupDescription, member: GroupMember) -> Item:
    return {
        "type": "member",
        "group": described.group_id,
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "protocol": "classic" if member.is_classic else described.kind,
        "subscription": list(member.subscription),
        "partitions": [str(each) for each in member.partitions],
        "wanted": None if member.wanted is None else [str(each) for each in member.wanted],
        "tasks": list(member.tasks),
    }


def partition_item(described: GroupDescription, lag: PartitionLag) -> Item:
    return {
        "type": "partition",
        "group": described.group_id,
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "offset": lag.offset,
        "end": lag.end,
        "lag": lag.lag,
        "member": lag.member.member_id if lag.member is not None else None,
        "client": lag.member.client_id if lag.member is not None else None,
        "host": lag.member.host if lag.member is not None else None,
        "metadata": lag.metadata or None,
    }
