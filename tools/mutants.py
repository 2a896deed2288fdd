"""Mutation testing: do the tests notice when a line of `src` is wrong?

    tools/mutants.py list                    which mutants of tools/mutants.toml apply to the tree
    tools/mutants.py reach                   run the tests once and record which of them execute which mutant's line
    tools/mutants.py run                     run these tests against each mutant until one fails, at most 60 s
    tools/mutants.py compare BEFORE AFTER    mutants that BEFORE killed and AFTER does not
    tools/mutants.py refill                  replace mutants that are rejected or no longer apply
    tools/mutants.py generate                choose a new list by a seed

Everything runs on private copies of the tree, with interpreted kernels; `--tree` names another tree than this one, for
example a clone of an older commit. Results go to `.mutants` in the current folder, unless `--out` names another file.

A mutant is one changed line; module, function and the text of the line identify it. When a change of `src` renames one
of these, `list` shows the mutants that no longer apply. Edit their names or texts in tools/mutants.toml, or replace
them with `refill`. Mutants that change nothing that a test can see belong under `rejected` there, with the reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutation_testing import candidates, catalog, reach, trials

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutants.toml"
RESULTS = Path(".mutants")


def numbers(text: str) -> set[int]:
    return {int(number) for number in text.split(",")}


def parser() -> argparse.ArgumentParser:
    commands = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands.add_argument(
        "--list", type=Path, default=LIST, metavar="FILE", help="list of mutants (default: tools/mutants.toml)"
    )
    commands.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="tree to test (default: this one)")
    added = commands.add_subparsers(dest="command", required=True)
    added.add_parser("list", help="show which mutants apply").set_defaults(run=run_list)

    command = added.add_parser("refill", help="replace mutants that are rejected or no longer apply")
    command.set_defaults(run=run_refill)

    command = added.add_parser("generate", help="choose a new list by a seed")
    command.add_argument("--seed", type=int, metavar="N", help="seed of the choice (default: that of the list)")
    command.add_argument("--count", type=int, metavar="N", help="number of mutants (default: that of the list)")
    command.set_defaults(run=run_generate)

    command = added.add_parser("reach", help="record which tests execute which mutant's line")
    command.add_argument("--out", type=Path, default=RESULTS / "reach.json", metavar="FILE", help="result")
    command.add_argument("--long", action="store_true", help="only the long tests, instead of all others")
    command.add_argument("-n", dest="workers", default="2", metavar="N", help="test processes (default: 2)")
    command.add_argument("paths", nargs="*", metavar="TEST", help="only these folders, files or tests")
    command.set_defaults(run=run_reach)

    command = added.add_parser("run", help="run the tests against the mutants")
    command.add_argument(
        "--reach", type=Path, nargs="+", default=[RESULTS / "reach.json"], metavar="FILE", help="results of `reach`"
    )
    command.add_argument("--out", type=Path, default=RESULTS / "results.json", metavar="FILE", help="result")
    command.add_argument("--only", type=numbers, metavar="N,…", help="only these mutants")
    command.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time (default: 2)")
    command.add_argument("--seconds", type=float, default=60, metavar="N", help="time for each (default: 60)")
    command.add_argument("--resume", action="store_true", help="keep the results that the file has already")
    command.set_defaults(run=run_run)

    command = added.add_parser("compare", help="show which mutants are no longer killed")
    command.add_argument("before", type=Path, metavar="BEFORE", help="results of `run`")
    command.add_argument("after", type=Path, metavar="AFTER", help="results of `run`")
    command.set_defaults(run=run_compare)
    return commands


def run_list(args: argparse.Namespace) -> int:
    mutants = catalog.read(args.list).mutants
    locations, reasons = catalog.locate_all(mutants, args.tree / "src")
    for number, reason in sorted(reasons.items()):
        print(f"{number:>4}  {reason}")
    counts = Counter(mutant.package for mutant in mutants)
    print(f"{len(locations)} of {len(mutants)} mutants apply to {args.tree}")
    print("by package:", ", ".join(f"{package} {count}" for package, count in sorted(counts.items())))
    return 1 if reasons else 0


def run_generate(args: argparse.Namespace) -> int:
    old = catalog.read(args.list) if args.list.exists() else catalog.Catalog(args.seed or 0, ())
    seed = old.seed if args.seed is None else args.seed
    made = candidates.generate(args.tree / "src", seed, args.count or len(old.mutants), old.rejected)
    args.list.write_text(catalog.render(made), encoding="utf-8")
    return 0


def run_refill(args: argparse.Namespace) -> int:
    old = catalog.read(args.list)
    filled = candidates.refill(args.tree / "src", old)
    args.list.write_text(catalog.render(filled), encoding="utf-8")
    for mutant in sorted({*filled.mutants} - {*old.mutants}, key=lambda mutant: mutant.number):
        print(f"{mutant.number:>4}  {mutant.module}.{mutant.name}\n      - {mutant.old}\n      + {mutant.new}")
    return 0


def run_reach(args: argparse.Namespace) -> int:
    args.out.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["-n", args.workers, "-m", "long" if args.long else "not long", *args.paths]
    found = reach.measure(args.tree, catalog.read(args.list).mutants, arguments, args.out.with_suffix(".txt"))
    reach.dump(found, args.out)
    failed = [test for test, facts in found.tests.items() if facts.outcome == "failed"]
    for test in failed:
        print(f"failed without a mutant, so it kills none: {test}")
    for number in sorted(found.keys.keys() - found.reached.keys()):
        print(f"mutant {number} is {'reached outside of tests only' if number in found.outside else 'not reached'}")
    reached = len(found.reached.keys() & found.keys.keys())
    print(f"{reached} of {len(found.keys)} mutants are reached by {len(found.tests)} tests: {args.out}")
    return 0


def run_run(args: argparse.Namespace) -> int:
    mutants = {mutant.number: mutant for mutant in catalog.read(args.list).mutants}
    found = reach.Reach()
    for path in args.reach:
        found.merge(reach.load(path))
    results: dict[int, trials.Result] = {}
    if (args.resume or args.only) and args.out.exists():
        results = {
            result.number: result
            for result in trials.load(args.out)
            if result.number in mutants and mutants[result.number].key == result.key
        }
    wanted = args.only if args.only else mutants.keys() - results.keys()

    def report(result: trials.Result) -> None:
        results[result.number] = result
        trials.dump(results.values(), args.out)
        print(f"{result.number:>4}  {result.status}  {result.test or result.reason}", flush=True)

    trials.judge_all(
        args.tree,
        [mutants[number] for number in sorted(wanted)],
        found,
        limit_s=args.seconds,
        jobs=args.jobs,
        logs=args.out.with_suffix(".logs"),
        now_s=time.monotonic,
        report=report,
    )
    print()
    print(trials.table([*results.values()], mutants), end="")
    return 0


def run_compare(args: argparse.Namespace) -> int:
    lost = trials.compare(trials.load(args.before), trials.load(args.after))
    for before, after in lost:
        status = "no result" if after is None else f"{after.status} {after.test or after.reason}".rstrip()
        print(f"{before.number:>4}  {status}\n      was killed by {before.test}")
    print(f"{len(lost)} mutants are no longer killed")
    return 1 if lost else 0


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except (catalog.CatalogError, reach.IncompleteRunError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
