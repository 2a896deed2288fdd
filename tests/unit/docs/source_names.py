"""Every name that the sources and tests define, read off their syntax trees: what a document may refer to."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "tailrace"


@dataclass
class SourceNames:
    modules: dict[str, set[str]] = field(default_factory=dict)
    """Names defined in each module, by its path below the package: `storage.loader`."""
    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Attributes and methods by class, those of its bases too."""
    identifiers: set[str] = field(default_factory=set)
    """Whatever is a name anywhere, modules too."""

    def modules_called(self, name: str) -> list[str]:
        """`loader`, `storage.loader` → `storage.loader`."""
        return [module for module in self.modules if module == name or module.endswith(f".{name}")]

    def has(self, dotted: str) -> bool | None:
        """Whether `module.name`, `module.Class.name` or `Class.name` exists; None when the head is none of ours."""
        parts = dotted.removeprefix("tailrace.").split(".")
        if parts[0] in self.classes:
            return self._in_class(parts[0], parts[1:])
        known = False
        for cut in range(len(parts), 0, -1):
            for module in self.modules_called(".".join(parts[:cut])):
                known = True
                rest = parts[cut:]
                if not rest or (rest[0] in self.modules[module] and self._in_class(rest[0], rest[1:])):
                    return True
        return False if known else None

    def _in_class(self, name: str, rest: list[str]) -> bool:
        return not rest or (len(rest) == 1 and rest[0] in self.classes.get(name, set()))


@cache
def source_names() -> SourceNames:
    names = SourceNames()
    bases: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        parts = relative.parent.parts if path.name == "__init__.py" else relative.with_suffix("").parts
        tree = ast.parse(path.read_bytes())
        names.modules[".".join(parts)] = set(_defined(tree))
        names.identifiers.update(parts)
        for node in ast.walk(tree):
            names.identifiers.update(_identifiers(node))
            if isinstance(node, ast.ClassDef):
                names.classes[node.name].update(_defined(node))
                bases[node.name] = [base.id for base in map(_generic, node.bases) if isinstance(base, ast.Name)]
    for package in {module.rpartition(".")[0] for module in names.modules}:
        names.modules.setdefault(package, set())
    for name in bases:
        for base in _ancestors(name, bases):
            names.classes[name] |= names.classes.get(base, set())
    return names


@cache
def names_of_tests() -> dict[str, set[str]]:
    """The test functions of each test file, by its name."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_bytes())
        found[path.name] = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
    return found


def _generic(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _ancestors(name: str, bases: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(bases.get(name, []))
    while waiting:
        base = waiting.pop()
        if base not in found:
            found.add(base)
            waiting += bases.get(base, [])
    return found


def _defined(scope: ast.Module | ast.ClassDef) -> list[str]:
    """Names that a module or class gives a meaning; of a class also what its methods set on `self`."""
    found = []
    for node in ast.walk(scope) if isinstance(scope, ast.ClassDef) else scope.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(name)
            case ast.Assign(targets=targets):
                found += [name for target in targets for name in _assigned(target)]
            case ast.AnnAssign(target=target):
                found += _assigned(target)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found += [alias.asname or alias.name for alias in aliases]
    return found


def _assigned(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return [name]
        case ast.Tuple(elts=parts):
            return [name for part in parts for name in _assigned(part)]
    return []


def _identifiers(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return [name]
    return []
