"""Python source under construction: lines, indentation, and the objects that the lines name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self.names: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines written inside stand under `head`; there must be at least one."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, wanted: str, value: Any) -> str:
        """A name under which the lines find `value`: `wanted`, with a number where another value has it."""
        candidate, number = wanted, 1
        while candidate in self.names and self.names[candidate] is not value:
            number += 1
            candidate = f"{wanted}_{number}"
        self.names[candidate] = value
        return candidate

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compiled(self, function: str, title: str) -> Any:
        """The function of that name, made from the lines so far."""
        scope = dict(self.names)
        exec(compile(self.text, f"<{title}>", "exec"), scope)
        return scope[function]
