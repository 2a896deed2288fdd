"""Searches a seed that finds each injected defect of a catalog."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import pytest

Patch = Callable[[pytest.MonkeyPatch], None]
"""Injects a defect until the end of a test."""


class SeededDefect(Protocol):
    @property
    def seed(self) -> int:
        """Of a run that finds it."""


D = TypeVar("D", bound=SeededDefect)


def search(defects: Sequence[D], found_by: Callable[[D, int], Exception | None]) -> None:
    """The command line: prints the seed of the catalog if it still finds the defect, else the first one that does."""
    arguments = argparse.ArgumentParser(description="find the seed that finds each injected defect")
    arguments.add_argument("--seeds", type=int, default=2_000, metavar="NUMBER", help="maximum seeds for a defect")
    arguments.add_argument("names", nargs="*", metavar="NAME", help="name of a defect")
    chosen = arguments.parse_args()
    for defect in defects:
        if chosen.names and str(defect) not in chosen.names:
            continue
        started = time.perf_counter()
        seeds = (defect.seed, *range(chosen.seeds))
        found = next(((seed, error) for seed in seeds if (error := found_by(defect, seed)) is not None), None)
        seconds = time.perf_counter() - started
        text = "not found" if found is None else f"seed {found[0]:4}"
        reason = "" if found is None else f": {str(found[1]).partition(chr(10))[0][:100]}"
        print(f"{text}  {seconds:6.1f} s  {defect}{reason}", flush=True)
