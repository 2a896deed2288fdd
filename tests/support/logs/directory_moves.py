"""A partition that moves between the data directories of a simulated machine, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.logs.managers import P0, ManagedWorld, offsets_in
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.log_mover import MoveProgress
from tailrace.storage.unified_log import UnifiedLog

MANY_STEPS = 400


class MovingWorld(ManagedWorld):
    """P0 in /a with `count` batches of one record each, flushed and replicated."""

    def __init__(self, count: int = 100, seed: int = 0, directories: tuple[str, ...] = ("/a", "/b"), **changes: Any):
        super().__init__(directories, seed, **changes)
        self.moved: list[UnifiedLog] = []
        self.failed: list[TailraceError] = []
        self.start()
        self.create(P0, "/a")
        self.append(count=count)
        self.flush()
        self.log().update_high_watermark(count)

    def move(self, partition: TopicPartition = P0, directory: str = "/b") -> None:
        target = self.manager.directories.at(directory)
        self.manager.move(partition, target, self.moved.append, self.failed.append)

    def cancel(self, partition: TopicPartition = P0) -> list[object]:
        outcomes: list[object] = []
        self.manager.cancel_move(partition, outcomes.append)
        return outcomes

    def step_until(self, reached: Callable[[], bool]) -> None:
        for _ in range(MANY_STEPS):
            if reached():
                return
            assert self.jobs.run_one(self.order), "nothing is left to do"
        pytest.fail("it is never reached")

    def copy_until(self, offset: int) -> UnifiedLog:
        """Run until the future log has got that far."""

        def has_come() -> bool:
            future = self.manager.log(P0, future=True)
            return future is not None and future.log_end_offset >= offset

        self.step_until(has_come)
        return self.future()

    def future(self) -> UnifiedLog:
        future = self.manager.log(P0, future=True)
        assert future is not None
        return future

    def progress(self) -> MoveProgress:
        return self.manager.moves[P0]

    def check_moved(self, end: int, start: int = 0, directory: str = "/b") -> None:
        assert self.failed == []
        assert self.log().dir == f"{directory}/orders-0"
        assert offsets_in(self.log()) == list(range(start, end))
        self.check_settled()

    def check_settled(self) -> None:
        """No move, no future log, nothing paused, and none after a restart."""
        assert dict(self.manager.moves) == {}
        assert self.manager.partitions(future=True) == []
        cleaner = self.manager.cleaner
        assert cleaner is None or cleaner.state_of(P0) is None
        assert not [name for each in self.config.directories for name in self.names(each) if name.endswith("-future")]
