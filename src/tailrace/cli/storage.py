"""`tailrace storage`: formatting a node's data directories. Light: what the commands do is loaded when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_group

FORMAT: Final = """\
Format the data directories of a node: log.dirs and metadata.log.dir of its properties file.

The files are those that kafka-storage of Apache Kafka 4.3.1 writes, so the node may run Tailrace or Kafka. Every node
of a cluster gets the same cluster id. A controller without controller.quorum.voters needs one of --standalone,
--initial-controllers and --no-initial-controllers.

A directory is formatted when its meta.properties is durable, which is written last. After a crash, run the same command
again with --ignore-formatted.
"""
FORMAT_EXAMPLES: Final = """\
examples:
  tailrace storage format -t "$(tailrace storage random-uuid)" -c server.properties --standalone
  tailrace storage format -t uViM5VGiQUWqVVgvr1gYxQ -c controller.properties --initial-controllers "$CONTROLLERS"
  tailrace storage format -t uViM5VGiQUWqVVgvr1gYxQ -c controller.properties --no-initial-controllers
  tailrace storage format -t uViM5VGiQUWqVVgvr1gYxQ -c server.properties -s --release-version 4.0 -f group.version=0

A single broker needs none of this: `tailrace serve` formats empty directories itself.
"""
INFO: Final = """\
Show how the data directories of a node are formatted: ids, and the features and controllers that the cluster began
with. These may have changed since: `tailrace cluster features` and `tailrace cluster quorum` show the present ones.
The metadata log is shown with its end and with the voters that it names last, also while no quorum can be reached.

The exit code is 1 if a directory is missing, not formatted, unreadable, or belongs to another node or cluster. The
command changes nothing and may run beside a broker.
"""
INFO_EXAMPLES: Final = """\
examples:
  tailrace storage info --config server.properties
  tailrace storage info --config server.properties --json | jq 'select(.type == "directory") | .directory_id'
"""
RANDOM_UUID: Final = """\
Print a new random id, for a cluster or for a directory of --initial-controllers.
"""
RANDOM_UUID_EXAMPLES: Final = """\
examples:
  tailrace storage random-uuid
"""
VERSION_MAPPING: Final = """\
Show the feature levels that a cluster gets if it is formatted for a release of Kafka.
"""
VERSION_MAPPING_EXAMPLES: Final = """\
examples:
  tailrace storage version-mapping
  tailrace storage version-mapping --release-version 4.0
"""
FEATURE_DEPENDENCIES: Final = """\
Show which levels of other features a feature level requires.
"""
FEATURE_DEPENDENCIES_EXAMPLES: Final = """\
examples:
  tailrace storage feature-dependencies --feature eligible.leader.replicas.version=1
"""
RELEASE_HELP: Final = "the release, such as 4.0 or 4.0-IV1 (default: 4.3-IV0, the minimum is 3.3-IV3)"


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "storage", "format data directories and show how they are formatted")
    add_format(commands)
    parser = add_command(commands, "info", "show how data directories are formatted", INFO, INFO_EXAMPLES, run_info)
    add_config(parser)
    add_json(parser)
    add_command(commands, "random-uuid", "print a random id", RANDOM_UUID, RANDOM_UUID_EXAMPLES, run_random_uuid)
    title = "show the feature levels of a release"
    parser = add_command(
        commands, "version-mapping", title, VERSION_MAPPING, VERSION_MAPPING_EXAMPLES, run_version_mapping
    )
    parser.add_argument("--release-version", "-r", metavar="RELEASE", help=RELEASE_HELP)
    add_json(parser)
    title = "show what feature levels require"
    parser = add_command(
        commands,
        "feature-dependencies",
        title,
        FEATURE_DEPENDENCIES,
        FEATURE_DEPENDENCIES_EXAMPLES,
        run_feature_dependencies,
    )
    parser.add_argument(
        "--feature",
        "-f",
        metavar="FEATURE=LEVEL",
        action="append",
        required=True,
        help="the level to look up; may be repeated",
    )
    add_json(parser)


def add_format(commands: Subparsers) -> None:
    parser = add_command(
        commands, "format", "format the data directories of a node", FORMAT, FORMAT_EXAMPLES, run_format
    )
    add_config(parser)
    parser.add_argument(
        "--cluster-id", "-t", metavar="ID", required=True, help="the cluster's id: 1 to 22 of a-z, A-Z, 0-9, - and _"
    )
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument(
        "--standalone", "-s", action="store_true", help="begin a quorum that has this controller as its only voter"
    )
    quorum.add_argument(
        "--initial-controllers",
        "-I",
        metavar="CONTROLLERS",
        help="begin a quorum of these voters: ID@HOST:PORT:DIRECTORY-ID, separated by commas; the same on every node",
    )
    quorum.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="join a quorum that exists or that other controllers begin",
    )
    parser.add_argument(
        "--feature",
        "-f",
        metavar="FEATURE=LEVEL",
        action="append",
        default=[],
        help="the level of a feature, instead of the default of the release; may be repeated",
    )
    parser.add_argument(
        "--release-version", "-r", metavar="RELEASE", help=f"{RELEASE_HELP}; sets metadata.version and the defaults"
    )
    parser.add_argument(
        "--ignore-formatted",
        "-g",
        action="store_true",
        help="leave directories that are formatted as they are, and format the others",
    )
    parser.add_argument(
        "--add-scram", "-S", metavar="CREDENTIAL", action="append", default=[], help="not supported: an error"
    )
    add_json(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", "-c", metavar="FILE", required=True, help="the properties file of the node")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run_format(args: argparse.Namespace) -> int:
    from tailrace.cli import storage_format

    return storage_format.run(args)


def run_info(args: argparse.Namespace) -> int:
    from tailrace.cli import storage_info

    return storage_info.run(args)


def run_random_uuid(_: argparse.Namespace) -> int:
    from tailrace.env.real import real_env
    from tailrace.storage.manager.meta_properties import new_directory_id

    print(new_directory_id(real_env().random, ()))
    return 0


def run_version_mapping(args: argparse.Namespace) -> int:
    from tailrace.cli import storage_features

    return storage_features.run_version_mapping(args)


def run_feature_dependencies(args: argparse.Namespace) -> int:
    from tailrace.cli import storage_features

    return storage_features.run_feature_dependencies(args)
