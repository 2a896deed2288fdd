"""`tailrace group delete`: groups, or what they have committed of some topics. Says what was done, as an item too."""

from __future__ import annotations

import argparse

from tailrace.cli.group_views import unknown_group
from tailrace.cli.lines import Item
from tailrace.cli.output import CommandError
from tailrace.cli.remote import confirmed, connected
from tailrace.cli.sizes import counted
from tailrace.cli.topic_changes import say
from tailrace.client.errors import GROUP_SUBSCRIBED_TO_TOPIC, NON_EMPTY_GROUP
from tailrace.client.group_admin import GroupAdmin
from tailrace.model.errors import TailraceError


def run(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = GroupAdmin(cluster)
        there: dict[str, str] = {}
        for name in dict.fromkeys(args.groups):
            kind = admin.kind_of(name)
            if kind is not None:
                there[name] = kind
            elif not args.if_exists:
                raise unknown_group(admin, name)
        if not there:
            return 0
        names = ", ".join(there)
        if args.topic:
            topics = ", ".join(dict.fromkeys(args.topic))
            confirmed(f"Delete what {names} has committed of {topics}?", is_sure=args.yes)
        else:
            confirmed(f"Delete {names} with all committed offsets?", is_sure=args.yes)
        for name, kind in there.items():
            try:
                delete(args, admin, name, kind)
            except TailraceError as error:
                if error.code not in (NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC):
                    raise
                raise still_used(admin, name) from error
    return 0


def delete(args: argparse.Namespace, admin: GroupAdmin, name: str, kind: str) -> None:
    if not args.topic:
        admin.delete(name)
        say(args, {"type": "done", "action": "deleted", "group": name}, f"{name} deleted")
        return
    topics = list(dict.fromkeys(args.topic))
    partitions = admin.delete_offsets(name, topics, kind)
    item: Item = {
        "type": "done",
        "action": "offsets deleted",
        "group": name,
        "topics": topics,
        "partitions": len(partitions),
    }
    say(args, item, f"{name}: {counted(len(partitions), 'offset')} of {', '.join(topics)} deleted")


def still_used(admin: GroupAdmin, name: str) -> CommandError:
    described = admin.describe(name)
    clients = sorted({f"{each.client_id} at {each.host}" for each in described.members})
    members = f"{counted(len(described.members), 'member')}: {', '.join(clients[:3])}"
    return CommandError(
        f"group {name} has {members}", f"stop its consumers first; see them with tailrace group describe {name}"
    )
