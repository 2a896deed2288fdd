"""The list of mutants, and where each of them is in a tree.

A mutant replaces one line of one function. The list identifies the line by module, qualified name of the function and
text, not by number, so that it survives edits elsewhere in the file. A mutant whose module, function or line is gone
no longer applies, and the reason is reported. Lines are compared without their indentation.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KINDS = ("comparison", "constant", "removed", "swapped")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class CatalogError(Exception):
    """The list cannot be read, or contradicts itself."""


@dataclass(frozen=True)
class Mutant:
    number: int
    kind: str
    module: str
    name: str  # qualified name of the innermost function, without `<locals>`
    old: str
    new: str

    @property
    def key(self) -> str:
        """What must be equal for results of two runs to be about the same mutant."""
        return key_of(self.module, self.name, self.old, self.new)

    @property
    def package(self) -> str:
        return package_of(self.module)


@dataclass(frozen=True)
class Rejected:
    """A candidate that the generator must not take, because it changes nothing that a test could see."""

    module: str
    name: str
    old: str
    new: str
    reason: str

    @property
    def key(self) -> str:
        return key_of(self.module, self.name, self.old, self.new)


@dataclass(frozen=True)
class Catalog:
    seed: int
    mutants: tuple[Mutant, ...]
    rejected: tuple[Rejected, ...] = ()


def key_of(*parts: str) -> str:
    return "\n".join(parts)


class Location(NamedTuple):
    path: Path
    line: int  # counts from 1


class InapplicableError(Exception):
    """The mutant has no location in this tree; the message is the reason."""


def package_of(module: str) -> str:
    """`storage` for `tailrace.storage.segment`; the distribution's own package is a package like the others."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] or first


def read(path: Path) -> Catalog:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        mutants = tuple(Mutant(**entry) for entry in document["mutant"])
        rejected = tuple(Rejected(**entry) for entry in document.get("rejected", ()))
        catalog = Catalog(document["seed"], mutants, rejected)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CatalogError(f"cannot read {path}: {type(error).__name__}: {error}") from error
    for mutant in mutants:
        if mutant.kind not in KINDS or mutant.old == mutant.new:
            raise CatalogError(f"mutant {mutant.number} is not a change of a known kind")
    for column in ([mutant.number for mutant in mutants], [mutant.key for mutant in mutants]):
        if len(set(column)) < len(column):
            raise CatalogError("two mutants have the same number or make the same change")
    return catalog


def render(catalog: Catalog) -> str:
    """The text that `read` understands."""
    lines = [
        "# Mutants of src, for tools/mutants.py. `old` is one line of function `name` in `module`, `new` replaces it.",
        "# `tools/mutants.py generate` chose them by the seed. `rejected` lists candidates that it must not choose,",
        "# with the reason: mostly that no test can distinguish them from the original.",
        "",
        f"seed = {catalog.seed}",
    ]
    for mutant in catalog.mutants:
        lines += ["", "[[mutant]]", f"number = {mutant.number}"]
        lines += [f"{key} = {quoted(getattr(mutant, key))}" for key in ("kind", "module", "name", "old", "new")]
    for rejected in catalog.rejected:
        lines += ["", "[[rejected]]"]
        lines += [f"{key} = {quoted(getattr(rejected, key))}" for key in ("module", "name", "old", "new", "reason")]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its qualified name, outer ones first."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop(0)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                if isinstance(child, FUNCTIONS):
                    yield name, child
                pending.append((f"{name}.", child))
            else:
                pending.append((prefix, child))


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Lines of the function's body without those of functions and classes inside it."""
    lines = set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))
    for node in ast.walk(function):
        if node is not function and isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def module_path(source: Path, module: str) -> Path:
    """The file of a module below the folder `source`."""
    path = source.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def locate(mutant: Mutant, source: Path) -> Location:
    """Where the mutant is in the packages below `source`. Raises InapplicableError if its line is not there."""
    path = module_path(source, mutant.module)
    if not path.is_file():
        raise InapplicableError(f"there is no module {mutant.module}")
    text = path.read_text(encoding="utf-8")
    bodies = [own_lines(function) for name, function in functions(ast.parse(text)) if name == mutant.name]
    if not bodies:
        raise InapplicableError(f"{mutant.module} has no function {mutant.name}")
    content = text.split("\n")
    matches = [line for line in sorted(set().union(*bodies)) if content[line - 1].strip() == mutant.old]
    if len(matches) != 1:
        raise InapplicableError(f"{mutant.module}.{mutant.name} has {len(matches) or 'no'} lines with the old text")
    return Location(path, matches[0])


def locate_all(mutants: Iterable[Mutant], source: Path) -> tuple[dict[int, Location], dict[int, str]]:
    """The location of every mutant that applies, and for every other the reason why not."""
    locations: dict[int, Location] = {}
    reasons: dict[int, str] = {}
    for mutant in mutants:
        try:
            locations[mutant.number] = locate(mutant, source)
        except InapplicableError as error:
            reasons[mutant.number] = str(error)
    return locations, reasons


def mutated(text: str, location: Location, mutant: Mutant) -> str:
    """The module's text with the mutant in it."""
    lines = text.split("\n")
    line = lines[location.line - 1]
    lines[location.line - 1] = line[: len(line) - len(line.lstrip())] + mutant.new
    return "\n".join(lines)
