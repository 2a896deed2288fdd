"""The way from a share partition, or a group's coordinator, to the share coordinator.

Here it is in the same process. Where the coordinator is not there yet (its topic does not exist, it is loading, or
leadership is moving), the call is made again a few times before it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.shard import ShareStateShard, Summary
from tailrace.coordinator.share_state.state import ShareState, StateChange
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    TailraceError,
)
from tailrace.model.internal_topics import SHARE_GROUP_STATE

if TYPE_CHECKING:
    from tailrace.broker.node import Node

ATTEMPTS: Final = 6
FIRST_PAUSE_MS: Final = 50
_TRY_AGAIN: Final = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)

Failed = Callable[[TailraceError], None]
Command = Callable[[ShareStateShard], Outcome]


class SharePersister:
    def __init__(self, node: Node) -> None:
        self._node = node

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None], failed: Failed
    ) -> None:
        self._call("read-share-state", key, lambda machine: machine.read(key, leader_epoch), done, failed)

    def write(
        self, key: SharePartitionKey, change: Callable[[], StateChange], done: Callable[[object], None], failed: Failed
    ) -> None:
        """`change` is asked each time that it is tried: others may have been written meanwhile, and moved the start."""
        self._call("write-share-state", key, lambda machine: machine.write(key, change()), done, failed)

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start: int, done: Callable[[object], None], failed: Failed
    ) -> None:
        self._call(
            "initialize-share-state", key, lambda machine: machine.initialize(key, state_epoch, start), done, failed
        )

    def delete(self, key: SharePartitionKey, done: Callable[[object], None], failed: Failed) -> None:
        self._call("delete-share-state", key, lambda machine: machine.delete(key), done, failed)

    def summary(self, key: SharePartitionKey, done: Callable[[Summary], None], failed: Failed) -> None:
        self._call("summarize-share-state", key, lambda machine: machine.summary(key), done, failed)

    def _call(
        self,
        name: str,
        key: SharePartitionKey,
        command: Command,
        done: Callable[..., None],
        failed: Failed,
        past: int = 0,
    ) -> None:
        again = partial(self._call, name, key, command, done, failed, past + 1)

        def refused(error: TailraceError) -> None:
            if not isinstance(error, _TRY_AGAIN) or past + 1 >= ATTEMPTS:
                failed(error)
            elif SHARE_GROUP_STATE not in self._node.image.topics:
                self._node.auto_topics.create([SHARE_GROUP_STATE], again)
            else:
                self._node.env.jobs.later("share-state-again", FIRST_PAUSE_MS << past, again)

        self._node.share_states.submit(name, str(key), command, done, refused)
