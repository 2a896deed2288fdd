"""The generator of the list: candidates of every kind, and a seeded choice among them that covers every package.

Candidates are single lines inside functions, because no single test executes a line that runs at import. The
generator leaves out generated modules, text of exceptions, assertions, `__repr__`, and functions whose results are
cached for the life of the process, because only the first test that needs them executes them.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mutation_testing.catalog import FUNCTIONS, Catalog, Mutant, Rejected, functions, locate_all, own_lines, package_of

GENERATED = re.compile(r"^# (Made|Generated) by tools/", re.MULTILINE)
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
CYCLE = ("comparison", "removed", "constant", "comparison", "removed", "constant", "swapped")
SYMMETRIC = {"isinstance", "issubclass", "max", "min", "zip", "print", "range"}
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Match)
CACHES = {"cache", "lru_cache", "cached_property", "overload"}


class Edit(NamedTuple):
    """A replacement within one line; columns are those of the AST, in bytes."""

    kind: str
    line: int
    start: int
    end: int
    text: str


def skipped_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Lines of a function that no candidate may be on."""
    lines: set[int] = set()
    for node in (node for statement in function.body for node in ast.walk(statement)):
        is_call = isinstance(node, ast.Call) and (is_log(node.func) or name_of(node.func) in ("invariant", "cast"))
        is_declaration = isinstance(node, ast.AnnAssign) and node.value is None
        if is_call or is_declaration or isinstance(node, SKIPPED):
            lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def is_log(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and name_of(function.value).strip("_") in ("log", "logger")


def edits(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Edit]:
    """Every change of a known kind in the function's own lines."""
    lines = own_lines(function) - skipped_lines(function)
    for node in (node for statement in function.body for node in ast.walk(statement)):
        if getattr(node, "lineno", None) not in lines or node.lineno != node.end_lineno:
            continue
        match node:
            case ast.Compare(ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
                yield Edit(
                    "comparison", node.lineno, node.left.end_col_offset, right.col_offset, type(operator).__name__
                )
            case ast.Constant(value=bool(value)):
                yield Edit("constant", node.lineno, node.col_offset, node.end_col_offset, str(not value))
            case ast.Constant(value=int(value)):
                yield Edit("constant", node.lineno, node.col_offset, node.end_col_offset, str(value + 1))
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue():
                yield Edit("removed", node.lineno, node.col_offset, node.end_col_offset, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield Edit("removed", node.lineno, node.col_offset, node.end_col_offset, "pass")
            case ast.Call(args=[_, _, *_]) if name_of(node.func) not in SYMMETRIC:
                yield from swaps(node)


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def swaps(call: ast.Call) -> Iterator[Edit]:
    """Each pair of neighboring arguments of one form; others mostly end in a TypeError, which any test finds.

    `text` has the columns where the first ends and the second begins.
    """
    for first, second in zip(call.args, call.args[1:], strict=False):
        if type(first) is type(second) is not ast.Starred and ast.dump(first) != ast.dump(second):
            bounds = f"{first.end_col_offset} {second.col_offset}"
            yield Edit("swapped", call.lineno, first.col_offset, second.end_col_offset or 0, bounds)


def replaced(line: str, edit: Edit) -> str | None:
    """The line after the edit, without its indentation; None if the edit is not possible there."""
    source = line.encode()
    before, middle, after = source[: edit.start], source[edit.start : edit.end], source[edit.end :]
    text = edit.text
    if edit.kind == "removed" and (before.strip() or after.strip()):
        return None  # part of a longer line
    if edit.kind == "comparison":
        old, new = next(pair for kind, pair in COMPARISONS.items() if kind.__name__ == text)
        text = re.sub(rf"(?<!\S){old}(?!\S)", new, middle.decode(), count=1)
    elif edit.kind == "swapped":
        end_of_first, start_of_second = (int(bound) - edit.start for bound in text.split())
        first, gap, second = middle[:end_of_first], middle[end_of_first:start_of_second], middle[start_of_second:]
        text = (second + gap + first).decode()
    return (before + text.encode() + after).decode().strip()


def candidates(module: str, text: str) -> Iterator[Mutant]:
    """All candidates of a module; their numbers are 0."""
    if GENERATED.search(text):
        return
    content = text.split("\n")
    names = Counter(name for name, _ in functions(ast.parse(text)))
    for name, function in functions(ast.parse(text)):
        if names[name] > 1 or function.name in ("__repr__", "__str__") or has_cache(function):
            continue
        texts = Counter(content[line - 1].strip() for line in own_lines(function))
        for edit in edits(function):
            old = content[edit.line - 1].strip()
            new = replaced(content[edit.line - 1], edit)
            if texts[old] == 1 and new is not None and new != old:
                yield Mutant(0, edit.kind, module, name, old, new)


def has_cache(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (node.func if isinstance(node, ast.Call) else node for node in function.decorator_list)
    return any(name_of(decorator) in CACHES for decorator in decorators)


def statements(text: str) -> int:
    """How much logic a module has: statements inside functions."""
    if GENERATED.search(text):
        return 0
    inside = {
        id(node)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, FUNCTIONS)
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.stmt)
    }
    return len(inside)


def quotas(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of `count` each package gets: by weight, but at least one where there is any weight."""
    sizes = {package: weight for package, weight in weights.items() if weight}
    if count < len(sizes):
        raise ValueError(f"{count} mutants cannot cover {len(sizes)} packages")
    total = sum(sizes.values())
    shares = {package: max(1, count * weight // total) for package, weight in sizes.items()}
    by_rest = sorted(sizes, key=lambda package: (-(count * sizes[package] % total), package))
    while sum(shares.values()) < count:
        for package in by_rest[: count - sum(shares.values())]:
            shares[package] += 1
    while sum(shares.values()) > count:
        shares[max(shares, key=lambda package: (shares[package], package))] -= 1
    return shares


def choose(pool: Collection[Mutant], quota: int, seed: str, rejected: Collection[str]) -> list[Mutant]:
    """A seeded choice from one package's candidates: all kinds in turn, no two from one function."""
    rng = random.Random(seed)
    streams: dict[str, list[Mutant]] = {}
    for kind in sorted(set(CYCLE)):
        stream = sorted((mutant for mutant in pool if mutant.kind == kind), key=lambda mutant: mutant.key)
        rng.shuffle(stream)
        streams[kind] = [mutant for mutant in stream if mutant.key not in rejected]
    offset = rng.randrange(len(CYCLE))
    chosen: list[Mutant] = []
    functions_used: set[tuple[str, str]] = set()
    while len(chosen) < quota and any(streams.values()):
        kind = CYCLE[offset % len(CYCLE)]
        offset += 1
        while streams[kind]:
            mutant = streams[kind].pop(0)
            if (mutant.module, mutant.name) not in functions_used:
                functions_used.add((mutant.module, mutant.name))
                chosen.append(mutant)
                break
    return chosen


def pools_of(source: Path) -> tuple[dict[str, list[Mutant]], Counter[str]]:
    """Candidates of each package below `source`, and how much logic it has."""
    pools: dict[str, list[Mutant]] = {}
    weights: Counter[str] = Counter()
    for path in sorted((source / "tailrace").rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        weights[package_of(module)] += statements(text)
        pools.setdefault(package_of(module), []).extend(candidates(module, text))
    return pools, weights


def generate(source: Path, seed: int, count: int, rejected: Collection[Rejected] = ()) -> Catalog:
    """A new list of `count` mutants of the package `tailrace` below `source`."""
    pools, weights = pools_of(source)
    keys = {entry.key for entry in rejected}
    shares = quotas({package: weights[package] for package, pool in pools.items() if pool}, count)
    chosen = [
        mutant
        for package in sorted(shares)
        for mutant in sorted(choose(pools[package], shares[package], f"{seed}/{package}", keys), key=lambda m: m.key)
    ]
    numbered = tuple(replace(mutant, number=number) for number, mutant in enumerate(chosen, 1))
    return Catalog(seed, numbered, tuple(rejected))


def refill(source: Path, catalog: Catalog) -> Catalog:
    """The list with another mutant of the same package in place of each that is rejected or no longer applies."""
    keys = {entry.key for entry in catalog.rejected}
    applicable, _ = locate_all(catalog.mutants, source)
    kept = {mutant.number for mutant in catalog.mutants if mutant.number in applicable and mutant.key not in keys}
    used = {(mutant.module, mutant.name) for mutant in catalog.mutants if mutant.number in kept}
    pools, _ = pools_of(source)
    filled = []
    for mutant in catalog.mutants:
        if mutant.number not in kept:
            pool = pools.get(mutant.package) or [other for pool in pools.values() for other in pool]
            mutant = substitute(mutant, pool, catalog.seed, keys, used)
            used.add((mutant.module, mutant.name))
        filled.append(mutant)
    return replace(catalog, mutants=tuple(filled))


def substitute(
    mutant: Mutant, pool: Iterable[Mutant], seed: int, rejected: Collection[str], used: Collection[tuple[str, str]]
) -> Mutant:
    """A candidate with the mutant's number, of the same kind if there is one."""
    free = [other for other in pool if other.key not in rejected and (other.module, other.name) not in used]
    if not free:
        raise ValueError(f"no candidate is left for mutant {mutant.number}")

    def rank(other: Mutant) -> tuple[bool, bytes]:
        return other.kind != mutant.kind, hashlib.sha256(f"{seed}\n{other.key}".encode()).digest()

    return replace(min(free, key=rank), number=mutant.number)
