"""`tailrace group lag`: how far a group is behind, once, or measured again and again until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tailrace.cli.group_views import group_item, known_group, partition_item
from tailrace.cli.lag_meter import LagMeter, Pace
from tailrace.cli.lines import Item, print_items
from tailrace.cli.remote import connected
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.group_descriptions import GroupDescription


def run(args: argparse.Namespace) -> int:
    with connected(args) as cluster:
        admin = GroupAdmin(cluster)
        described = known_group(admin, args.group)
        if args.live:
            return follow(args, admin, described)
        lags = admin.lag(described)
    items = [group_item(described, lags), *(partition_item(described, each) for each in lags)]
    if args.json or not sys.stdout.isatty():
        print_items(items[1:], as_json=args.json)
        return 0
    from tailrace.cli import group_text

    group_text.show_lag(items)
    return 0


def follow(
    args: argparse.Namespace,
    admin: GroupAdmin,
    described: GroupDescription,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    meter = LagMeter()
    if args.json or not sys.stdout.isatty():
        while True:
            began_s = clock()
            pace = meter.measured(began_s, admin.lag(described))
            print_items([pace_item(described, pace)], as_json=args.json)
            sys.stdout.flush()
            pause(max(began_s + args.every - clock(), 0))
            described = known_group(admin, args.group)
    from tailrace.cli.lag_view import LagScreen

    with LagScreen() as screen:
        while True:
            began_s = clock()
            screen.show(described, meter.measured(began_s, admin.lag(described)))
            pause(max(began_s + args.every - clock(), 0))
            described = known_group(admin, args.group)


def pace_item(described: GroupDescription, pace: Pace) -> Item:
    left_s = pace.caught_up_in_s
    return {
        "type": "lag",
        "group": described.group_id,
        "at_ms": time.time_ns() // 1_000_000,
        "state": described.state,
        "members": len(described.members),
        "lag": pace.lag,
        "read_per_s": round(pace.read_per_s, 1),
        "written_per_s": round(pace.written_per_s, 1),
        "caught_up_in_s": None if left_s is None else round(left_s, 1),
    }
