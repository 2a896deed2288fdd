"""States of a share group taken away at the share coordinator: before the group is deleted, or its offsets are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.share_sessions import Place
from tailrace.coordinator.consumer.partitions import Partitions
from tailrace.coordinator.share_groups.offsets import begin_group_deletion
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.model.errors import GroupIdNotFoundError, TailraceError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Results = dict[Place, TailraceError | None]


def delete_states(node: Node, group_id: str, partitions: Partitions, done: Callable[[Results], None]) -> None:
    """`done` gets what became of each. A partition that does not exist any more has no state."""
    places = [Place(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
    results: Results = {}

    def settled(place: Place, error: TailraceError | None) -> None:
        results[place] = None if isinstance(error, UnknownTopicOrPartitionError) else error
        if len(results) == len(places):
            done(results)

    if not places:
        done({})
    for place in places:
        node.shares.persister.delete(
            SharePartitionKey(group_id, *place),
            lambda _, place=place: settled(place, None),  # type: ignore[misc]
            partial(settled, place),
        )


def delete_states_of_group(node: Node, group_id: str, done: Callable[[TailraceError | None], None]) -> None:
    """Of a share group that may be deleted; of any other there is nothing to do."""

    def found(partitions: Partitions) -> None:
        delete_states(node, group_id, partitions, ended)

    def ended(results: Results) -> None:
        done(next((error for error in results.values() if error is not None), None))

    def refused(error: TailraceError) -> None:
        done(None if isinstance(error, GroupIdNotFoundError) else error)

    node.groups.submit(
        "begin-share-group-deletion",
        group_id,
        lambda machine: begin_group_deletion(machine.share, group_id),
        found,
        refused,
    )
