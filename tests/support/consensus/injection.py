"""Injecting a defect into the consensus core of this process: one changed text in one function."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple

PACKAGE = "tailrace.raft.consensus"


class Defect(NamedTuple):
    """`target` is MODULE:FUNCTION or MODULE:CLASS.METHOD. `has_slow_reads`: see `run_slow_reads`."""

    name: str
    target: str
    old: str
    new: str
    seed: int
    has_slow_reads: bool = False

    def __str__(self) -> str:
        return self.name


def _function(target: str) -> FunctionType:
    module_name, _, path = target.partition(":")
    found: Any = importlib.import_module(f"{PACKAGE}.{module_name}")
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    return found.fget if isinstance(found, property) else found


def defective_code(defect: Defect) -> CodeType:
    function = _function(defect.target)
    source = textwrap.dedent(inspect.getsource(function))
    if source.startswith("@property\n"):
        source = source.removeprefix("@property\n")
    if source.count(defect.old) != 1:
        raise LookupError(f"{defect.name}: {defect.target} has {source.count(defect.old)} times {defect.old!r}")
    namespace = dict(function.__globals__)
    changed = source.replace(defect.old, defect.new)
    exec(compile(f"from __future__ import annotations\n{changed}", defect.target, "exec"), namespace)
    code: CodeType = namespace[function.__name__].__code__
    return code


@contextmanager
def injected(defect: Defect) -> Iterator[None]:
    """The defect is in the core of this process until the end of the block."""
    function, code = _function(defect.target), defective_code(defect)
    original = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original


def found_by(defect: Defect, run: Callable[[], object]) -> Exception | None:
    """What the run raises with the defect: a broken promise of a checker, or of the core to itself.

    A name that does not exist is a defect of the catalog.
    """
    with injected(defect):
        try:
            run()
        except (NameError, AttributeError):
            raise
        except Exception as error:
            return error
    return None
