"""What a file mentions, unit by unit, and when two versions of it do the same."""

from __future__ import annotations

import pytest

from selection.facts import AS_PROGRAM, BODY, Import, digests_of, facts_of
from selection.trees import facts_of_page, parse

LAZY = "from __future__ import annotations\n"


def units_changed(old: str, new: str) -> set[str]:
    before, after = digests_of(old.encode()).units, digests_of(new.encode()).units
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_units_of_a_file() -> None:
    source = """\
import os
LIMIT, OTHER = 1, 2
def read(): ...
class Log(Base, metaclass=Meta):
    size: Size = 0
    def __init__(self): ...
    @cached
    def append(self, batch): ...
if os.name == "posix":
    def sync(): ...
try:
    import fast
except ImportError:
    fast = None
print(LIMIT)
if __name__ == "__main__":
    read()
"""
    facts = facts_of(source)
    assert set(facts.units) == {
        *(BODY, AS_PROGRAM, "LIMIT", "OTHER", "read", "Log", "Log.append", "sync", "fast"),
    }
    assert facts.units["Log"].bases == ("Base", "=")
    assert {"Size", "Base", "Meta"} <= set(facts.units["Log"].names)
    assert facts.units["Log.append"].decorators == ("cached",)
    assert facts.units["Log.append"].parameters == ("self", "batch")
    assert set(facts.units[BODY].names) == {"print", "LIMIT", "os.name", "ImportError"}
    assert facts.imports == (Import("os", 0, "", "os"), Import("fast", 0, "", "fast"))


@pytest.mark.parametrize(
    ("code", "names", "attributes"),
    [
        ("log.segment.append(1)", {"log.segment.append"}, {"segment", "append"}),
        ("make().append", {"make"}, {"append"}),
        ("rows[0].append", {"rows"}, {"append"}),
        ("getattr(log, 'append')", {"getattr", "log.append"}, {"append"}),
        ("patch.setattr(log, 'append', None)", {"patch.setattr", "log.append"}, {"setattr", "append"}),
        ("attrgetter('log.append')", {"attrgetter"}, {"log", "append"}),
        ("call('append', by='size')", {"call"}, {"append", "by", "size"}),
    ],
)
def test_mentions(code: str, names: set[str], attributes: set[str]) -> None:
    unit = facts_of(f"def f():\n    {code}\n").units["f"]
    assert set(unit.names) == names
    assert set(unit.attributes) == attributes


def test_computed_attribute_names_are_vague() -> None:
    assert facts_of("def f(x, n):\n    getattr(x, f'on_{n}')\n").units["f"].vague == (("on_", ""),)
    assert facts_of("def f(x, n):\n    getattr(x, n + '_ms')\n").units["f"].vague == (("", "_ms"),)


def test_annotations_of_functions_are_no_mentions_if_they_are_not_evaluated() -> None:
    source = "def f(x: A) -> B:\n    y: C = x\n"
    assert "A" in facts_of(source).units["f"].names
    assert facts_of(LAZY + source).units["f"].names == ("x", "y")


def test_annotations_of_classes_are_mentions() -> None:
    assert "A" in facts_of(LAZY + "class C:\n    x: A\n").units["C"].names


def test_imports_for_type_checkers_are_apart() -> None:
    facts = facts_of("if TYPE_CHECKING:\n    from a import b\nelse:\n    from c import d\n")
    assert facts.imports == (Import("c", 0, "d", "d"),)
    assert facts.type_imports == (Import("a", 0, "b", "b"),)


def test_commands_that_a_unit_registers() -> None:
    facts = facts_of(
        "def register(group):\n    group.add_parser('list', help='all')\n    add_command(group, 'drop', 'x')\n"
    )
    assert facts.units["register"].commands == ("drop", "list")


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("def f(): return 1\n", "def f():\n    # a comment\n    return (1)\n", set()),
        ("def f():\n    '''Old.'''\n    return 1\n", "def f():\n    '''New.'''\n    return 1\n", set()),
        ("'''Old.'''\nX = 1\n'''Text.'''\n", "'''New.'''\nX = 1\n", set()),
        ("'''Old.'''\nprint(__doc__)\n", "'''New.'''\nprint(__doc__)\n", {BODY}),
        ("def f(): return 1\n", "def f(): return 2\n", {"f"}),
        ("class C:\n    x = 1\n    def m(self): ...\n", "class C:\n    x = 2\n    def m(self): ...\n", {"C"}),
        ("class C:\n    def m(self): ...\n", "class C:\n    def m(self): return 1\n", {"C.m"}),
        ("class C:\n    def __len__(self): ...\n", "class C:\n    def __len__(self): return 1\n", {"C"}),
        ("X = 1\n", "X = 2\n", {"X"}),
        ("X = 1\n", "X = 1\nY = X\n", {"Y"}),
        ("f()\n", "f(1)\n", {BODY}),
    ],
    ids=str,
)
def test_digests_change_with_what_a_unit_does(old: str, new: str, changed: set[str]) -> None:
    assert units_changed(old, new) == changed


def test_pages_are_programs_of_their_python_blocks() -> None:
    blocks = [
        "Text.",
        "```python\nfrom tailrace import Broker\nBroker()\n```",
        "```python\n… = 1\n```",
        "    tailrace serve\n",
    ]
    facts = facts_of_page("\n\n".join(blocks))
    assert facts.imports == (Import("tailrace", 0, "Broker", "Broker"),)
    assert facts.units[BODY].names == ("Broker",)
    assert "tailrace serve\n" in facts.units[BODY].texts


def test_declarations_of_kernels_are_imports() -> None:
    declared = b"from a.crc cimport _crc\nfrom a.fields cimport (\n    _int32,\n    _int64,\n)\ncdef int f(int x)\n"
    assert [(each.module, each.name) for each in parse("a/rows.pxd", declared).imports] == [
        ("a.crc", "_crc"),
        ("a.fields", "_int32"),
        ("a.fields", "_int64"),
    ]
