"""States of new partitions of a share group, made at the share coordinator on behalf of the group's coordinator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.share_sessions import Place
from tailrace.coordinator.consumer.partitions import Partitions, partitions_of
from tailrace.coordinator.share_groups.manager import Initialization
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

Results = dict[Place, TailraceError | None]


def initialize(node: Node, order: Initialization, done: Callable[[Results], None]) -> None:
    """Make the states, and tell the group's coordinator which are there; `done` gets what became of each."""
    wanted = {
        Place(topic_id, index): start for topic_id, starts in order.starts.items() for index, start in starts.items()
    }
    results: Results = {}

    def settled(place: Place, error: TailraceError | None) -> None:
        results[place] = error
        if len(results) == len(wanted):
            _report(node, order.group_id, results, lambda: done(results))

    if not wanted:
        done({})
    for place, start in wanted.items():
        node.shares.persister.initialize(
            SharePartitionKey(order.group_id, *place),
            order.state_epoch,
            start,
            lambda _, place=place: settled(place, None),  # type: ignore[misc]
            partial(settled, place),
        )


def _report(node: Node, group_id: str, results: Results, done: Callable[[], None]) -> None:
    """Those that are there first. What cannot be noted is tried again with a later heartbeat."""

    def over(error: TailraceError) -> None:
        _log.info("what became of the states of share group %s is not noted: %s", group_id, error)
        done()

    def note_failed(_: object) -> None:
        failed = _places(place for place, error in results.items() if error is not None)
        if not failed:
            done()
            return
        first = next(error for error in results.values() if error is not None)
        _log.info("states of %s of share group %s cannot be made: %s", sorted(failed.values()), group_id, first)
        node.groups.submit(
            "share-states-not-made",
            group_id,
            lambda machine: machine.share.not_initialized(group_id, failed),
            lambda _: done(),
            over,
        )

    made = _places(place for place, error in results.items() if error is None)
    if made:
        node.groups.submit(
            "share-states-made", group_id, lambda machine: machine.share.initialized(group_id, made), note_failed, over
        )
    else:
        note_failed(None)


def _places(places: Iterable[Place]) -> Partitions:
    return partitions_of((place.topic_id, (place.partition,)) for place in places)
