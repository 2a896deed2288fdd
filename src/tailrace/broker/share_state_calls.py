"""Requests of other brokers to the share coordinator: each names partitions of topics, and each is asked by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.shard import ShareStateShard
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.broker.node import Node

P = TypeVar("P")
R = TypeVar("R")


def ask_each(
    node: Node,
    group_id: str,
    topics: Iterable[tuple[bytes, list[P]]],
    command: Callable[[ShareStateShard, SharePartitionKey, P], Outcome],
    row: Callable[[int, Any], R],
    failed_row: Callable[[int, TailraceError], R],
    done: Callable[[list[tuple[bytes, list[R]]]], None],
) -> None:
    """`done` gets rows in the order of the request, which must name its partitions as `partition`."""
    asked = [(topic_id, parts) for topic_id, parts in topics if parts]
    answers: list[tuple[bytes, dict[int, R]]] = [(topic_id, {}) for topic_id, _ in asked]
    left = sum(len(parts) for _, parts in asked)
    if not group_id or not left:
        done([])
        return

    def add(topic_at: int, part_at: int, answer: R) -> None:
        nonlocal left
        answers[topic_at][1][part_at] = answer
        left -= 1
        if not left:
            done([(topic_id, [rows[at] for at in sorted(rows)]) for topic_id, rows in answers])

    for topic_at, (topic_id, parts) in enumerate(asked):
        for part_at, part in enumerate(parts):
            index: int = part.partition  # type: ignore[attr-defined]
            key = SharePartitionKey(group_id, topic_id, index)
            put = partial(add, topic_at, part_at)
            node.share_states.submit(
                "share-state",
                str(key),
                lambda machine, key=key, part=part: command(machine, key, part),  # type: ignore[misc]
                lambda found, index=index, put=put: put(row(index, found)),  # type: ignore[misc]
                lambda error, index=index, put=put: put(failed_row(index, error)),  # type: ignore[misc]
            )
