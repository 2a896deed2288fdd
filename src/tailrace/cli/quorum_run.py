"""`tailrace cluster quorum`: the metadata quorum, once, or again and again until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from tailrace.cli.cluster_run import show
from tailrace.cli.lines import Item, print_items
from tailrace.cli.remote import connected_to_controllers
from tailrace.client.caller import Caller
from tailrace.client.feature_admin import FeatureAdmin
from tailrace.client.quorum_admin import UNKNOWN_TIME_MS, QuorumAdmin, QuorumDescription, QuorumReplica
from tailrace.client.quorum_health import health_of, leader_time_ms, margin_of, problems_of
from tailrace.metadata.versions import KRAFT_VERSION
from tailrace.model.errors import TailraceError
from tailrace.model.ids import ZERO_DIRECTORY_ID

MAX_LIVE_WAIT_S: Final = 5.0
"""How long a live view waits for a leader before it shows the quorum without a leader."""


def run(args: argparse.Namespace) -> int:
    with connected_to_controllers(args) as caller:
        if args.live:
            return follow(args, caller)
        items = quorum_items(QuorumAdmin(caller).describe(), kraft_version(caller))
    return show(args, items, "show_quorum")


def kraft_version(caller: Caller) -> int:
    """0: the voters are settings; 1: they are records of the metadata log, and can be changed."""
    return next((each.level or 0 for each in FeatureAdmin(caller).features() if each.name == KRAFT_VERSION), 0)


def follow(
    args: argparse.Namespace,
    caller: Caller,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """A quorum without a leader is shown like any other state: the view goes on when there is one again."""
    if args.json or not sys.stdout.isatty():
        while True:
            began_s = clock()
            print_items(present_items(args, caller), as_json=args.json)
            sys.stdout.flush()
            pause(max(began_s + args.every - clock(), 0))
    from tailrace.cli.cluster_text import show_quorum
    from tailrace.cli.live_screen import LiveScreen

    with LiveScreen() as screen:
        while True:
            began_s = clock()
            show_quorum(present_items(args, caller), screen.frame())
            screen.show()
            pause(max(began_s + args.every - clock(), 0))


def present_items(args: argparse.Namespace, caller: Caller) -> list[Item]:
    try:
        with caller.within(caller.deadline(min(args.timeout, MAX_LIVE_WAIT_S))):
            return quorum_items(QuorumAdmin(caller).describe(), kraft_version(caller))
    except TailraceError as error:
        return quorum_items(QuorumDescription(-1, -1, -1, (), (), {}), None, str(error))


def quorum_items(quorum: QuorumDescription, version: int | None, error: str | None = None) -> list[Item]:
    """One `quorum`, then a `replica` for each voter and observer."""
    margin = margin_of(quorum)
    items: list[Item] = [
        {
            "type": "quorum",
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": len(quorum.voters),
            "observers": len(quorum.observers),
            "kraft_version": version,
            "majority": margin.majority if quorum.voters else None,
            "caught_up": margin.caught_up,
            "may_fail": max(margin.spare, 0),
            "problems": list(problems_of(quorum)) if error is None else [error],
        }
    ]
    end = max((each.log_end_offset for each in (*quorum.voters, *quorum.observers)), default=0)
    items += [replica_item(quorum, each, "voter", end) for each in quorum.voters]
    items += [replica_item(quorum, each, "observer", end) for each in quorum.observers]
    return items


def replica_item(quorum: QuorumDescription, replica: QuorumReplica, role: str, end: int) -> Item:
    is_leader = replica.node_id == quorum.leader_id and role == "voter"
    return {
        "type": "replica",
        "node": replica.node_id,
        "role": "leader" if is_leader else role,
        "health": health_of(quorum, replica).value,
        "log_end": replica.log_end_offset,
        "lag": end - replica.log_end_offset,
        "fetched_ms_ago": age_ms(quorum, replica.last_fetch_ms),
        "caught_up_ms_ago": age_ms(quorum, replica.last_caught_up_ms),
        "directory_id": str(replica.directory_id) if replica.directory_id != ZERO_DIRECTORY_ID else None,
        "endpoints": list(quorum.endpoints.get(replica.node_id, ())) if role == "voter" else [],
    }


def age_ms(quorum: QuorumDescription, time_ms: int) -> int | None:
    now_ms = leader_time_ms(quorum)
    return None if now_ms is None or time_ms == UNKNOWN_TIME_MS else max(now_ms - time_ms, 0)
