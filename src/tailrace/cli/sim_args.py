"""Parameters of simulated runs on the command line: read, checked, and written as a command that replays a run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.cli.output import CommandError

if TYPE_CHECKING:
    from tailrace.sim.scenarios import ScenarioParameters

DEFAULT_SCENARIO: Final = "nodes"
MAX_HOURS: Final = 1_000_000


class Parameter(NamedTuple):
    option: str
    name: str
    """Of the field of `ScenarioParameters`."""
    read: Callable[[str], Any]
    metavar: str
    default: float | None
    """None: it depends on the scenario, as the help says."""
    help: str


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low:g} to {high:g}")
        return value

    return read


hours = number(0.0001, MAX_HOURS)

PARAMETERS: Final = (
    Parameter("--brokers", "brokers", whole(1, 100), "N", 3, "number of brokers"),
    Parameter("--clients", "clients", whole(1, 100), "N", 1, "number of clients for each broker"),
    Parameter(
        "--rate",
        "rate",
        number(0.001, 1000),
        "R",
        None,
        "maximum requests per second of a client (default: 10 in nodes, 1 in quorum)",
    ),
    Parameter("--faults-per-minute", "faults_per_minute", number(0, 600), "R", 20, "mean number of faults per minute"),
    Parameter("--seconds", "seconds", whole(1, 86_400), "N", 60, "simulated time with faults of a seed"),
)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("parameters of a run")
    group.add_argument(
        "--scenario",
        default=DEFAULT_SCENARIO,
        metavar="NAME",
        help="what to simulate: nodes (each its own controller, with clients) or quorum (three or five controllers, "
        f"brokers and administrators) (default: {DEFAULT_SCENARIO})",
    )
    for each in PARAMETERS:
        text = each.help if each.default is None else f"{each.help} (default: {each.default:g})"
        group.add_argument(
            each.option, dest=each.name, type=each.read, default=each.default, metavar=each.metavar, help=text
        )


def parameters_of(args: argparse.Namespace) -> ScenarioParameters:
    from tailrace.sim.scenarios import SCENARIOS, ScenarioParameters

    if args.scenario not in SCENARIOS:
        raise CommandError(f"there is no scenario {args.scenario!r}", f"the scenarios are: {', '.join(SCENARIOS)}")
    return ScenarioParameters(**{each.name: getattr(args, each.name) for each in PARAMETERS})


def replay_command(args: argparse.Namespace, seed: int) -> str:
    """The command that runs the seed with the same parameters."""
    words = ["tailrace sim replay", str(seed)]
    if args.scenario != DEFAULT_SCENARIO:
        words += ["--scenario", args.scenario]
    for each in PARAMETERS:
        value = getattr(args, each.name)
        if value != each.default:
            words += [each.option, f"{value:g}" if float(f"{value:g}") == value else repr(value)]
    return " ".join(words)
