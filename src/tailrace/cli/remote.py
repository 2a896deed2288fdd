"""A cluster for a command: connected, and its errors turned into what a person can do about them."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.cli.output import CommandError
from tailrace.cli.remote_args import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from tailrace.client.caller import Caller
from tailrace.client.cluster import Cluster, Topic
from tailrace.client.controllers import Controllers
from tailrace.client.errors import (
    MISMATCHED_ENDPOINT_TYPE,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerUnreachableError,
    NoActiveControllerError,
    NoAnswerError,
    NotAControllerError,
)
from tailrace.model.errors import TailraceError

MOST_NAMES = 8
ASK_CONTROLLERS: Final = (
    "ask the controllers: `tailrace cluster quorum --bootstrap-controller HOST:PORT`; or raise --timeout"
)


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Cluster]:
    bootstrap = args.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    with Cluster(bootstrap, timeout_s=args.timeout) as cluster:
        try:
            yield cluster
        except BrokerUnreachableError as error:
            raise CommandError(
                str(error),
                f"start one with `tailrace serve`, or pass its address: --bootstrap HOST:PORT or {BOOTSTRAP_VARIABLE}",
            ) from error
        except TailraceError as error:
            if error.code != MISMATCHED_ENDPOINT_TYPE:
                raise
            text = f"{bootstrap} is a listener of a controller, not of a broker"
            raise CommandError(text, NotAControllerError.hint) from error


@contextmanager
def connected_to_controllers(args: argparse.Namespace) -> Iterator[Caller]:
    """By --bootstrap-controller if it is given, else like `connected`."""
    if args.bootstrap_controller is None:
        with connected(args) as cluster:
            try:
                yield cluster
            except NoAnswerError as error:
                raise CommandError(f"{error}: no controller may be active", ASK_CONTROLLERS) from error
        return
    with Controllers(args.bootstrap_controller, timeout_s=args.timeout) as controllers:
        try:
            yield controllers
        except BrokerUnreachableError as error:
            text = str(error).replace("no broker at", "no controller at", 1)
            hint = "check the address, and that a controller listener is there: see controller.listener.names"
            raise CommandError(text, hint) from error
        except NoActiveControllerError as error:
            raise CommandError(f"{error}{accepting_controllers(controllers)}", error.hint) from error


def accepting_controllers(controllers: Controllers) -> str:
    """Which of the known ones run, as the end of an error."""
    found = controllers.accepting()
    groups = (
        ("controllers that accept connections", [str(each) for each, accepts in found.items() if accepts]),
        ("controllers that do not", [str(each) for each, accepts in found.items() if not accepts]),
    )
    return "".join(f"; {title}: {', '.join(ids)}" for title, ids in groups if ids)


def known_topic(cluster: Cluster, name: str, *, may_be_new: bool = False) -> Topic:
    """CommandError with similar names when it does not exist; with `may_be_new`, also with how to create it."""
    try:
        return cluster.topic(name)
    except TailraceError as error:
        if error.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise
        next_step = f"create it: {creating(name)}" if may_be_new else "see which there are: tailrace topic list"
        raise unknown_topic(cluster, name, next_step) from error


def unknown_topic(cluster: Cluster, name: str, next_step: str) -> CommandError:
    names = [topic.name for topic in cluster.topics() if not topic.is_internal]
    return CommandError(f"there is no topic {name}", f"{near(name, names)}{next_step}")


def near(name: str, names: list[str], nouns: str = "topics") -> str:
    """Names that may have been meant, as the beginning of a hint."""
    folded = {each.lower(): each for each in names}
    close = [folded[each] for each in difflib.get_close_matches(name.lower(), folded, n=3)]
    if close:
        return f"did you mean {' or '.join(close)}? else "
    if not names:
        return f"there are no {nouns} yet; "
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"there are {', '.join(names[:MOST_NAMES])}{more}; "


def creating(name: str) -> str:
    return f"tailrace topic create {shlex.quote(name)}"


def confirmed(question: str, *, is_sure: bool) -> None:
    """CommandError unless a person at the terminal says yes, or --yes was given."""
    if is_sure:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(f"no terminal to confirm on: {question}", "pass --yes to proceed without confirmation")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done", "answer y to do it")
