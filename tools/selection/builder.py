"""Builds the graph of a tree: who may execute what.

A node is a unit of a file, ALL of a file, or a name: an attribute, a command. An edge leads from a unit to what it may
execute or read. Three kinds of nodes need two predecessors:

- a method, which is executed if its class is reached and its name is mentioned as an attribute
- a handler of the command line, which is executed if it is registered and its command is named
- the code of a page, which is executed if the page is read and anything is executed that is not a module

Missing edges would lose tests, so that whatever is unclear gets an edge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property

from selection import rules
from selection.facts import AS_PROGRAM, BODY, Facts, Import, Unit
from selection.graph import Graph
from selection.scopes import ALL, TEXT, Scopes, Target

# Nodes that are no units have a path that no file has.
ATTRIBUTES, COMMANDS, EXECUTION = "<attribute>", "<command>", "<execution>"

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_IMPORTED = re.compile(r"(?:from|import) +([A-Za-z_]\w*)")
_WORD = re.compile(r"[\w-]+")
_MAX_PATH = 200
_EXECUTE = {"eval", "exec", "makepyfile", "runpy", "runpytest", "runpython", "subprocess"}
_ASK_FOR_FIXTURES = {"fixturenames", "getfixturevalue", "usefixtures"}


def is_test_file(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_") and path.endswith(".py")


def asks_for_fixtures(path: str, name: str, unit: Unit) -> bool:
    """Whether pytest may pass fixtures to a unit: a fixture, or a test, which others may inherit."""
    return is_test_file(path) or is_fixture(unit) or name.rpartition(".")[2].startswith(("test", "pytest_"))


def is_fixture(unit: Unit) -> bool:
    return any(each.endswith("fixture") for each in unit.decorators)


class Builder:
    """`files` are Python files and pages with the facts of their code, `others` the paths of all other files."""

    def __init__(self, files: Mapping[str, Facts], others: Iterable[str]) -> None:
        self.graph: Graph[Target] = Graph()
        self._files = files
        self._others = sorted(others)
        self.scopes = Scopes(files)
        self._methods: set[str] = set()
        self._named: set[int] | None = None
        self._modules: dict[str, list[int]] = {}
        self._conftests = [path for path in files if path.endswith("/conftest.py")]
        self._index_paths()
        for path, facts in files.items():
            self._add_units(path, facts)
        self._add_commands()
        for path, facts in files.items():
            self._add_imports(path, facts)
            for name, unit in facts.units.items():
                self._add_mentions(path, name, unit)
            self._add_texts(path, facts)
        self._add_pages()
        self._add_classes()
        self._add_attributes()
        self._add_side_effects()
        self._add_kernels()

    def node(self, path: str, unit: str) -> int:
        return self.graph.node(Target(path, unit))

    def _nodes(self, targets: Iterable[Target]) -> list[int]:
        return [self.graph.node(target) for target in targets]

    def _link(self, start: int, ends: Iterable[int]) -> None:
        for end in ends:
            self.graph.edge(start, end)

    def _index_paths(self) -> None:
        """Files by base name, and by the folders above those that a program may find by the name of a folder."""
        self._by_name: dict[str, list[str]] = {}
        self._folders: dict[str, set[str]] = {}
        for path in (*self._files, *self._others):
            name = path.rpartition("/")[2]
            if name not in rules.COMMON_FILES:
                self._by_name.setdefault(name, []).append(path)
            if not path.endswith(".py") or any(fnmatchcase(path, each) for each in rules.PROGRAM_FOLDERS):
                for folder in set(path.split("/")[:-1]) - rules.COMMON_FOLDERS:
                    self._folders.setdefault(folder, set()).add(path)

    def _add_units(self, path: str, facts: Facts) -> None:
        whole, body = self.node(path, ALL), self.node(path, BODY)
        self.graph.edge(whole, body)
        for package in self.scopes.modules.packages_of(path):
            self.graph.edge(body, self.node(package, BODY))
        for name in facts.units:
            node = self.node(path, name)
            self.graph.edge(node, body)
            self.graph.edge(whole, node)

    def _add_imports(self, path: str, facts: Facts) -> None:
        body = self.node(path, BODY)
        for binding in facts.imports:
            self._link(body, self._nodes(self.scopes.imported(path, binding)))

    def _add_mentions(self, path: str, name: str, unit: Unit) -> None:
        node = self.node(path, name)
        for binding in unit.imports:
            self._link(node, self._nodes(self.scopes.imported(path, binding)))
        for chain in unit.names:
            for target in self.scopes.look_up(path, chain, unit.imports):
                if unit.commands and self._is_handler(target):
                    self.graph.both(node, self._gate(path, name), self.graph.node(target))
                else:
                    self.graph.edge(node, self.graph.node(target))
        if asks_for_fixtures(path, name, unit):
            self._add_fixtures(path, name, unit)

    # Command line

    def _is_handler(self, target: Target) -> bool:
        unit = self._files[target.path].units.get(target.unit) if target.path in self._files else None
        return unit is not None and target.path.startswith(rules.COMMANDS_FOLDER) and bool(unit.imports)

    def _gate(self, path: str, unit: str) -> int:
        """The node that is reached where the commands that a unit registers are named."""
        return self.node(COMMANDS, f"{path}:{unit}")

    def _add_commands(self) -> None:
        registering = [
            (path, name, unit)
            for path, facts in self._files.items()
            if path.startswith(rules.COMMANDS_FOLDER)
            for name, unit in facts.units.items()
            if unit.commands
        ]
        self._commands = {command for _, _, unit in registering for command in unit.commands}
        callees = {
            (path, name): {each for chain in unit.names for each in self.scopes.look_up(path, chain)}
            for path, name, unit in registering
        }
        for path, name, unit in registering:
            own = self.node(COMMANDS, f"named {path}:{name}")
            self._link_to(own, (self.node(COMMANDS, command) for command in unit.commands))
            groups = [caller for caller, called in callees.items() if Target(path, name) in called]
            if groups:  # a command of a group is named together with its group
                group = self.node(COMMANDS, f"group of {path}:{name}")
                self._link_to(group, (self._gate(*each) for each in groups))
                self.graph.both(own, group, self._gate(path, name))
            else:
                self.graph.edge(own, self._gate(path, name))

    def _link_to(self, end: int, starts: Iterable[int]) -> None:
        for start in starts:
            self.graph.edge(start, end)

    # Texts

    def _add_texts(self, path: str, facts: Facts) -> None:
        texts = {text for unit in facts.units.values() for text in unit.texts}
        attributes = {name for unit in facts.units.values() for name in unit.attributes}
        runs_program = "-m" in texts or "which" in attributes or any(f"bin/{rules.PROGRAM}" in text for text in texts)
        asks_spark = "format" in attributes or path.startswith(rules.SPARK_FOLDERS)
        loads_by_name = any("import_module" in chain or chain == "__import__" for chain in _names(facts))
        named_for_types = {each.module for each in facts.type_imports} if "__getattr__" in facts.units else set()
        names_commands = rules.names_commands(path)
        for name, unit in facts.units.items():
            node = self.node(path, name)
            self._link(node, self._files_in(unit.texts, with_pages=not path.startswith("src/")))
            for text in unit.texts:
                if text == rules.PROGRAM:
                    programs = [rules.PROGRAM_FILE] * runs_program + [rules.SPARK_FORMAT_FILE] * asks_spark
                    self._link(node, (self.node(each, ALL) for each in programs))
                elif (path, name) == rules.COMMANDS_TABLE:
                    for target in self.scopes.module_named_in(text):
                        self._link(node, [self.node(target.path, BODY), self.node(target.path, rules.COMMANDS_ENTRY)])
                elif text not in named_for_types:
                    self._link(node, self._modules_in(text))
                if names_commands:
                    named = self._commands.intersection(_WORD.findall(text))
                    self._link(node, (self.node(COMMANDS, each) for each in named))
                if loads_by_name and text.endswith((".", "_")):
                    self._link(node, (self.node(each, ALL) for each in self.scopes.modules.starting_with(text)))

    def _modules_in(self, text: str) -> list[int]:
        """Modules that a text names: as a dotted name, in a program, or alone if that is an unusual word."""
        known = self._modules.get(text)
        if known is None:
            targets = [target for dotted in _DOTTED.findall(text) for target in self.scopes.module_named_in(dotted)]
            names = _IMPORTED.findall(text) if "import" in text else []
            if "_" in text and text.isidentifier():
                names.append(text)
            paths = [path for name in names if name != rules.PROGRAM for path in self.scopes.modules.named(name)]
            known = self._modules[text] = self._nodes([*targets, *(Target(path, ALL) for path in paths)])
        return known

    def _files_in(self, texts: Iterable[str], *, with_pages: bool) -> Iterator[int]:
        """Files that the texts of a unit name. A folder means all of its files, unless one of them is named as well."""
        folders: set[str] = set()
        named: set[str] = set()
        for text in texts:
            if len(text) > _MAX_PATH or "\n" in text:
                continue
            *parts, base = text.split("/")
            folders.update(part for part in (*parts, base) if part in self._folders)
            named.update(self._by_name.get(base, ()))
            if "*" in base and base.rpartition(".")[0].strip("*"):  # more than a suffix
                matching = (name for name in self._by_name if not name.endswith(".py") and fnmatchcase(name, base))
                named.update(path for name in matching for path in self._by_name[name])
        for folder in folders:
            inside = self._folders[folder]
            if not inside & named:
                named |= inside
        for path in named:
            if path.endswith(".py"):
                yield self.node(path, ALL)
            elif with_pages or not path.endswith(".md"):  # help texts and hints name pages, too
                yield self.node(path, TEXT)

    def _add_pages(self) -> None:
        """The code of a page is executed by tests that read the page and execute anything at all."""
        execution = self.node(EXECUTION, "")
        for path, facts in self._files.items():
            if path.endswith(".md"):
                self.graph.both(self.node(path, TEXT), execution, self.node(path, ALL))
            if rules.names_commands(path):
                for name, unit in facts.units.items():
                    mentioned = {chain.partition(".")[0] for chain in unit.names} | set(unit.attributes)
                    if _EXECUTE & mentioned:
                        self.graph.edge(self.node(path, name), execution)

    # Classes

    def _add_classes(self) -> None:
        self._foreign: dict[Target, bool] = {}
        for path, facts in self._files.items():
            for name, unit in facts.units.items():
                head, _, method = name.partition(".")
                if not method:
                    continue
                node, class_node = self.node(path, name), self.node(path, head)
                self.graph.edge(node, class_node)
                is_plain = all(map(rules.has_plain_decorator, unit.decorators)) and not is_fixture(unit)
                is_called = method in rules.CALLED_BY_OTHERS or method.startswith(rules.CALLED_BY_PYTEST)
                if is_called or not is_plain or is_test_file(path) or self._is_foreign(Target(path, head)):
                    self.graph.edge(class_node, node)
                else:
                    self._methods.add(method)
                    self.graph.both(class_node, self.node(ATTRIBUTES, method), node)

    def _is_foreign(self, target: Target) -> bool:
        """Whether a class has a base from elsewhere, which may call any of its methods."""
        known = self._foreign.get(target)
        if known is None:
            self._foreign[target] = False  # for cycles, which only broken code has
            unit = self._files[target.path].units.get(target.unit)
            bases = unit.bases if unit else ()
            known = self._foreign[target] = any(self._is_foreign_base(target.path, base) for base in bases)
        return known

    def _is_foreign_base(self, path: str, base: str) -> bool:
        if base == "=":
            return False
        units = [each for each in self.scopes.look_up(path, base) if each.unit not in (BODY, ALL)]
        return any(map(self._is_foreign, units)) if units else not rules.is_plain_base(base)

    def _add_attributes(self) -> None:
        for path, facts in self._files.items():
            for name, unit in facts.units.items():
                node = self.node(path, name)
                mentioned = self._methods.intersection(unit.attributes)
                for start, end in unit.vague:
                    if start or end:
                        mentioned |= {each for each in self._methods if each.startswith(start) and each.endswith(end)}
                self._link(node, (self.node(ATTRIBUTES, each) for each in mentioned))

    # Fixtures

    def _add_fixtures(self, path: str, name: str, unit: Unit) -> None:
        node = self.node(path, name)
        for fixture in self._fixtures_wanted(path, unit):
            self._link(node, self._nodes(self.scopes.look_up(path, fixture)))
            for source in self.fixture_files(path):
                if fixture in self._files[source].units:
                    self.graph.edge(node, self.node(source, fixture))
            for source in self._fixture_files_of_users(path):
                if fixture in self._files[source].units:
                    # only tests below a `conftest.py` reach its body
                    self.graph.both(node, self.node(source, BODY), self.node(source, fixture))

    def _fixtures_wanted(self, path: str, unit: Unit) -> set[str]:
        """Names of fixtures that a test or a fixture may ask for."""
        wanted = set(unit.parameters)
        if _ASK_FOR_FIXTURES.intersection(unit.attributes):
            wanted |= {text for each in self._files[path].units.values() for text in each.texts}
        return wanted | {word for text in unit.texts if "def test" in text for word in _WORD.findall(text)}

    def fixture_files(self, path: str) -> Iterator[str]:
        """Files whose fixtures and hooks apply to a test file."""
        yield from (plugin for plugin in rules.PLUGINS if plugin in self._files)
        folders = path.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            conftest = "/".join(folders[:depth]) + "/conftest.py"
            if conftest in self._files:
                yield conftest

    def _fixture_files_of_users(self, path: str) -> list[str]:
        """Other files that may have the fixtures which a file asks for. Those below a `conftest.py` can override its
        fixtures, and a class of tests that others inherit gets the fixtures of their folders."""
        if is_test_file(path):
            return []
        folder, is_conftest, _ = path.rpartition("conftest.py")
        return [each for each in self._conftests if each.startswith(folder)] if is_conftest else self._conftests

    def overriding_fixtures(self, path: str) -> set[str]:
        """Fixtures of a test file that others may ask for on behalf of its tests: fixtures, or inherited tests."""
        wanted = self._wanted_by_inherited.union(*(self._wanted_by(source) for source in self.fixture_files(path)))
        return {name for name, unit in self._files[path].units.items() if name in wanted and is_fixture(unit)}

    def _wanted_by(self, path: str) -> set[str]:
        wanted = [
            self._fixtures_wanted(path, unit)
            for name, unit in self._files[path].units.items()
            if asks_for_fixtures(path, name, unit)
        ]
        return set().union(*wanted)

    @cached_property
    def _wanted_by_inherited(self) -> set[str]:
        elsewhere = (path for path in self._files if path.startswith("tests/") and not is_test_file(path))
        return set().union(*(self._wanted_by(path) for path in elsewhere if path not in self._conftests))

    # Imports

    def closes_cycle(self, path: str, binding: Import) -> bool:
        """Whether what an import executes imports the file itself. A package always starts before its modules, so that
        neither the packages that the file is in nor the modules of the package that the file is close a cycle."""
        own = self.node(path, BODY)
        seen = {self.node(package, BODY) for package in self.scopes.modules.packages_of(path)}
        inside, is_package, _ = path.rpartition("__init__.py")
        waiting = self._nodes(self.scopes.imported(path, binding))
        while waiting:
            node = waiting.pop()
            if node == own:
                return True
            if node not in seen and not (is_package and self.graph.keys[node].path.startswith(inside)):
                seen.add(node)
                waiting += [end for end in self.graph.successors(node) if self._is_body(end)]
        return False

    def _is_body(self, node: int) -> bool:
        return self.graph.keys[node].unit == BODY

    def is_named(self, target: Target) -> bool:
        """Whether anything leads to a unit."""
        if self._named is None:
            self._named = self.graph.has_predecessor()
        return target in self.graph and self.graph.node(target) in self._named

    # What importing a file does beyond defining its units

    def _add_side_effects(self) -> None:
        """A unit whose definition may call something belongs to the body: it has its effect without being named."""
        named = {
            end for node, key in enumerate(self.graph.keys) if key.unit != ALL for end in self.graph.successors(node)
        }
        used_whole = {self.graph.keys[node].path for node in named if self.graph.keys[node].unit == ALL}
        for path, facts in self._files.items():
            if is_test_file(path):
                continue
            for name, unit in facts.units.items():
                if name in (BODY, AS_PROGRAM) or "." in name or is_fixture(unit):
                    continue
                node = self.node(path, name)
                is_plain = all(map(rules.has_plain_decorator, unit.decorators)) and "=" not in unit.bases
                is_unused_value = not unit.kind and unit.names and node not in named and path not in used_whole
                if not is_plain or is_unused_value or self._has_hook(path, unit):
                    self.graph.edge(self.node(path, BODY), node)

    def _has_hook(self, path: str, unit: Unit) -> bool:
        """Whether a base of a class runs code for each of its subclasses."""
        targets = [each for base in unit.bases if base != "=" for each in self.scopes.look_up(path, base)]
        heads = [self._files[each.path].units.get(each.unit) for each in targets]
        return any(head is not None and "__init_subclass__" in head.attributes for head in heads)

    def _add_kernels(self) -> None:
        package, loader = rules.KERNELS_BY_NAME
        if package in self._files:
            node = self.node(package, loader)
            self.graph.remove(self.node(package, BODY), node)  # there it loads what is imported below anyway
            kernels = (path for path in self._files if path.startswith(rules.KERNELS))
            self._link(node, (self.node(path, ALL) for path in kernels))


def _names(facts: Facts) -> Iterator[str]:
    for unit in facts.units.values():
        yield from unit.names
