"""`tailrace cluster features`: the levels that the cluster has finalized, and changes of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from tailrace.cli.cluster_run import show
from tailrace.cli.lines import Item
from tailrace.cli.output import CommandError
from tailrace.cli.remote import connected_to_controllers
from tailrace.cli.storage_features import release
from tailrace.cli.topic_changes import say
from tailrace.client.feature_admin import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureAdmin
from tailrace.metadata.feature_levels import default_levels, metadata_version_of
from tailrace.metadata.versions import KRAFT_VERSION, METADATA_VERSION
from tailrace.model.errors import InvalidUpdateVersionError, TailraceError

PAST: Mapping[str, str] = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


def run_show(args: argparse.Namespace) -> int:
    with connected_to_controllers(args) as caller:
        features = FeatureAdmin(caller).features()
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


def run_upgrade(args: argparse.Namespace) -> int:
    return change(args, "upgrade", UPGRADE)


def run_downgrade(args: argparse.Namespace) -> int:
    return change(args, "downgrade", UNSAFE_DOWNGRADE if args.unsafe else SAFE_DOWNGRADE)


def run_disable(args: argparse.Namespace) -> int:
    return change(args, "disable", UNSAFE_DOWNGRADE if args.unsafe else SAFE_DOWNGRADE)


def change(args: argparse.Namespace, action: str, upgrade_type: int) -> int:
    with connected_to_controllers(args) as caller:
        admin = FeatureAdmin(caller)
        present = {each.name: each.level or 0 for each in admin.features()}
        wanted = wanted_levels(args, action, present)
        levels = {name: level for name, level in wanted.items() if level != present.get(name)}
        if levels:
            try:
                admin.update(levels, upgrade_type=upgrade_type, validate_only=args.dry_run)
            except TailraceError as error:
                if error.code != InvalidUpdateVersionError.code:
                    raise
                hint = "`tailrace cluster features` shows the levels that are supported; nothing was changed"
                raise CommandError(str(error), hint) from error
    for name, level in wanted.items():
        say_changed(args, action, name, present.get(name, 0), level)
    if not wanted:
        item: Item = {"type": "done", "action": "found", "release": args.release_version}
        higher = "at or above" if action == "upgrade" else "at or below"
        say(args, item, f"all features are {higher} the levels of release {args.release_version} already")
    return 0


def wanted_levels(args: argparse.Namespace, action: str, present: Mapping[str, int]) -> dict[str, int]:
    if action == "disable":
        wanted = dict.fromkeys(args.feature, 0)
    elif args.release_version is not None:
        wanted = levels_of_release(release(args.release_version), present, is_upgrade=action == "upgrade")
    else:
        wanted = parsed_levels(args.feature)
    return wanted


def levels_of_release(version: int, present: Mapping[str, int], *, is_upgrade: bool) -> dict[str, int]:
    """Of the features that go the wanted way. kraft.version never goes down."""
    found = {}
    for name, level in {METADATA_VERSION: version, **default_levels(version)}.items():
        before = present.get(name, level)  # a feature that the cluster does not know is left out
        if level > before if is_upgrade else level < before and name != KRAFT_VERSION:
            found[name] = level
    return found


def parsed_levels(texts: Sequence[str]) -> dict[str, int]:
    """Of `FEATURE=LEVEL`; the level of metadata.version may be a release, such as 4.3."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        number: int | None = int(level) if level.isascii() and level.isdecimal() and len(level) <= 5 else None
        if number is None and name == METADATA_VERSION:
            number = metadata_version_of(level)
        if not equals or number is None:
            hint = "for example --feature group.version=1"
            raise CommandError(f"--feature {text}: not of the form FEATURE=LEVEL", hint)
        if name in found:
            raise CommandError(f"--feature names {name} twice", "give each feature one level")
        found[name] = number
    return found


def say_changed(args: argparse.Namespace, action: str, name: str, before: int, after: int) -> None:
    item: Item = {"type": "done", "action": "checked" if args.dry_run else PAST[action], "feature": name}
    item |= {"from": before, "to": after}
    if before == after:
        item["action"] = "found"
        say(args, item, f"{name} is {after} already")
    elif args.dry_run:
        say(args, item, f"{name} can be changed from {before} to {after}")
    else:
        say(args, item, f"{name} {PAST[action]} from {before} to {after}")
