"""Probes: calls in a copy of `src` that record which test reaches which mutant.

A probe is a call `__mutant_reached__(NUMBER)` in front of the mutated statement; it always returns True. The function
is a builtin that the copy's `tailrace/__init__.py` installs, so it exists in every process that imports Tailrace,
in interpreted kernels and in Spark's workers too. It sets one byte in a file that all processes of a test worker map:

    bytes 0-3    index of the running test, 0 between tests
    bytes 8-     one row per test, in each row one byte per mutant number

A process that is killed loses nothing, because the page is the kernel's. Line numbers of the copy may differ from the
original's; the behavior must not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple

VARIABLE = "TAILRACE_MUTANT_REACH"
HEADER = 8
MAX_TESTS = 1 << 17

PROLOGUE = """
def __install_mutant_probes():
    import builtins, mmap, os

    path = os.environ.get("{variable}")
    if path is None:
        builtins.__mutant_reached__ = lambda number: True
        return
    with open(path, "r+b") as file:
        area = mmap.mmap(file.fileno(), 0)
    current = memoryview(area).cast("I")

    def reached(number):
        area[{header} + current[0] * {width} + number] = 1
        return True

    builtins.__mutant_reached__ = reached

__install_mutant_probes()
"""


class Insertion(NamedTuple):
    line: int
    column: int  # in characters
    text: str


def prologue(width: int) -> str:
    return PROLOGUE.format(variable=VARIABLE, header=HEADER, width=width)


def with_prologue(text: str, width: int) -> str:
    """The text of `tailrace/__init__.py` that installs the probes before it does anything else."""
    line = 0
    for statement in ast.parse(text).body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_docstring or is_future):
            break
        line = statement.end_lineno or 0
    lines = text.split("\n")
    return "\n".join([*lines[:line], prologue(width), *lines[line:]])


def with_probes(text: str, lines: Mapping[int, int]) -> str:
    """The module's text with a probe for each mutant; `lines` maps a mutant's number to its line."""
    tree = ast.parse(text)
    content = text.split("\n")
    insertions = [found for number, line in lines.items() for found in probe(tree, content, number, line)]
    return inserted(content, insertions)


def probe(tree: ast.Module, content: list[str], number: int, line: int) -> list[Insertion]:
    statement = innermost(tree, line)
    call = f"__mutant_reached__({number})"
    source = content[statement.lineno - 1]
    column = characters(source, statement.col_offset)
    if isinstance(statement, ast.If) and source.startswith("elif", column):
        test = statement.test
        first, last = content[test.lineno - 1], content[(test.end_lineno or 0) - 1]
        return [
            Insertion(test.lineno, characters(first, test.col_offset), f"{call} and ("),
            Insertion(test.end_lineno or 0, characters(last, test.end_col_offset or 0), ")"),
        ]
    if not hasattr(statement, "body") and not isinstance(statement, ast.Match):
        return [Insertion(statement.lineno, column, f"{call}; ")]
    return [Insertion(statement.lineno, 0, f"{source[:column]}{call}\n")]


def innermost(tree: ast.Module, line: int) -> ast.stmt:
    """The statement with the latest first line; of two that begin on that line, the one that contains the other."""
    covering = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(covering, key=lambda node: (node.lineno, -node.col_offset))


def characters(line: str, offset: int) -> int:
    """The AST counts columns in bytes of UTF-8."""
    return len(line.encode()[:offset].decode())


def inserted(content: Iterable[str], insertions: Iterable[Insertion]) -> str:
    lines = list(content)
    for line, column, text in sorted(insertions, reverse=True):
        lines[line - 1] = lines[line - 1][:column] + text + lines[line - 1][column:]
    return "\n".join(lines)
