"""What differs between two versions of the tree, as units of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from selection import rules
from selection.builder import Builder
from selection.facts import BODY, Digests, Facts, Import, digests_of
from selection.scopes import ALL, TEXT, Target
from selection.trees import Tree

NOTHING = Digests({}, frozenset(), frozenset())


class Changes(NamedTuple):
    paths: tuple[str, ...]
    targets: Mapping[Target, str]  # a unit that may behave differently → the path whose change is the reason
    everything: str | None = None  # the path whose change may affect any test


def changed_paths(old: Tree, new: Tree) -> list[str]:
    paths = old.hashes.keys() | new.hashes.keys()
    return sorted(path for path in paths if old.hashes.get(path) != new.hashes.get(path))


def changes_between(old: Tree, new: Tree, files: Mapping[str, Facts], builder: Builder) -> Changes:
    """`files` are the facts of `new`, and of the files of `old` that are gone. Raises SyntaxError."""
    paths = changed_paths(old, new)
    sources = [path for path in paths if path.endswith(".py")]
    before, after = old.contents(sources), new.contents(sources)
    targets: dict[Target, str] = {}
    everything = None
    for path in paths:
        rule = rules.rule_of(path)
        if path in sources:
            found: Iterable[Target] | None = _changed_units(path, before.get(path), after.get(path), files, builder)
        elif path.endswith(".pxd"):
            found = [Target(path.removesuffix(".pxd") + ".py", unit) for unit in (BODY, ALL)]
        elif rule is not None:
            found = _named_by_rule(rule, files)
        else:
            found = _named_by_text(path, builder)
        if found is None:
            everything = everything or path
        for target in (*(found or ()), *(Target(reader, BODY) for reader in rules.readers_of(path))):
            targets.setdefault(target, path)
    return Changes(tuple(paths), targets, everything)


def _named_by_rule(rule: str, files: Mapping[str, Facts]) -> list[Target] | None:
    if rule == rules.EVERYTHING:
        return None
    return [Target(path, BODY) for path in files if rule and rules.matches(path, rule)]


def _named_by_text(path: str, builder: Builder) -> list[Target] | None:
    target = Target(path, TEXT)
    return [target] if builder.is_named(target) else None


def _changed_units(
    path: str, before: bytes | None, after: bytes | None, files: Mapping[str, Facts], builder: Builder
) -> list[Target]:
    old, new = (NOTHING if content is None else digests_of(content) for content in (before, after))
    names = {name for name in old.units.keys() | new.units.keys() if old.units.get(name) != new.units.get(name)}
    found = [Target(path, name) for name in names]
    gone = old.units.keys() - new.units.keys()
    found += [Target(path, name.partition(".")[0]) for name in gone if "." in name]  # another method takes its turn
    if before is None:
        found.append(Target(path, ALL))
    elif after is None:
        found += [Target(path, BODY), Target(path, ALL)]
    elif gone:
        found += [Target(importer, BODY) for importer in _importers(path, gone, files, builder)]
    for binding in old.imports ^ new.imports if before is not None else ():
        found += _users_of_import(path, binding, files, builder)
        is_used = binding.bound in old.identifiers | new.identifiers or builder.is_named(Target(path, binding.bound))
        # An import that is not used has another effect, and one that closes a cycle can break every import of the file.
        if not is_used or (binding in new.imports and builder.closes_cycle(path, binding)):
            found.append(Target(path, BODY))
    return found


def _importers(path: str, names: Iterable[str], files: Mapping[str, Facts], builder: Builder) -> list[str]:
    """Files that import a name which a file no longer has: they fail at import."""
    wanted = set(names)
    importers = []
    for importer, facts in files.items():
        bound = [each for each in facts.imports if each.name in wanted]
        if any(Target(path, BODY) in builder.scopes.imported(importer, each) for each in bound):
            importers.append(importer)
    return importers


def _users_of_import(path: str, binding: Import, files: Mapping[str, Facts], builder: Builder) -> list[Target]:
    """The units that use the name that an import binds: here, and where it is imported from here."""
    if binding.name == "*":
        return [Target(path, BODY), Target(path, ALL)]
    users = [
        Target(path, name)
        for name, unit in files[path].units.items()
        if any(chain.partition(".")[0] == binding.bound for chain in unit.names)
    ]
    return [*users, Target(path, binding.bound)]
