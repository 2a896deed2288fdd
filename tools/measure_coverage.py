"""`make coverage`: line and branch coverage of `src` by the tests.

Kernels run interpreted, so that their lines count. Every process that the tests start is measured, except those that
get SIGKILL: they leave no data. Measuring makes tests slow and a few of them fail; the lines that they execute count.
On Python 3.14 and later the measurement uses sys.monitoring, before that Coverage's tracer in C.

The result goes to `.coverage-results/` in the tree: `coverage.json`, which `--against` compares with, the output of
pytest, and `data` for Coverage's own reports (`coverage html --data-file .coverage-results/data`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ".coverage-results"
TOLERANCE = 0.2
MAX_FILES = 20
TIMEOUT_S = 3600  # of one test
COMPLETED = (0, 1)  # exit codes of pytest after which every test has run

SETTINGS = """\
[run]
branch = true
parallel = true
data_file = {data}
source = {source}
patch = fork, _exit
sigterm = true
disable_warnings = no-data-collected, module-not-measured, module-not-imported, already-imported, trace-changed

[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
"""


class CoverageError(Exception):
    """No result: what failed, and a hint."""


@dataclass(frozen=True)
class Count:
    """Covered lines or branches of how many."""

    covered: int = 0
    of: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.covered + other.covered, self.of + other.of)

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.of if self.of else 100.0


@dataclass(frozen=True)
class Figures:
    lines: Count = Count()
    branches: Count = Count()

    def __add__(self, other: Figures) -> Figures:
        return Figures(self.lines + other.lines, self.branches + other.branches)


def figures_of(report: Mapping[str, Any], source: str) -> dict[str, Figures]:
    """By path below `source`, out of Coverage's JSON report."""
    found = {}
    for path, facts in report["files"].items():
        summary = facts["summary"]
        found[os.path.relpath(path, source)] = Figures(
            Count(summary["covered_lines"], summary["num_statements"]),
            Count(summary["covered_branches"], summary["num_branches"]),
        )
    return found


def package_of(path: str) -> str:
    """`tailrace.storage` for `tailrace/storage/segment.py`; `tailrace` for its own modules."""
    return ".".join(Path(path).parts[:-1][:2])


def by_package(files: Mapping[str, Figures]) -> dict[str, Figures]:
    packages: dict[str, Figures] = {}
    for path, figures in files.items():
        packages[package_of(path)] = packages.get(package_of(path), Figures()) + figures
    return dict(sorted(packages.items()))


def total_of(parts: Iterable[Figures]) -> Figures:
    return sum(parts, Figures())


def to_json(files: Mapping[str, Figures]) -> dict[str, Any]:
    def plain(figures: Figures) -> dict[str, Any]:
        return {
            name: {"covered": count.covered, "of": count.of, "percent": round(count.percent, 3)}
            for name, count in (("lines", figures.lines), ("branches", figures.branches))
        }

    return {
        "total": plain(total_of(files.values())),
        "packages": {package: plain(figures) for package, figures in by_package(files).items()},
        "files": {path: plain(figures) for path, figures in sorted(files.items())},
    }


def from_json(document: Mapping[str, Any]) -> dict[str, Figures]:
    def count(entry: Mapping[str, Any]) -> Count:
        return Count(entry["covered"], entry["of"])

    return {path: Figures(count(entry["lines"]), count(entry["branches"])) for path, entry in document["files"].items()}


def table(files: Mapping[str, Figures], before: Mapping[str, Figures] | None = None) -> str:
    """One row per package; with `before` also the change in points, and the files that lost most."""
    earlier = by_package(before or {})
    rows = [*by_package(files).items(), ("total", total_of(files.values()))]
    earlier["total"] = total_of(earlier.values())
    lines = [f"{'':<24}{'lines':>22}{'branches':>32}"]
    for name, figures in rows:
        was = earlier.get(name) if before is not None else None
        lines += [
            f"{name:<24}"
            f"{cell(figures.lines)}{change(figures.lines, was and was.lines)}"
            f"{cell(figures.branches)}{change(figures.branches, was and was.branches)}".rstrip()
        ]
    if before is not None:
        lines += losses(files, before)
    return "\n".join(lines) + "\n"


def cell(count: Count) -> str:
    return f"{count.percent:>8.2f} % {f'{count.covered}/{count.of}':>13}"


def change(count: Count, before: Count | None) -> str:
    return f"{'':>9}" if before is None else f"{count.percent - before.percent:>+9.2f}"


def losses(files: Mapping[str, Figures], before: Mapping[str, Figures]) -> list[str]:
    """The files with more lines and branches uncovered than before, worst first."""
    lost = {
        path: (uncovered(figures) - uncovered(before[path]), figures)
        for path, figures in files.items()
        if path in before and uncovered(figures) > uncovered(before[path])
    }
    worst = sorted(lost.items(), key=lambda item: (-item[1][0], item[0]))[:MAX_FILES]
    return [f"{path}: {missing(before[path])} → {missing(figures)} not covered" for path, (_, figures) in worst]


def missing(figures: Figures) -> str:
    lines, branches = (count.of - count.covered for count in (figures.lines, figures.branches))
    return f"{lines} lines, {branches} branches"


def uncovered(figures: Figures) -> int:
    return figures.lines.of - figures.lines.covered + figures.branches.of - figures.branches.covered


def greatest_drop(files: Mapping[str, Figures], before: Mapping[str, Figures]) -> float:
    """Of the total line and branch coverage, in points."""
    now, then = total_of(files.values()), total_of(before.values())
    return round(max(then.lines.percent - now.lines.percent, then.branches.percent - now.branches.percent), 3)


def measure(tree: Path, arguments: Sequence[str], results: Path) -> dict[str, Figures]:
    """Run pytest in the tree with these arguments, every process measured."""
    python = tree / ".venv" / "bin" / "python"
    interpreter = str(python if python.exists() else sys.executable)
    if subprocess.run([interpreter, "-c", "import coverage"], capture_output=True, check=False).returncode:
        raise CoverageError(
            f"Coverage is not installed for {interpreter}\nhint: run make setup, or pip install coverage"
        )
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        settings, raw, report = (Path(folder) / name for name in ("settings", "raw", "report.json"))
        raw.mkdir()
        settings.write_text(SETTINGS.format(data=raw / "data", source=tree / "src"), encoding="utf-8")
        environment = {**os.environ, "CI": "true", "TAILRACE_KERNELS": "interpreted"}
        options = ["-q", "-p", "no:cacheprovider", f"--timeout={TIMEOUT_S}"]
        with (results / "pytest.txt").open("wb") as output:
            done = subprocess.run(
                [interpreter, "-m", "pytest", *options, *arguments],
                cwd=tree,
                env={**environment, "COVERAGE_PROCESS_START": str(settings)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode not in COMPLETED:
            raise CoverageError(f"pytest ended with exit code {done.returncode}\nhint: see {results / 'pytest.txt'}")
        print(f"{len(list(raw.iterdir()))} processes measured", file=sys.stderr)
        for command in (
            ["combine", "--quiet", f"--data-file={results / 'data'}", str(raw)],
            ["json", "--quiet", f"--data-file={results / 'data'}", "-o", str(report)],
        ):
            subprocess.run(
                [interpreter, "-m", "coverage", command[0], f"--rcfile={settings}", *command[1:]], cwd=tree, check=True
            )
        return figures_of(json.loads(report.read_text(encoding="utf-8")), str(tree / "src"))


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    options.add_argument("--long", action="store_true", help="run the long tests, too")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options.add_argument("--against", type=Path, metavar="FILE", help="compare with this earlier coverage.json")
    options.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="POINTS",
        help=f"exit with 1 if --against shows a greater drop of the total (default: {TOLERANCE})",
    )
    options.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="tree to measure (default: this one)")
    options.add_argument("-n", dest="workers", default="2", metavar="N", help="test processes (default: 2)")
    options.add_argument("paths", nargs="*", metavar="TEST", help="only these folders, files or tests")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    tree = args.tree.resolve()
    results = tree / RESULTS
    try:
        before = None if args.against is None else from_json(json.loads(args.against.read_text(encoding="utf-8")))
        chosen = [] if args.long else ["-m", "not long"]
        files = measure(tree, ["-n", args.workers, *chosen, *args.paths], results)
    except (CoverageError, OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    document = json.dumps(to_json(files), indent=1) + "\n"
    (results / "coverage.json").write_text(document, encoding="utf-8")
    print(document if args.json else table(files, before), end="")
    return int(before is not None and greatest_drop(files, before) > args.tolerance)


if __name__ == "__main__":
    sys.exit(main())
