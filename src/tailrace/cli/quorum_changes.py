"""`tailrace cluster controllers add` and `remove`: what a change of the voters would do, and the change itself.

A change that the remaining voters could not commit is refused here: the leader would append it, and then nothing more
would ever be committed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.quorum_run import kraft_version
from tailrace.cli.remote import connected_to_controllers
from tailrace.cli.sizes import counted
from tailrace.cli.storage_format import inspect, storage_config
from tailrace.cli.topic_changes import say
from tailrace.client.caller import Caller
from tailrace.client.errors import REQUEST_TIMED_OUT
from tailrace.client.quorum_admin import QuorumAdmin, QuorumDescription, QuorumReplica, VoterListener
from tailrace.client.quorum_health import (
    Margin,
    ReplicaHealth,
    health_of,
    margin_after_adding,
    margin_after_removing,
    margin_of,
)
from tailrace.config.listeners import WILDCARD_HOSTS
from tailrace.env.real import real_env
from tailrace.model.errors import TailraceError
from tailrace.model.ids import DirectoryId

LOOK: Final = "see what `tailrace cluster quorum` reports"


class Controller(NamedTuple):
    """As its properties file and its directory describe it."""

    node_id: int
    cluster_id: str
    directory_id: DirectoryId
    listeners: tuple[VoterListener, ...]


class Plan(NamedTuple):
    action: str
    node_id: int
    directory_id: DirectoryId
    voters: tuple[int, ...]
    voters_after: tuple[int, ...]
    margin: Margin
    margin_after: Margin
    notes: tuple[str, ...]

    @property
    def is_impossible(self) -> bool:
        """The new voters have no majority that has caught up: the change would never be committed."""
        return self.margin_after.spare < 0

    @property
    def is_risky(self) -> bool:
        """The quorum survives a failure now, and would survive none afterwards."""
        return self.margin.spare > 0 and self.margin_after.spare == 0 and self.margin_after.voters > 1


# Adding


def run_add(args: argparse.Namespace) -> int:
    controller = described_controller(args.config)
    with connected_to_controllers(args) as caller:
        admin = QuorumAdmin(caller)
        quorum = admin.describe()
        check_cluster(caller, controller, args.config)
        existing = next((each for each in quorum.voters if each.node_id == controller.node_id), None)
        if existing is not None and existing.directory_id == controller.directory_id:
            item: Item = {
                "type": "done",
                "action": "found",
                "node": controller.node_id,
                "voters": list(ids(quorum.voters)),
            }
            say(args, item, f"node {controller.node_id} is a voter already")
            return 0
        check_dynamic(caller)
        plan = plan_of_adding(quorum, controller, existing, args.config)
        if not is_to_be_done(args, plan):
            return 0
        add = (controller.cluster_id, controller.node_id, controller.directory_id, controller.listeners)
        with_hints(lambda: admin.add_voter(*add), args.timeout)
        show_done(args, plan, admin.describe())
    return 0


def described_controller(file: str) -> Controller:
    config = storage_config(file)
    if not config.is_controller:
        raise CommandError(f"{file}: process.roles has no controller", "pass the properties file of the controller")
    meta = inspect(config, real_env()).meta
    if meta is None or meta.directory_id is None:
        raise CommandError(
            f"{config.metadata_log_dir} is not formatted",
            "run this command where the controller runs; to format it: "
            f"tailrace storage format --config {file} --cluster-id ID --no-initial-controllers",
        )
    listeners = tuple(VoterListener(each.name, each.host, each.port) for each in config.advertised_controller_listeners)
    for each in listeners:
        if each.host in WILDCARD_HOSTS or not each.port:
            raise CommandError(
                f"{file}: other controllers cannot connect to {each.name}://{each.host}:{each.port}",
                "give the listener a host and a port in advertised.listeners",
            )
    return Controller(config.node_id, meta.cluster_id, meta.directory_id, listeners)


def check_cluster(caller: Caller, controller: Controller, file: str) -> None:
    caller.retry("asking for the cluster id", caller.learn_nodes)
    if caller.cluster_id != controller.cluster_id:
        raise CommandError(
            f"the directory of {file} belongs to cluster {controller.cluster_id}, not {caller.cluster_id}",
            "check the addresses of --bootstrap; to use the directory for this cluster, empty and format it",
        )


def plan_of_adding(
    quorum: QuorumDescription, controller: Controller, existing: QuorumReplica | None, file: str
) -> Plan:
    node_id = controller.node_id
    if existing is not None:
        raise CommandError(
            f"node {node_id} is a voter with another directory, {existing.directory_id}",
            f"remove it first: tailrace cluster controllers remove {node_id} --directory-id {existing.directory_id}",
        )
    key = (node_id, controller.directory_id)
    observer = next((each for each in quorum.observers if (each.node_id, each.directory_id) == key), None)
    if observer is None or health_of(quorum, observer) is ReplicaHealth.NOT_FETCHING:
        raise CommandError(
            f"controller {node_id} does not fetch from the leader, node {quorum.leader_id}",
            f"start it with `tailrace serve --config {file}`, and add it when `tailrace cluster quorum` lists it",
        )
    before, after = margin_of(quorum), margin_after_adding(quorum, observer)
    notes = []
    if after.voters % 2 == 0:
        notes.append(f"{after.voters} voters survive no more failures than {before.voters}: an odd number is better")
    voters = ids(quorum.voters)
    return Plan("add", node_id, controller.directory_id, voters, (*voters, node_id), before, after, tuple(notes))


# Removing


def run_remove(args: argparse.Namespace) -> int:
    with connected_to_controllers(args) as caller:
        admin = QuorumAdmin(caller)
        quorum = admin.describe()
        caller.retry("asking for the cluster id", caller.learn_nodes)
        check_dynamic(caller)
        plan = plan_of_removing(quorum, args.controller, args.directory_id)
        if not is_to_be_done(args, plan):
            return 0
        with_hints(lambda: admin.remove_voter(caller.cluster_id, plan.node_id, plan.directory_id), args.timeout)
        show_done(args, plan, admin.describe())
    return 0


def plan_of_removing(quorum: QuorumDescription, node_id: int, directory_id: DirectoryId | None) -> Plan:
    voter = next((each for each in quorum.voters if each.node_id == node_id), None)
    numbers = ", ".join(map(str, ids(quorum.voters)))
    if voter is None:
        raise CommandError(f"node {node_id} is not a voter", f"the voters are {numbers}")
    if directory_id is not None and directory_id != voter.directory_id:
        raise CommandError(
            f"the directory of voter {node_id} is {voter.directory_id}, not {directory_id}",
            "a controller whose disk was replaced has a new directory id; leave out --directory-id to remove the voter",
        )
    if len(quorum.voters) == 1:
        raise CommandError(
            f"node {node_id} is the only voter",
            "add another controller first: tailrace cluster controllers add --config FILE",
        )
    notes = []
    if node_id == quorum.leader_id:
        notes.append(f"node {node_id} leads the quorum: another voter is elected when it is removed")
    notes.append("with controller.quorum.auto.join.enable=true it joins again: stop it first, or change the setting")
    left = tuple(each for each in ids(quorum.voters) if each != node_id)
    margin, after = margin_of(quorum), margin_after_removing(quorum, voter)
    return Plan("remove", node_id, voter.directory_id, ids(quorum.voters), left, margin, after, tuple(notes))


# Both


def check_dynamic(caller: Caller) -> None:
    if kraft_version(caller) == 0:
        raise CommandError(
            "the voters cannot be changed: they are those of controller.quorum.voters, and kraft.version is 0",
            "make them records of the metadata log: tailrace cluster features upgrade --feature kraft.version=1",
        )


def is_to_be_done(args: argparse.Namespace, plan: Plan) -> bool:
    """False for a dry run, which shows the plan. CommandError if the change must not be made."""
    if args.dry_run:
        show_plan(args, plan)
    after = plan.margin_after
    if plan.is_impossible:
        raise CommandError(
            f"only {after.caught_up} of the {after.voters} new voters have caught up, and a majority is "
            f"{after.majority}: the change could never be committed",
            "start the voters that do not fetch; " + LOOK,
        )
    if plan.is_risky and not args.force:
        raise CommandError(
            f"after this change no voter may fail: {after.caught_up} of {after.voters} voters have caught up, "
            f"and a majority is {after.majority}",
            "add another controller first, or pass --force",
        )
    return not args.dry_run


def with_hints(change: Callable[[], None], timeout_s: float) -> None:
    try:
        change()
    except TailraceError as error:
        if error.code != REQUEST_TIMED_OUT:
            raise
        text = f"the change was not committed within {timeout_s:g} s: {error}"
        raise CommandError(text, f"{LOOK}, and run the command again") from error


def ids(replicas: Sequence[QuorumReplica]) -> tuple[int, ...]:
    return tuple(each.node_id for each in replicas)


def plan_item(plan: Plan) -> Item:
    return {
        "type": "plan",
        "action": plan.action,
        "node": plan.node_id,
        "directory_id": str(plan.directory_id),
        "voters": list(plan.voters),
        "voters_after": list(plan.voters_after),
        "majority": plan.margin.majority,
        "majority_after": plan.margin_after.majority,
        "caught_up": plan.margin.caught_up,
        "caught_up_after": plan.margin_after.caught_up,
        "may_fail": max(plan.margin.spare, 0),
        "may_fail_after": max(plan.margin_after.spare, 0),
        "notes": list(plan.notes),
    }


def show_plan(args: argparse.Namespace, plan: Plan) -> None:
    if args.json or not sys.stdout.isatty():
        print_items([plan_item(plan)], as_json=args.json)
        return
    from tailrace.cli import cluster_text

    cluster_text.show_plan(plan_item(plan))
    sys.stdout.flush()  # before the error of a plan that is refused


def show_done(args: argparse.Namespace, plan: Plan, quorum: QuorumDescription) -> None:
    item: Item = {
        "type": "done",
        "action": "added" if plan.action == "add" else "removed",
        "node": plan.node_id,
        "directory_id": str(plan.directory_id),
        "voters": list(ids(quorum.voters)),
        "notes": list(plan.notes),
    }
    majority = margin_of(quorum).majority
    words = (
        f"controller {plan.node_id} {item['action']}: {counted(len(quorum.voters), 'voter')}, a majority is {majority}"
    )
    say(args, item, words)
