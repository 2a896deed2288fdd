"""`tailrace config describe`, `set` and `unset`: items with keys that stay, and the picture of them for a terminal."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected, known_topic
from tailrace.cli.topic_changes import say
from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, ConfigEntry, Resource
from tailrace.client.errors import INVALID_CONFIG, INVALID_REQUEST, BrokerUnreachableError
from tailrace.model.errors import TailraceError

DEFAULT: Final = "default"


def run_describe(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        resource = resource_of(args, cluster)
        entries = ConfigAdmin(cluster).describe(resource, with_documentation=args.docs)
    missing = [key for key in args.keys if key not in {each.name for each in entries}]
    if missing:
        raise unknown_setting(missing[0], [each.name for each in entries])
    shown = [each for each in entries if is_wanted(each, args)]
    items = [config_item(resource, each, with_docs=args.docs) for each in shown]
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
        return 0
    show(resource, items, 0 if args.keys else len(entries) - len(shown))
    return 0


def run_set(args: argparse.Namespace) -> int:
    values = dict(args.settings)
    with connected(args) as cluster:
        resource = resource_of(args, cluster)
        with explained(cluster, resource, values):
            ConfigAdmin(cluster).alter(resource, values=values, validate_only=args.dry_run)
    changes = ", ".join(f"{key}={value}" for key, value in values.items())
    done(args, resource, {"set": values}, changes)
    return 0


def run_unset(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        resource = resource_of(args, cluster)
        with explained(cluster, resource, dict.fromkeys(args.keys)):
            ConfigAdmin(cluster).alter(resource, unset=args.keys, validate_only=args.dry_run)
    done(args, resource, {"unset": args.keys}, f"no {', '.join(args.keys)} of its own any more")
    return 0


def done(args: argparse.Namespace, resource: Resource, change: Item, words: str) -> None:
    action = "checked" if args.dry_run else "settings"
    item = {"type": "done", "action": action, "resource": title(resource), **change}
    say(args, item, f"{title(resource)} {'could have' if args.dry_run else 'has'} {words}")


def resource_of(args: argparse.Namespace, cluster: Cluster) -> Resource:
    if args.topic is not None:
        return Resource.topic(known_topic(cluster, args.topic).name)
    if args.cluster:
        return Resource.cluster_default()
    cluster.refresh(())
    if args.broker not in cluster.brokers:
        there = ", ".join(map(str, sorted(cluster.brokers)))
        raise CommandError(f"there is no broker {args.broker}", f"the brokers are {there}")
    return Resource.broker(args.broker)


@contextmanager
def explained(cluster: Cluster, resource: Resource, changes: Mapping[str, str | None]) -> Iterator[None]:
    """Check the keys first: a broker accepts unknown ones. A change that is refused in the block gets a hint."""
    described = whole(cluster, resource)
    entries = {each.name: each for each in ConfigAdmin(cluster).describe(described)}
    for key in changes:
        if key not in entries:
            raise unknown_setting(key, list(entries))
    try:
        yield
    except TailraceError as error:
        if error.code not in (INVALID_CONFIG, INVALID_REQUEST):
            raise
        fixed = [key for key in changes if entries[key].is_read_only]
        if fixed:
            settings = " ".join(f"--set {shown(entries[key], changes[key])}" for key in fixed)
            hint = f"restart the broker with `tailrace serve {settings}`, or edit the file of its --config"
        else:
            keys = " ".join(map(shlex.quote, changes))
            hint = f"see `tailrace config describe {option(described)} {keys} --docs`"
        raise CommandError(str(error), hint) from error


def shown(entry: ConfigEntry, value: str | None) -> str:
    """A setting as an argument for a shell, without secrets."""
    return shlex.quote(f"{entry.name}={'VALUE' if entry.is_sensitive or not value else value}")


def option(resource: Resource) -> str:
    if resource.node_id is not None:
        return f"--broker {resource.name}"
    return f"--topic {shlex.quote(resource.name)}"


def whole(cluster: Cluster, resource: Resource) -> Resource:
    """Of the cluster's defaults only those that are set are told: any broker has all of them."""
    if resource != Resource.cluster_default():
        return resource
    if not cluster.brokers:
        cluster.refresh(())
    if not cluster.brokers:
        raise BrokerUnreachableError("no broker is known")
    return Resource.broker(min(cluster.brokers))


def unknown_setting(key: str, known: Sequence[str]) -> CommandError:
    close = difflib.get_close_matches(key, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "see `tailrace config describe … --all`"
    return CommandError(f"there is no setting {key}", hint)


def is_wanted(entry: ConfigEntry, args: argparse.Namespace) -> bool:
    if args.keys:
        return entry.name in args.keys
    return args.all or entry.source != DEFAULT


def config_item(resource: Resource, entry: ConfigEntry, *, with_docs: bool) -> Item:
    item: Item = {
        "type": "config",
        "resource": title(resource),
        "key": entry.name,
        "value": entry.value,
        "source": entry.source,
        "override": entry.is_override,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "value_type": entry.type,
    }
    return {**item, "documentation": entry.documentation} if with_docs else item


def title(resource: Resource) -> str:
    if resource == Resource.cluster_default():
        return "cluster"
    return f"broker {resource.name}" if resource.node_id is not None else f"topic {resource.name}"


def show(resource: Resource, items: Sequence[Item], hidden: int) -> None:
    from rich.text import Text

    from tailrace.cli.tables import Cell, Column, Screen

    columns = (Column("key", is_wide=True), Column("value", is_folded=True), Column("from"), Column("documentation"))
    rows: list[Sequence[Cell]] = []
    for item in items:
        style = "bold" if item["override"] else "dim" if item["source"] == DEFAULT else ""
        value = Text("(secret)", style="dim") if item["sensitive"] else Text(item["value"] or '""', style=style)
        source = item["source"] + (", read-only" if item["read_only"] else "")
        rows.append((Text(item["key"], style=style), value, source, ""))
    screen = Screen()
    screen.heading(title(resource))
    if items:
        screen.table(columns, rows)
    for item in items:
        if item.get("documentation"):
            screen.blank()
            screen.heading(item["key"])
            screen.note(" ".join(item["documentation"].split()), style="")
    if hidden and not items:
        screen.note("nothing is set; see all settings with --all")
    elif hidden:
        screen.note(f"{hidden:,} more as they are by default: --all")
