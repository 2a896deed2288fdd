"""Where a share group begins to read a partition that it has never read: `share.auto.offset.reset`.

latest   earliest   by_duration:PnDTnHnMn.nS   the first record that is at most so old
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.config.durations import duration_ms
from tailrace.model.errors import OffsetNotAvailableError, TailraceError, UnknownServerError
from tailrace.replication.partition import Partition
from tailrace.storage.offset_lookup import EARLIEST, LATEST

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_BY_DURATION: Final = "by_duration:"


def find_start(
    node: Node,
    partition: Partition,
    reset: str,
    done: Callable[[int], None],
    failed: Callable[[TailraceError], None],
) -> None:
    """By time a job looks, else it is known at once."""

    def at(timestamp: int) -> int:
        found = partition.list_offsets(timestamp, current_leader_epoch=partition.leader_epoch)
        if found is None:
            found = partition.list_offsets(LATEST)
        if found is None:
            raise OffsetNotAvailableError(f"the end of {partition.id} is not known yet")
        return found.offset

    def broke(error: Exception) -> None:
        failed(error if isinstance(error, TailraceError) else UnknownServerError(str(error)))

    try:
        if reset.startswith(_BY_DURATION):
            timestamp = max(node.env.clock.now_ms() - duration_ms(reset.removeprefix(_BY_DURATION)), 0)
            node.env.jobs.run("share-start", lambda: at(timestamp), done, broke)
            return
        start = at(EARLIEST if reset == "earliest" else LATEST)
    except TailraceError as error:
        failed(error)
        return
    done(start)
