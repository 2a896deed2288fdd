"""Which tests reach which units: the tests of every test file, and those that a change can affect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from selection.builder import Builder, is_fixture, is_test_file
from selection.changes import Changes
from selection.facts import BODY, Facts, Unit
from selection.scopes import Target


class Item(NamedTuple):
    """A test function, or a class of tests."""

    path: str
    name: str

    @property
    def node_id(self) -> str:
        return f"{self.path}::{self.name}"


class Selection(NamedTuple):
    tests: Mapping[Item, Target]  # → one of the changed units that it reaches
    everything: str | None  # the path whose change selects all tests

    @property
    def paths(self) -> list[str]:
        return list(dict.fromkeys(test.path for test in self.tests))


class Selector:
    """Tests of one tree. `files` are the facts of its Python files and pages."""

    def __init__(self, files: Mapping[str, Facts], builder: Builder) -> None:
        self._builder = builder
        self._files = files
        self._for_file: dict[str, list[Target]] = {}
        self.tests = [test for path in sorted(files) if is_test_file(path) for test in tests_of(path, files[path])]

    def seeds(self, test: Item) -> list[int]:
        """Where the execution of a test starts: itself, and what pytest runs for its file."""
        facts = self._files[test.path]
        units = list(self._automatic(test.path))
        units += [Target(test.path, name) for name in facts.units if name.partition(".")[0] == test.name]
        if test.name not in facts.units:
            units += self._builder.scopes.look_up(test.path, test.name)
        return [self._builder.graph.node(unit) for unit in units]

    def _automatic(self, path: str) -> list[Target]:
        known = self._for_file.get(path)
        if known is None:
            known = self._for_file[path] = list(self._units_for_every_test(path))
        return known

    def _units_for_every_test(self, path: str) -> Iterator[Target]:
        for source in (path, *self._builder.fixture_files(path)):
            yield Target(source, BODY)
            for name, unit in self._files[source].units.items():
                if name.startswith("pytest") or (is_fixture(unit) and "autouse" in unit.attributes):
                    yield Target(source, name)
        yield from (Target(path, name) for name in self._builder.overriding_fixtures(path))

    def select(self, changes: Changes) -> Selection:
        if changes.everything is not None:
            return Selection({test: Target(changes.everything, BODY) for test in self.tests}, changes.everything)
        graph = self._builder.graph
        nodes = {target: graph.node(target) for target in changes.targets if target in graph}
        reached = graph.reach(self._all_seeds(), nodes.values())
        chosen: dict[Item, Target] = {}
        seen = 0
        for target, node in nodes.items():
            new = reached[node] & ~seen
            seen |= new
            chosen |= {self.tests[number]: target for number in _numbers(new)}
        return Selection({test: chosen[test] for test in self.tests if test in chosen}, None)

    def way(self, test: Item, target: Target) -> list[str]:
        """How a test reaches a unit, step by step."""
        graph = self._builder.graph
        return [": ".join(filter(None, key)) for key in graph.way(self.seeds(test), graph.node(target))]

    def _all_seeds(self) -> list[tuple[int, int]]:
        bits: dict[int, int] = {}
        for number, test in enumerate(self.tests):
            for node in self.seeds(test):
                bits[node] = bits.get(node, 0) | 1 << number
        return list(bits.items())


def tests_of(path: str, facts: Facts) -> Iterator[Item]:
    """Test functions and classes of a file by their names, wherever they are defined."""
    imported = {each.bound for each in facts.imports}
    for name in (*facts.units, *sorted(imported)):
        if "." not in name and (name.startswith(("test", "Test")) or _is_test_case(facts.units.get(name))):
            yield Item(path, name)


def _is_test_case(unit: Unit | None) -> bool:
    """unittest needs no name: its classes are tests by their base."""
    return unit is not None and any(base.endswith("TestCase") for base in unit.bases)


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
