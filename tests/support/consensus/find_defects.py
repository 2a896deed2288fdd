"""Searches a seed that finds each injected defect, after a change of the core or the simulation.

    PYTHONPATH=tests python -m support.consensus.find_defects --seeds 2000 [NAME…]

Prints a line for each defect. With --update the seeds are written to the catalogs.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from support.consensus.fault_schedule import run_of
from support.consensus.injected_defects import CATALOGS, DEFECTS
from support.consensus.injection import Defect, found_by


def find(defect: Defect, seeds: int) -> tuple[int, Exception] | None:
    """The seed of the catalog if it still finds the defect, else the first one."""
    for seed in (defect.seed, *range(seeds)):
        error = found_by(defect, lambda seed=seed: run_of(defect, seed))
        if error is not None:
            return seed, error
    return None


def write_seed(defect: Defect, seed: int) -> None:
    catalog = next(catalog for catalog in CATALOGS if defect in catalog.DEFECTS)
    path = Path(catalog.__file__ or "")
    text = path.read_text()
    head = rf'(        "{re.escape(defect.name)}",.*\n(?:        .*\n)*?        )'
    pattern = re.compile(head + r"\d+(,\n(?:        has_slow_reads=True,\n)?    \))")
    changed, count = pattern.subn(rf"\g<1>{seed}\g<2>", text, count=1)
    if count != 1:
        raise LookupError(f"{defect.name} is not in {path}")
    path.write_text(changed)


def main() -> None:
    arguments = argparse.ArgumentParser(description="find the seed that finds each injected defect")
    arguments.add_argument("--seeds", type=int, default=2_000, metavar="NUMBER", help="maximum seeds for a defect")
    arguments.add_argument("--update", action="store_true", help="write the seeds to the catalog")
    arguments.add_argument("names", nargs="*", metavar="NAME", help="beginning of the name of a defect")
    chosen = arguments.parse_args()
    for defect in DEFECTS:
        if chosen.names and not any(defect.name.startswith(name) for name in chosen.names):
            continue
        started = time.perf_counter()
        found = find(defect, chosen.seeds)
        seconds = time.perf_counter() - started
        if found is None:
            print(f"not found  {seconds:6.1f} s  {defect.name}", flush=True)
            continue
        seed, error = found
        print(f"seed {seed:4}  {seconds:6.1f} s  {defect.name}: {str(error)[:90]}", flush=True)
        if chosen.update:
            write_seed(defect, seed)


if __name__ == "__main__":
    main()
