"""`tailrace storage format`: from arguments and a properties file to formatted directories.

Everything that can be refused is refused before the first file is created.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tailrace.cli.lines import print_items
from tailrace.cli.output import CommandError, report
from tailrace.cli.storage_features import chosen_levels
from tailrace.cli.storage_items import directory_item, metadata_item
from tailrace.config.listeners import WILDCARD_HOSTS
from tailrace.config.properties import parse_properties
from tailrace.config.server import ServerConfig
from tailrace.config.table import ConfigError
from tailrace.env import Env
from tailrace.env.real import real_env
from tailrace.metadata.versions import KRAFT_VERSION
from tailrace.raft.format import format_directories
from tailrace.raft.initial_controllers import initial_controller, initial_controllers
from tailrace.raft.inspection import DirectoryState, Inspection, inspect_directories
from tailrace.raft.voters import Voter
from tailrace.storage.manager.meta_properties import new_directory_id

CONTROLLERS_HINT: Final = (
    "write ID@HOST:PORT:DIRECTORY-ID for each, separated by commas; "
    "`tailrace storage random-uuid` prints a directory id"
)


def run(args: argparse.Namespace) -> int:
    env = real_env()
    config = storage_config(args.config)
    check_arguments(args, config)
    is_dynamic = not config.controller_quorum_voters
    levels = chosen_levels(args.feature, args.release_version, is_dynamic=is_dynamic)
    voters = first_voters(args, config, env)
    found = inspect(config, env)
    check_directories(found, args.cluster_id, ignore_formatted=args.ignore_formatted)
    try:
        format_directories(
            env,
            config.broker.directories,
            config.metadata_log_dir,
            config.node_id,
            cluster_id=args.cluster_id,
            features={name: level for name, level in levels.items() if name != KRAFT_VERSION},
            initial_controllers=voters,
        )
    except ConfigError as error:
        raise CommandError(str(error), "`tailrace storage random-uuid` prints a new id") from None
    show(args, config, found, inspect(config, env))
    return 0


def storage_config(file: str) -> ServerConfig:
    """Raises CommandError with the file's name. Unknown keys are accepted: a plugin may read them."""
    try:
        return ServerConfig.for_storage(parse_properties(Path(file).read_bytes()))
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", "check the path and its permissions") from None
    except ConfigError as error:
        raise CommandError(f"{file}: {error}", error.hint or "correct the setting and run the command again") from None


def check_arguments(args: argparse.Namespace, config: ServerConfig) -> None:
    if args.add_scram:
        raise CommandError(
            "--add-scram: Tailrace has no SCRAM authentication yet",
            "leave the option out, or format a node that runs Kafka with kafka-storage",
        )
    if config.controller_quorum_voters:
        for given, option in ((args.standalone, "--standalone"), (args.initial_controllers, "--initial-controllers")):
            if given:
                raise CommandError(
                    f"{option} and controller.quorum.voters exclude each other",
                    "replace controller.quorum.voters with controller.quorum.bootstrap.servers",
                )
    elif config.is_controller and not (
        args.standalone or args.no_initial_controllers or args.initial_controllers is not None
    ):
        raise CommandError(
            "the controllers of the cluster are not given, and controller.quorum.voters is not set",
            "pass --standalone, --initial-controllers or --no-initial-controllers",
        )
    if args.standalone and not config.is_controller:
        raise CommandError("--standalone: process.roles has no controller", "format a controller with it")


def first_voters(args: argparse.Namespace, config: ServerConfig, env: Env) -> tuple[Voter, ...]:
    """They are at the first of controller.listener.names; empty if the log gets no voters."""
    name = config.controller_listener_names[0]
    if args.initial_controllers is not None:
        try:
            return initial_controllers(args.initial_controllers, name)
        except ConfigError as error:
            raise CommandError(str(error), CONTROLLERS_HINT) from None
    if not args.standalone:
        return ()
    listener = config.advertised_controller_listeners[0]
    host = "localhost" if listener.host in WILDCARD_HOSTS else listener.host
    directory_id = new_directory_id(env.random, ())
    try:
        return (initial_controller(config.node_id, directory_id, name, host, listener.port),)
    except ConfigError as error:
        hint = f"give {listener.name} a port in listeners or advertised.listeners"
        raise CommandError(str(error), hint) from None


def inspect(config: ServerConfig, env: Env) -> Inspection:
    return inspect_directories(env.files, config.broker.directories, config.metadata_log_dir, config.node_id)


def check_directories(found: Inspection, cluster_id: str, *, ignore_formatted: bool) -> None:
    """An unreadable data directory does not keep the others from being formatted."""
    for each in found.directories:
        if each.meta is not None and each.meta.cluster_id != cluster_id:
            raise CommandError(
                f"{each.path} belongs to cluster {each.meta.cluster_id}, not {cluster_id}",
                "check --cluster-id and log.dirs; for a new cluster, begin with empty directories",
            )
        if each.state is DirectoryState.FORMATTED and not ignore_formatted:
            raise CommandError(
                f"{each.path} is formatted already", "pass --ignore-formatted to format only the other directories"
            )
        if each.state is DirectoryState.NOT_A_DIRECTORY and each.problem is not None:
            raise CommandError(*each.problem)
    if found.mismatches:
        raise CommandError(*found.mismatches[0])
    if not any(each.state.can_be_formatted or each.meta is not None for each in found.directories):
        raise CommandError("none of the directories can be read", "check the disks and their mounts")


def show(args: argparse.Namespace, config: ServerConfig, before: Inspection, after: Inspection) -> None:
    """All directories, those that are formatted since `before` as "formatted now"."""
    new = {each.path for each in before.directories if each.state.can_be_formatted}
    items = [metadata_item(after)]
    for each in after.directories:
        item = directory_item(each, config.metadata_log_dir)
        items.append({**item, "state": "formatted now"} if each.path in new else item)
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
    else:
        from tailrace.cli import storage_text

        storage_text.show_storage(items)
    sys.stdout.flush()
    for each in before.directories:
        if each.state is DirectoryState.UNREADABLE and each.problem is not None:
            report(CommandError(f"not formatted: {each.problem.text}", each.problem.hint))
