"""Runs hostile inputs through a reader and holds it to what every reader of ours promises of any bytes:

    errors   nothing but TailraceError leaves it
    time     an input takes less than CPU_SECONDS of processor time
    memory   an input of n bytes makes Python allocate at most 64·n + SLACK_BYTES, more only where the target says so
    verdict  the same input gets the same verdict, whichever form of the kernels runs

Every input has a generator of its own, made from the target's name, the seed and the input's number, so that a
failure is found again with `case_of`. Run as a program it does one target and prints one JSON object per line: how far
it is, then the figures. That is for a process of its own: another form of the kernels, a bound on memory, or a crash.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import random
import resource
import signal
import sys
import time
import traceback
import tracemalloc
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tailrace.model.errors import TailraceError
from tailrace.record import kernels

CPU_SECONDS = 10.0
SLACK_BYTES = 8 << 20
TRACED_EVERY = 16  # tracing makes an input take several times as long
PROGRESS_EVERY = 1000

SHARES = {
    "batches": 60_000,
    "codecs": 40_000,
    "leader sets": 40_000,
    "indexes": 20_000,
    "snapshots": 12_000,
    "checkpoints": 10_000,
    "tools": 8_000,
    "directories": 8_000,
    "appends": 4_000,
}
"""Inputs of each target in the long test; a soak keeps the proportions."""

CaseT = TypeVar("CaseT")


class Target(ABC, Generic[CaseT]):
    """A reader, or several of one kind of bytes."""

    name: str
    extra_bytes: int = 0
    """What it may allocate beyond the rule, for limits that are its own."""

    @abstractmethod
    def draw(self, chance: random.Random) -> CaseT:
        """A hostile input, with all that `read` needs to know."""

    @abstractmethod
    def size_of(self, case: CaseT) -> int:
        """Bytes of the input."""

    @abstractmethod
    def read(self, case: CaseT) -> object:
        """The verdict, which has a `repr` that tells it from others. Whatever is raised is a failure."""


def outcome(read: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a reader returns, or the typed error that it ends in; everything else it may raise passes through."""
    try:
        return read(*args, **kwargs)
    except TailraceError as error:
        return Refusal(error)


class Refusal:
    """A typed error as a part of a verdict."""

    def __init__(self, error: TailraceError) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@dataclass
class Tally:
    """Figures of one run. `verdicts` has a checksum for each input, in order."""

    target: str
    inputs: int = 0
    refusals: int = 0
    slowest_ms: int = 0
    peak_bytes: int = 0
    failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    verdicts: list[int] = field(default_factory=list)


class TookTooLong(BaseException):
    pass


def _too_long(_: int, __: object) -> None:
    raise TookTooLong(f"more than {CPU_SECONDS} seconds of processor time")


@contextmanager
def _watched() -> Iterator[None]:
    """Processor time, not the clock: a busy machine changes nothing, and pytest's own alarm is left alone.

    What is logged about so many damaged files nobody reads, but somebody would keep it.
    """
    before = signal.signal(signal.SIGVTALRM, _too_long)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def chance_of(target: Target[Any], seed: int, number: int) -> random.Random:
    return random.Random(f"{target.name} {seed} {number}")


def case_of(target: Target[CaseT], seed: int, number: int) -> CaseT:
    """The input that a failure names."""
    return target.draw(chance_of(target, seed, number))


def run(
    target: Target[Any], seed: int, count: int, first: int = 0, progress: Callable[[Tally], None] | None = None
) -> Tally:
    tally = Tally(target.name)
    with _watched():
        for number in range(first, first + count):
            case = case_of(target, seed, number)
            _run_one(target, case, tally, f"{target.name}, seed {seed}, input {number}", number % TRACED_EVERY == 0)
            if progress is not None and tally.inputs % PROGRESS_EVERY == 0:
                progress(tally)
    return tally


def _run_one(target: Target[Any], case: Any, tally: Tally, where: str, is_traced: bool) -> None:
    size = target.size_of(case)
    verdict: object = None
    if is_traced:
        tracemalloc.start()
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        verdict = target.read(case)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        _note(tally, f"{type(error).__name__} {place.name}", f"{where}:\n{traceback.format_exc(limit=-8)}")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        peak = tracemalloc.get_traced_memory()[1] if is_traced else 0
        if is_traced:
            tracemalloc.stop()
    tally.slowest_ms = max(tally.slowest_ms, int(1000 * (time.process_time() - started)))
    tally.peak_bytes = max(tally.peak_bytes, peak)
    if peak > 64 * size + SLACK_BYTES + target.extra_bytes:
        _note(tally, "memory", f"{where}: {size} bytes made it allocate {peak}")
    shown = repr(verdict)
    tally.inputs += 1
    tally.refusals += "Error: " in shown
    tally.verdicts.append(zlib.crc32(shown.encode("utf-8", "backslashreplace")))


def _note(tally: Tally, kind: str, failure: str) -> None:
    """One of each kind is enough to work with."""
    tally.failed += 1
    tally.failures.setdefault(kind, failure)


def all_targets() -> dict[str, Target[Any]]:
    """Loaded when asked for: the modules that hold them need this one."""
    modules = ("support.hostile.byte_readers", "support.hostile.files", "support.hostile.logs")
    found = [target for module in modules for target in importlib.import_module(module).TARGETS]
    return {target.name: target for target in found}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run hostile inputs through one reader.")
    parser.add_argument("target", choices=sorted(all_targets()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--memory-limit-bytes", type=int, help="of address space; beyond it, memory is refused")
    parser.add_argument("--verdicts", action="store_true", help="print the checksum of each verdict too")
    args = parser.parse_args()
    if args.memory_limit_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (args.memory_limit_bytes, args.memory_limit_bytes))

    def tell(tally: Tally) -> None:
        print(json.dumps({"inputs": tally.inputs, "failed": tally.failed}), flush=True)

    tally = run(all_targets()[args.target], args.seed, args.count, args.first, tell)
    figures = vars(tally) | {"compiled": kernels.COMPILED}
    if not args.verdicts:
        del figures["verdicts"]
    print(json.dumps(figures), flush=True)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    # One module, whether it is the program or imported by the targets: two would have two of every class.
    sys.exit(importlib.import_module("support.hostile.run").main())
