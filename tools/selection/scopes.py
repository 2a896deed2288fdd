"""Resolves names: a module name to files, and a dotted chain in a file to the units that it means.

A file below one of the roots of the import path has one module name for each such root. A name that several files have
means all of them. What cannot be resolved is defined outside of the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from selection.facts import BODY, Facts, Import

ALL = "*"  # every unit of a file: the file itself is used as a value
TEXT = "text"  # of a page or a data file, which is read
MAX_DEPTH = 12  # of names that are imported from where they were imported


class Target(NamedTuple):
    path: str
    unit: str


def roots_of(path: str) -> list[str]:
    """Folders that may be on the import path, above a file. Each folder of tests may be: pytest puts it there."""
    folders = path.split("/")[:-1]
    if folders[:1] == ["src"]:
        return ["src"]
    return ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]


class Modules:
    """The files of the repository that can be imported, by name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._files: dict[str, list[str]] = {}
        self.paths = {path for path in paths if path.endswith(".py")}
        for path in sorted(self.paths):
            for root in roots_of(path):
                name = path[len(root) + 1 : -len(".py")].replace("/", ".").removesuffix("__init__").rstrip(".")
                if name:
                    self._files.setdefault(name, []).append(path)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def named(self, name: str) -> list[str]:
        return self._files.get(name, [])

    def starting_with(self, text: str) -> Iterator[str]:
        for name, paths in self._files.items():
            if name.startswith(text):
                yield from paths

    def at(self, location: str) -> list[str]:
        """The module at a location, which is a path without suffix."""
        return [path for path in (f"{location}.py", f"{location}/__init__.py") if path in self.paths]

    def submodule(self, path: str, name: str) -> list[str]:
        folder, separator, _ = path.rpartition("/__init__.py")
        return self.at(f"{folder}/{name}") if separator else []

    def packages_of(self, path: str) -> Iterator[str]:
        """The `__init__.py` that are executed before a module."""
        folders = path.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            package = "/".join(folders[:depth]) + "/__init__.py"
            if package in self.paths and package != path:
                yield package


class Scopes:
    """Name lookup over all files."""

    def __init__(self, files: Mapping[str, Facts]) -> None:
        self._files = files
        self.modules = Modules(files)
        self._bindings: dict[str, dict[str, list[Import]]] = {}

    def bindings(self, path: str) -> dict[str, list[Import]]:
        """What the imports of a file's top level bind; several for a name that is imported in alternatives."""
        known = self._bindings.get(path)
        if known is None:
            known = self._bindings[path] = {}
            for each in self._files[path].imports:
                known.setdefault(each.bound, []).append(each)
        return known

    def look_up(self, path: str, chain: str, local: Iterable[Import] = ()) -> list[Target]:
        """What a chain means in a unit of a file that itself makes the `local` imports."""
        first, *rest = chain.split(".")
        bindings = [each for each in local if each.bound == first]
        if not bindings and first in self._files[path].units:
            return [Target(path, first)]
        bindings = bindings or self.bindings(path).get(first, [])
        return [target for binding in bindings for target in self._follow(path, binding, rest, 0)]

    def imported(self, path: str, binding: Import) -> list[Target]:
        """The bodies that an import executes, or ALL of a module whose names it takes."""
        if not binding.name:
            parts = binding.module.split(".")
            names = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
            return [Target(found, BODY) for name in names for found in self.modules.named(name)]
        origins = self._origins(path, binding)
        if binding.name == "*":
            return [Target(origin, ALL) for origin in origins]
        submodules = [found for origin in origins for found in self.modules.submodule(origin, binding.name)]
        if not origins:
            submodules = self._without_package(path, binding)
        return [Target(found, BODY) for found in (*origins, *submodules)]

    def module_named_in(self, text: str) -> list[Target]:
        """What a dotted name in a text means, as absolute name: `a.b.c` may be the name `c` of module `a.b`."""
        return self._absolute(text.split("."), 0)

    def _origins(self, path: str, binding: Import) -> list[str]:
        if not binding.level:
            return self.modules.named(binding.module)
        return self.modules.at(self._location(path, binding))

    def _location(self, path: str, binding: Import) -> str:
        folders = path.split("/")[: -binding.level]
        return "/".join([*folders, *binding.module.split(".")] if binding.module else folders)

    def _without_package(self, path: str, binding: Import) -> list[str]:
        """`from folder import module`, where the folder has no `__init__.py`."""
        if binding.level:
            return self.modules.at(f"{self._location(path, binding)}/{binding.name}")
        return self.modules.named(f"{binding.module}.{binding.name}")

    def _follow(self, path: str, binding: Import, rest: list[str], depth: int) -> list[Target]:
        if not binding.name:
            # `import a.b` binds `a`, and `import a.b as c` binds `a.b`
            is_renamed = binding.bound != binding.module.partition(".")[0]
            return self._absolute((binding.module.split(".") if is_renamed else [binding.bound]) + rest, depth)
        origins = self._origins(path, binding)
        if origins:
            return [target for origin in origins for target in self._inside(origin, [binding.name, *rest], depth)]
        found = self._without_package(path, binding)
        return [target for module in found for target in self._inside(module, rest, depth)]

    def _absolute(self, parts: list[str], depth: int) -> list[Target]:
        for end in range(len(parts), 0, -1):
            name = ".".join(parts[:end])
            if name in self.modules:
                return [each for path in self.modules.named(name) for each in self._inside(path, parts[end:], depth)]
        return []

    def _inside(self, path: str, rest: list[str], depth: int) -> list[Target]:
        """What a chain means that starts in the names of a file."""
        if not rest or depth > MAX_DEPTH:
            return [Target(path, ALL)]
        facts, name = self._files[path], rest[0]
        body = Target(path, BODY)
        if name in facts.units:
            return [body, Target(path, name)]
        bindings = self.bindings(path).get(name, [])
        submodules = [] if bindings else self.modules.submodule(path, name)
        if submodules:
            return [body, *(each for found in submodules for each in self._inside(found, rest[1:], depth + 1))]
        if not bindings and "__getattr__" in facts.units:  # it imports what type checkers see imported
            body = Target(path, "__getattr__")
            bindings = [each for each in facts.type_imports if each.bound == name]
        if bindings:
            meant = [each for found in bindings for each in self._follow(path, found, rest[1:], depth + 1)]
            return [body, Target(path, name), *meant]
        if "__getattr__" in facts.units or name.startswith("__"):
            return [body, Target(path, ALL)]
        return [body, Target(path, name)]  # a name that the file no longer has
