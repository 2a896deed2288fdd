"""`tailrace cluster`: the brokers themselves. Light: what the commands do is loaded when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, add_group, at_least_one, not_negative, seconds

DESCRIBE: Final = """\
Show the brokers of a cluster: where they listen, what they lead, which one is fenced, and how the topics are.
"""
DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace cluster describe
  tailrace cluster describe --bootstrap broker1:9092,broker2:9092
  tailrace cluster describe --json | jq 'select(.type == "broker") | .address'
"""
QUORUM: Final = """\
Show the metadata quorum: its leader, its voters and observers, how far behind they are, and what is not healthy.

Observers are brokers and controllers that follow the metadata log without a vote. The state of a replica is "not
fetching" if the leader has had no fetch of it for 3 seconds, and "lagging" if it fetches and has not caught up for
that long. With --live the quorum is shown again and again, also while it has no leader.
"""
QUORUM_EXAMPLES: Final = """\
examples:
  tailrace cluster quorum
  tailrace cluster quorum --live
  tailrace cluster quorum --bootstrap-controller controller1:9093
  tailrace cluster quorum --json | jq -r 'select(.type == "quorum") | .problems[]'
"""
CONTROLLERS_ADD: Final = """\
Make a controller a voter of the metadata quorum. Run it where the controller runs: its id, its directory and its
addresses are those of its properties file and of the directory that the file names.

The controller must run as an observer: format its directory with `tailrace storage format --no-initial-controllers`,
start it, and wait until `tailrace cluster quorum` lists it. The command returns when the new voters are committed.
It needs kraft.version 1. Voters change one at a time.
"""
CONTROLLERS_ADD_EXAMPLES: Final = """\
examples:
  tailrace cluster controllers add --config controller-4.properties --dry-run
  tailrace cluster controllers add --config controller-4.properties --bootstrap broker1:9092
"""
CONTROLLERS_REMOVE: Final = """\
Remove a voter from the metadata quorum. The controller may be stopped, or its disk lost.

The command refuses what the remaining voters could not commit. It needs --force if the quorum survives the failure of
a voter now, and would not afterwards. It returns when the new voters are committed.
"""
CONTROLLERS_REMOVE_EXAMPLES: Final = """\
examples:
  tailrace cluster controllers remove 3 --dry-run
  tailrace cluster controllers remove 3
  tailrace cluster controllers remove 3 --directory-id 07R5amHmR32VDA6jHkGbTA
"""
DIRS: Final = """\
Show the data directories of brokers, their disks, and which partitions take the most room in them.
"""
DIRS_EXAMPLES: Final = """\
examples:
  tailrace cluster dirs
  tailrace cluster dirs --broker 1 --limit 20
  tailrace cluster dirs --topic orders
  tailrace cluster dirs --json | jq 'select(.type == "directory") | .free_bytes'

To look into a directory itself, also of a stopped broker, use `tailrace log dirs`.
"""
FEATURES: Final = """\
Show the features that the brokers support, and at which level the cluster has finalized each. Or change the levels.
"""
FEATURES_EXAMPLES: Final = """\
examples:
  tailrace cluster features
  tailrace cluster features upgrade --release-version 4.3 --dry-run
"""
UPGRADE: Final = """\
Raise the levels of features, all or none. Every broker and every controller must support the new levels.
"""
UPGRADE_EXAMPLES: Final = """\
examples:
  tailrace cluster features upgrade --release-version 4.3             all features, to the levels of a release
  tailrace cluster features upgrade --feature kraft.version=1         static voters become records of the log
  tailrace cluster features upgrade --feature metadata.version=4.3 --dry-run
"""
DOWNGRADE: Final = """\
Lower the levels of features, all or none. kraft.version cannot be lowered.
"""
DOWNGRADE_EXAMPLES: Final = """\
examples:
  tailrace cluster features downgrade --feature transaction.version=1
"""
DISABLE: Final = """\
Lower features to level 0.
"""
DISABLE_EXAMPLES: Final = """\
examples:
  tailrace cluster features disable --feature group.version --dry-run
"""
UNREGISTER: Final = """\
Remove a broker that does not come back from the metadata: its id and its directories become free.

The broker must be stopped, because a running one registers again. Partitions whose only replica is on it have no
leader afterwards; if the broker starts again with its directories, they are served again.
"""
UNREGISTER_EXAMPLES: Final = """\
examples:
  tailrace cluster unregister 3
  tailrace cluster unregister 3 --yes --bootstrap-controller controller1:9093
"""


def register(subparsers: Subparsers) -> None:
    title = "show brokers and the metadata quorum, change controllers and features"
    commands = add_group(subparsers, "cluster", title)
    add_connection(add_command(commands, "describe", "show the brokers", DESCRIBE, DESCRIBE_EXAMPLES, run_describe))
    register_quorum(commands)
    register_controllers(commands)
    register_dirs(commands)
    register_features(commands)
    register_unregister(commands)


def register_quorum(commands: Subparsers) -> None:
    parser = add_command(commands, "quorum", "show the metadata quorum", QUORUM, QUORUM_EXAMPLES, run_quorum)
    parser.add_argument("--live", action="store_true", help="show it again and again, until interrupted")
    parser.add_argument(
        "--every", type=seconds, default=1.0, metavar="SECONDS", help="time between two views with --live (default: 1)"
    )
    add_connection(parser, with_controllers=True)


def register_controllers(commands: Subparsers) -> None:
    group = add_group(commands, "controllers", "add and remove voters of the metadata quorum")
    title = "make a controller a voter"
    parser = add_command(group, "add", title, CONTROLLERS_ADD, CONTROLLERS_ADD_EXAMPLES, run_add)
    parser.add_argument("--config", metavar="FILE", required=True, help="properties file of the new controller")
    add_change(parser)
    title = "remove a voter"
    parser = add_command(group, "remove", title, CONTROLLERS_REMOVE, CONTROLLERS_REMOVE_EXAMPLES, run_remove)
    parser.add_argument("controller", type=not_negative, metavar="CONTROLLER", help="node id of the voter")
    parser.add_argument(
        "--directory-id", type=directory_id, metavar="ID", help="directory id that the voter must have (default: any)"
    )
    add_change(parser)


def add_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would happen, and change nothing")
    parser.add_argument("--force", action="store_true", help="proceed if no voter may fail afterwards")
    add_connection(parser, with_controllers=True)


def register_dirs(commands: Subparsers) -> None:
    parser = add_command(commands, "dirs", "show data directories and disks", DIRS, DIRS_EXAMPLES, run_dirs)
    parser.add_argument(
        "--broker", type=not_negative, action="append", metavar="N", help="only this broker's; may be repeated"
    )
    parser.add_argument("--topic", metavar="T", help="only partitions of this topic")
    parser.add_argument(
        "--limit", type=at_least_one, default=10, metavar="N", help="the N largest partitions of each (default: 10)"
    )
    add_connection(parser, json_help="one JSON object per line: each directory, then its partitions, all of them")


def register_features(commands: Subparsers) -> None:
    title = "show and change feature levels"
    parser = add_command(commands, "features", title, FEATURES, FEATURES_EXAMPLES, run_features)
    group = parser.add_subparsers(title="commands", metavar="command")
    add_connection(parser, with_controllers=True)
    for name, title, texts, handler in (
        ("upgrade", "raise feature levels", (UPGRADE, UPGRADE_EXAMPLES), run_upgrade),
        ("downgrade", "lower feature levels", (DOWNGRADE, DOWNGRADE_EXAMPLES), run_downgrade),
    ):
        parser = add_command(group, name, title, *texts, handler)
        levels = parser.add_mutually_exclusive_group(required=True)
        levels.add_argument(
            "--release-version", metavar="RELEASE", help="set all features to the levels of a release, such as 4.3"
        )
        levels.add_argument(
            "--feature", metavar="FEATURE=LEVEL", action="append", help="a feature and its new level; may be repeated"
        )
        add_feature_change(parser, may_be_unsafe=name != "upgrade")
    parser = add_command(group, "disable", "lower features to level 0", DISABLE, DISABLE_EXAMPLES, run_disable)
    parser.add_argument(
        "--feature", metavar="FEATURE", action="append", required=True, help="a feature; may be repeated"
    )
    add_feature_change(parser, may_be_unsafe=True)


def add_feature_change(parser: argparse.ArgumentParser, *, may_be_unsafe: bool) -> None:
    if may_be_unsafe:
        parser.add_argument("--unsafe", action="store_true", help="lower a level even if metadata is lost")
    parser.add_argument("--dry-run", action="store_true", help="check the change, and change nothing")
    add_connection(parser, with_controllers=True, is_nested=True)


def register_unregister(commands: Subparsers) -> None:
    title = "remove a stopped broker from the metadata"
    parser = add_command(commands, "unregister", title, UNREGISTER, UNREGISTER_EXAMPLES, run_unregister)
    parser.add_argument("broker", type=not_negative, metavar="BROKER", help="node id of the broker")
    parser.add_argument("--yes", action="store_true", help="proceed without confirmation")
    add_connection(parser, with_controllers=True)


def directory_id(text: str) -> object:
    from tailrace.model.ids import DirectoryId

    try:
        return DirectoryId.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory id") from None


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_describe(args)


def run_quorum(args: argparse.Namespace) -> int:
    from tailrace.cli import quorum_run

    return quorum_run.run(args)


def run_add(args: argparse.Namespace) -> int:
    from tailrace.cli import quorum_changes

    return quorum_changes.run_add(args)


def run_remove(args: argparse.Namespace) -> int:
    from tailrace.cli import quorum_changes

    return quorum_changes.run_remove(args)


def run_dirs(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_dirs(args)


def run_features(args: argparse.Namespace) -> int:
    from tailrace.cli import feature_changes

    return feature_changes.run_show(args)


def run_upgrade(args: argparse.Namespace) -> int:
    from tailrace.cli import feature_changes

    return feature_changes.run_upgrade(args)


def run_downgrade(args: argparse.Namespace) -> int:
    from tailrace.cli import feature_changes

    return feature_changes.run_downgrade(args)


def run_disable(args: argparse.Namespace) -> int:
    from tailrace.cli import feature_changes

    return feature_changes.run_disable(args)


def run_unregister(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_unregister(args)
