"""Ends a Spark driver with SIGKILL right before a step of the exactly-once protocol, from within the step.

Is found by every Python process that has this folder on its path. `TAILRACE_KILL_BEFORE=commit.3` names the third
effect, from 0, of the steps `commit`; `TAILRACE_KILL_TOKEN` is a file: who removes it kills, so that it happens once.
`TAILRACE_KILL_GROUP` is the process group of the driver.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MODULE = "tailrace.spark.sink.exactly_once.transactions"


class KillPoint(MetaPathFinder, Loader):
    """Loads the module as it is, and puts itself between its steps and their effects."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            self._real = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        sink_cluster = module.SinkCluster
        run, carry_out = sink_cluster.run, sink_cluster.carry_out

        def counted_run(self: Any, steps: Any) -> Any:
            self.steps_name, self.steps_done = steps.__name__, 0
            return run(self, steps)

        def counted_carry_out(self: Any, effect: Any) -> Any:
            if f"{self.steps_name}.{self.steps_done}" == os.environ["TAILRACE_KILL_BEFORE"]:
                kill_once()
            self.steps_done += 1
            return carry_out(self, effect)

        sink_cluster.run, sink_cluster.carry_out = counted_run, counted_carry_out


def kill_once() -> None:
    try:
        os.unlink(os.environ["TAILRACE_KILL_TOKEN"])
    except FileNotFoundError:
        return
    os.killpg(int(os.environ["TAILRACE_KILL_GROUP"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if "TAILRACE_KILL_BEFORE" in os.environ:
    sys.meta_path.insert(0, KillPoint())
