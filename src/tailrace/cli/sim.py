"""`tailrace sim`: the cluster simulator. Light: the simulator is loaded when a command runs."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_group, at_least_one, not_negative
from tailrace.cli.sim_args import add_parameters, hours

RUN: Final = """\
Run a simulated cluster with faults, one seed after the other, and check what it promises to its clients. Prints each
failed seed with the command that replays it, and a summary. The exit code is 1 if a seed has failed.
"""
RUN_EXAMPLES: Final = """\
examples:
  tailrace sim run                                  one simulated hour, beginning with seed 1
  tailrace sim run --seed 1000 --hours 24 --workers 4
  tailrace sim run --seeds 1 --seconds 10 --brokers 5
  tailrace sim run --json | jq -r 'select(.type == "failure") | .replay'

The results do not depend on --workers. docs/simulator.md describes the faults and what is checked.
"""
REPLAY: Final = """\
Run one seed again and show what happened in it. A seed with the same parameters gives the same events. The exit code is
1 if the run fails.
"""
REPLAY_EXAMPLES: Final = """\
examples:
  tailrace sim replay 17 --log - | less             the events of seed 17
  tailrace sim replay 17 --until 3345 --diagram run.html
  tailrace sim replay 17 --list-faults > faults.txt
  tailrace sim replay 17 --faults faults.txt        with another fault schedule
  tailrace sim replay 17 --minimize > faults.txt    the faults that a failing run needs

Pass the parameters that the run had: `tailrace sim run` prints the complete command for a failed seed.
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "sim", "run a simulated cluster with faults, and replay its runs")
    _register_run(commands)
    _register_replay(commands)


def _register_run(commands: Subparsers) -> None:
    parser = add_command(commands, "run", "run seeds and report those that fail", RUN, RUN_EXAMPLES, run)
    group = parser.add_argument_group("seeds")
    group.add_argument("--seed", type=not_negative, default=1, metavar="N", help="first seed (default: 1)")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--hours", type=hours, metavar="H", help="simulated hours of all seeds together (default: 1)")
    length.add_argument("--seeds", type=at_least_one, metavar="N", help="number of seeds, instead of --hours")
    group.add_argument(
        "--workers", type=_workers, default=1, metavar="N", help="number of processes that run seeds (default: 1)"
    )
    group.add_argument(
        "--max-failures", type=at_least_one, default=10, metavar="N", help="stop after N failed seeds (default: 10)"
    )
    add_parameters(parser)
    parser.add_argument_group("output").add_argument(
        "--json", action="store_true", help="one JSON object per line: each failed seed, then a summary"
    )


def _register_replay(commands: Subparsers) -> None:
    parser = add_command(commands, "replay", "run one seed again and show its events", REPLAY, REPLAY_EXAMPLES, replay)
    parser.add_argument("seed", type=not_negative, metavar="SEED", help="seed of the run")
    group = parser.add_argument_group("replay")
    group.add_argument(
        "--until", type=at_least_one, metavar="EVENT", help="end the run after the event with this number"
    )
    group.add_argument("--faults", metavar="FILE", help="fault schedule to inject, instead of the one of the seed")
    mode = group.add_mutually_exclusive_group()
    mode.add_argument("--list-faults", action="store_true", help="print the fault schedule and do not run")
    mode.add_argument(
        "--minimize", action="store_true", help="print a minimal fault schedule with which the run still fails"
    )
    add_parameters(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--log", metavar="FILE", help="write the event log to FILE; - is standard output")
    output.add_argument(
        "--diagram", metavar="FILE", help="write an HTML space-time diagram of the last 2,000 events to FILE"
    )
    output.add_argument("--json", action="store_true", help="print the result as a JSON object")


def _workers(text: str) -> int:
    count = at_least_one(text)
    if count > 256:
        raise argparse.ArgumentTypeError(f"{count} is more than 256 processes")
    return count


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import sim_run

    return sim_run.run(args)


def replay(args: argparse.Namespace) -> int:
    from tailrace.cli import sim_replay

    return sim_replay.run(args)
