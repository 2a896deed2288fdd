"""Injected defects of whole nodes in a cluster, with the seed of a run that finds each.

    PYTHONPATH=tests python -m support.metadata.node_defects --seeds 2000 [NAME…]

prints a seed for each defect that its own seed no longer finds. The runs are those of `tailrace sim run quorum`:
controllers, brokers, administrators and an operator, with all kinds of faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from support.metadata import driver_defects
from support.metadata.defect_search import Patch, search
from tailrace.controller.controller import Controller
from tailrace.model.errors import TailraceError
from tailrace.model.invariant import InvariantError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.sim.event_log import Violation
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters

FAULTS_MS = 8_000
FOUND = (AssertionError, TailraceError, InvariantError, Violation)


class NodeDefect(NamedTuple):
    inject: Patch
    seed: int

    def __str__(self) -> str:
        return self.inject.__name__


def run_seed(seed: int) -> None:
    QuorumRun(seed, QuorumRunParameters(faulty_ms=FAULTS_MS)).run()


def found_by(defect: NodeDefect, seed: int) -> Exception | None:
    with pytest.MonkeyPatch.context() as patch:
        defect.inject(patch)
        try:
            run_seed(seed)
        except FOUND as error:
            return error
    return None


# The active controller


def acknowledges_what_is_appended(patch: pytest.MonkeyPatch) -> None:
    """A command is acknowledged before its records are committed."""

    def respond(
        controller: Controller, request: Request, version: int, response: Response, done: Callable[[Response], None]
    ) -> None:
        done(response)

    patch.setattr(Controller, "_respond", respond)


# The image of a node


def skips_config_changes(patch: pytest.MonkeyPatch) -> None:
    """Committed settings are not in the image of a node."""
    committed = MetadataLoader.committed

    def without_configs(loader: MetadataLoader, records: list[VersionedRecord], *position: int) -> None:
        committed(loader, [each for each in records if not isinstance(each.record, ConfigRecord)], *position)

    patch.setattr(MetadataLoader, "committed", without_configs)


DEFECTS = (
    NodeDefect(acknowledges_what_is_appended, 0),
    NodeDefect(skips_config_changes, 0),
    NodeDefect(driver_defects.no_fsync, 6),
    NodeDefect(driver_defects.loses_its_timer, 0),
)


if __name__ == "__main__":
    search(DEFECTS, found_by)
