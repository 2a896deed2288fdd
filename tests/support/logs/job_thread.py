"""Tells on which thread a file operation of a simulated machine would run: in the work of a job, or on the owner's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.logs.builders import Tape
from tailrace.sim import World


class OwnerCalls:
    """The calls on `tape` that the owner's thread makes from now on."""

    def __init__(self, world: World, tape: Tape) -> None:
        self._is_in_work = False
        self.calls: list[tuple[str, str]] = []
        check, run = tape.check, world.jobs.run

        def traced_check(op: Any, path: str, target: str | None = None) -> None:
            if not self._is_in_work:
                self.calls.append((op, path))
            check(op, path, target)

        def traced_run(name: str, work: Callable[[], Any], *arguments: Any, **options: Any) -> None:
            def traced_work() -> Any:
                self._is_in_work = True
                try:
                    return work()
                finally:
                    self._is_in_work = False

            run(name, traced_work, *arguments, **options)

        tape.check = traced_check  # type: ignore[method-assign]
        world.jobs.run = traced_run  # type: ignore[method-assign]

    def of(self, *ops: str) -> list[str]:
        return [path for op, path in self.calls if op in ops]
