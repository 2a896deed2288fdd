"""What a Python file defines and mentions, unit by unit.

A unit is a top-level function, a method, the rest of a class (its head, with its dunder methods), a name that the top
level assigns, what the file executes as a program, or what else it executes when it is imported (its body).
A unit mentions

- names: identifiers and dotted chains, such as `log` or `segment.Index`, to be looked up in the scope of the file
- attributes: `name` of every `x.name`, and every string that could be one, for `getattr` and its relatives
- texts: strings that may be paths, file names, module names or programs
- imports: what the unit itself imports

Annotations of functions are no mentions under `from __future__ import annotations`, which leaves them unevaluated.
Those of class bodies are mentions, because dataclasses and schemas evaluate them. Docstrings are no texts.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

BODY = ""
AS_PROGRAM = "__main__"

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WITH_ATTRIBUTE_NAME = {"getattr", "setattr", "hasattr", "delattr"}
_WITH_ATTRIBUTE_NAMES = {"attrgetter", "methodcaller"}
_REGISTERS_COMMAND = {"add_parser", "add_command", "add_group"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    module: str
    level: int  # of a relative import
    name: str  # "" for the module itself, "*" for all of its names
    bound: str


class Unit(NamedTuple):
    kind: str  # "function", "class", or "" for statements
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    texts: tuple[str, ...]
    imports: tuple[Import, ...]
    vague: tuple[tuple[str, str], ...]  # (start, end) of attribute names that the unit computes
    commands: tuple[str, ...]  # command-line commands that the unit registers
    decorators: tuple[str, ...]
    bases: tuple[str, ...]  # of a class; "=" for a keyword, such as a metaclass
    parameters: tuple[str, ...]  # of a function


class Facts(NamedTuple):
    units: dict[str, Unit]  # BODY is the body, `C` the head of a class, `C.m` its method
    imports: tuple[Import, ...]  # of the top level: they bind names for all units
    type_imports: tuple[Import, ...]  # of the top level, for type checkers alone


class _Collector(ast.NodeVisitor):
    """Gathers the mentions of one unit."""

    def __init__(self, lazy_annotations: bool) -> None:
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: set[str] = set()
        self.imports: list[Import] = []
        self.vague: set[tuple[str, str]] = set()
        self.commands: set[str] = set()
        self._lazy = lazy_annotations

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = _chain(node)
        self.attributes |= set(chain.split(".")[1:])
        if chain[0] == "?":
            value: ast.expr = node
            while isinstance(value, ast.Attribute):
                value = value.value
            self.visit(value)
        else:
            self.names.add(chain)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value:
            self.texts.add(node.value)
            if _IDENTIFIER.fullmatch(node.value):
                self.attributes.add(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = _chain(node.func).rpartition(".")[2]
        arguments = list(node.args)
        if called in _WITH_ATTRIBUTE_NAME and len(arguments) > 1:
            name = arguments[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                # `setattr(module, "name", …)` mentions one name of the module, not all of it
                arguments[:2] = [ast.Attribute(arguments[0], name.value, ast.Load())]
            elif isinstance(name, ast.JoinedStr | ast.BinOp):
                self.vague.add(_known_ends(name))
        elif called in _WITH_ATTRIBUTE_NAMES:
            constants = [each.value for each in arguments if isinstance(each, ast.Constant)]
            self.attributes |= {part for value in constants for part in str(value).split(".")}
        elif called in _REGISTERS_COMMAND:
            constants = [each.value for each in arguments if isinstance(each, ast.Constant)]
            self.commands |= {str(value) for value in constants[:1]}
        self.attributes |= {keyword.arg for keyword in node.keywords if keyword.arg}
        for part in (node.func, *arguments, *node.keywords):
            self.visit(part)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self.attributes |= set(node.kwd_attrs)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports += imports_of(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.visit_Import(node)

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation and not self._lazy:
            self.visit(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value:
            self.visit(node.value)
        if not self._lazy:
            self.visit(node.annotation)

    def visit_FunctionDef(self, node: Function) -> None:
        for part in (*node.decorator_list, node.args, *without_docstring(node.body)):
            self.visit(part)
        if node.returns and not self._lazy:
            self.visit(node.returns)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        for statement in without_docstring(node.body):
            self.visit_member(statement)

    def visit_member(self, statement: ast.AST) -> None:
        """A statement of a class body: its annotation counts, and its names may be those of methods."""
        if isinstance(statement, ast.AnnAssign):
            self.visit(statement.annotation)
        self.visit(statement)
        if isinstance(statement, Function):
            self.attributes.add(statement.name)  # a dunder method
        elif not isinstance(statement, ast.ClassDef):
            self.attributes |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}

    def unit(self, node: ast.AST | None) -> Unit:
        arguments = getattr(node, "args", None)
        parameters = [arg.arg for arg in ast.walk(arguments) if isinstance(arg, ast.arg)] if arguments else []
        bases = [_chain(base) for base in getattr(node, "bases", ())]
        kind = "class" if isinstance(node, ast.ClassDef) else "function" if isinstance(node, Function) else ""
        return Unit(
            kind=kind,
            names=tuple(sorted(self.names)),
            attributes=tuple(sorted(self.attributes)),
            texts=tuple(sorted(self.texts)),
            imports=tuple(self.imports),
            vague=tuple(sorted(self.vague)),
            commands=tuple(sorted(self.commands)),
            decorators=tuple(_chain(each) for each in getattr(node, "decorator_list", ())),
            bases=(*bases, *("=" for _ in getattr(node, "keywords", ()))),
            parameters=tuple(parameters),
        )


def _chain(node: ast.expr) -> str:
    """`a.b` of `a.b`, `a.b(…)` and `a.b[…]`. Where the start is not a name, it is "?"."""
    chain: list[str] = []
    inner = node
    while isinstance(inner, ast.Call | ast.Subscript | ast.Attribute):
        if isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        elif chain:
            return ".".join(("?", *reversed(chain)))  # `a().b`: what it is depends on what `a` returns
        else:
            inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return ".".join((inner.id if isinstance(inner, ast.Name) else "?", *reversed(chain)))


def _known_ends(node: ast.JoinedStr | ast.BinOp) -> tuple[str, str]:
    """What a computed name starts and ends with, as far as that is constant."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node.left, node.right]
    first, last = (part.value if isinstance(part, ast.Constant) else "" for part in (parts[0], parts[-1]))
    return str(first), str(last)


def imports_of(node: ast.Import | ast.ImportFrom) -> list[Import]:
    if isinstance(node, ast.Import):
        return [Import(each.name, 0, "", each.asname or each.name.partition(".")[0]) for each in node.names]
    return [Import(node.module or "", node.level, each.name, each.asname or each.name) for each in node.names]


def _is_docstring(node: ast.stmt) -> bool:
    """Also one below an assignment."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def without_docstring(statements: list[ast.stmt]) -> list[ast.stmt]:
    return statements[1:] if statements and _is_docstring(statements[0]) else statements


def _is_for_types(node: ast.If) -> bool:
    return _chain(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _is_program(node: ast.If) -> bool:
    test = node.test
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def top_level(statements: list[ast.stmt], for_types: bool = False) -> Iterator[ast.stmt]:
    """Statements that run at import, with those inside of `if`, `try` and `with`; or those for type checkers alone."""
    for node in without_docstring(statements):
        if isinstance(node, ast.If) and _is_for_types(node):
            yield from node.body if for_types else top_level(node.orelse)
        elif for_types:
            continue
        elif isinstance(node, ast.If | ast.Try | ast.With) and not (isinstance(node, ast.If) and _is_program(node)):
            yield node
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            for block in (*blocks, *(handler.body for handler in getattr(node, "handlers", ()))):
                yield from top_level(block)
        else:
            yield node


def _evaluated(node: ast.stmt) -> list[ast.AST]:
    """What a statement evaluates apart from the statements inside of it."""
    if isinstance(node, ast.If):
        return [node.test]
    if isinstance(node, ast.With):
        return list(node.items)
    if isinstance(node, ast.Try):
        return [handler.type for handler in node.handlers if handler.type]
    return [node]


def _assigned(node: ast.stmt) -> list[str]:
    """The names that an assignment binds, if it binds names alone."""
    if isinstance(node, ast.AnnAssign):
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign):
        targets = [each for target in node.targets for each in getattr(target, "elts", [target])]
    else:
        return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _parts(tree: ast.Module) -> Iterator[tuple[str, list[ast.AST], ast.AST | None]]:
    """(name of a unit, parts, definition). A name may come several times; the parts of the unit then add up."""
    for node in top_level(tree.body):
        if isinstance(node, Function):
            yield node.name, [node], node
        elif isinstance(node, ast.ClassDef):
            head: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
            for member in node.body:
                if _is_docstring(member):
                    continue
                if isinstance(member, Function) and not _is_dunder(member.name):
                    yield f"{node.name}.{member.name}", [member], member
                else:
                    head.append(member)
            yield node.name, head, node
        elif names := _assigned(node):
            for name in names:
                yield name, [node], None
        elif isinstance(node, ast.If) and _is_program(node):
            yield AS_PROGRAM, [*node.body], None
        elif not isinstance(node, ast.Import | ast.ImportFrom) and not _is_docstring(node):
            yield BODY, _evaluated(node), None


def _imports(tree: ast.Module, for_types: bool = False) -> Iterator[Import]:
    for node in top_level(tree.body, for_types):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports_of(node)


def facts_of(source: str | bytes) -> Facts:
    """Raises SyntaxError."""
    tree = ast.parse(source)
    lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    collectors: dict[str, tuple[_Collector, ast.AST | None]] = {BODY: (_Collector(lazy), None)}
    for name, parts, definition in _parts(tree):
        collector, known = collectors.get(name) or (_Collector(lazy), None)
        collectors[name] = collector, known or definition
        visit = collector.visit_member if isinstance(definition, ast.ClassDef) else collector.visit
        for part in parts:
            visit(part)
    units = {name: collector.unit(definition) for name, (collector, definition) in collectors.items()}
    return Facts(units, tuple(_imports(tree)), tuple(_imports(tree, for_types=True)))


class Digests(NamedTuple):
    """What decides whether two versions of a file do the same."""

    units: dict[str, str]
    imports: frozenset[Import]
    identifiers: frozenset[str]  # all, those of annotations too


def digests_of(source: bytes) -> Digests:
    """Comments and format make no difference, nor do docstrings unless the file uses `__doc__`."""
    tree = ast.parse(source)
    if b"__doc__" not in source:
        for node in ast.walk(tree):
            if isinstance(node, Function | ast.ClassDef):
                node.body = without_docstring(node.body)
        tree.body = without_docstring(tree.body)
    dumps: dict[str, list[str]] = {}
    for name, parts, definition in _parts(tree):
        kind = type(definition).__name__
        dumps.setdefault(name, []).extend([kind, *(ast.dump(part) for part in parts)])
    units = {name: hashlib.sha256("\n".join(parts).encode()).hexdigest() for name, parts in dumps.items()}
    if b"__doc__" in source and (text := ast.get_docstring(tree)):
        units[BODY] = units.get(BODY, "") + hashlib.sha256(text.encode()).hexdigest()
    identifiers = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Digests(units, frozenset(_imports(tree)), identifiers)
