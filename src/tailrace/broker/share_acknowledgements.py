"""What a member of a share group acknowledges, in its own request or with a fetch: all partitions of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.broker.share_records import RENEW, Acknowledgement
from tailrace.broker.share_sessions import Place, SessionKey
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.model.errors import (
    InvalidRecordStateError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

RENEWS_FROM: Final = 2
"""The first version of ShareFetch and ShareAcknowledge that can hold on to a lock."""
MAX_MEMBER_ID: Final = 36

Results = dict[Place, TailraceError | None]


class AcknowledgementBatch(Protocol):
    """Of either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Who sends the request. RefusedRequestError."""
    if group_id is None:
        raise RefusedRequestError("the request names no group")
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise RefusedRequestError(f"a member id has from 1 to {MAX_MEMBER_ID} characters")
    return SessionKey(group_id, member_id)


def checked(batches: Sequence[AcknowledgementBatch], version: int, is_renewal: bool) -> list[Acknowledgement]:
    """RefusedRequestError unless they are in order and each says one thing of every record, or something of each."""
    greatest = RENEW if version >= RENEWS_FROM else RENEW - 1
    found: list[Acknowledgement] = []
    told_to = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < told_to or len(types) not in (1, last - first + 1):
            raise RefusedRequestError(f"{len(types)} acknowledgements for the records from {first} to {last}")
        if any(not 0 <= kind <= greatest for kind in types) or (RENEW in types and not is_renewal):
            raise RefusedRequestError(f"acknowledgements of type {sorted(set(types))} are not for this request")
        found.append(Acknowledgement(first, last, types))
        told_to = last
    return found


class Acknowledging:
    """One request's part. `done` gets what became of each partition, once all of it is written."""

    def __init__(self, node: Node, key: SessionKey, done: Callable[[Results], None]) -> None:
        self._node = node
        self._key = key
        self._done = done

    def run(self, wanted: dict[Place, Sequence[AcknowledgementBatch]], version: int, is_renewal: bool) -> None:
        """Partitions of which nothing is said are answered only beside others, as Kafka does."""
        results: Results = {}
        if not any(wanted.values()):
            wanted = {place: batches for place, batches in wanted.items() if not self._is_there(place)}

        def settled(place: Place, error: TailraceError | None) -> None:
            results[place] = error
            if len(results) == len(wanted):
                self._done(results)

        if not wanted:
            self._done({})
        for place, batches in wanted.items():
            try:
                self._acknowledge(place, checked(batches, version, is_renewal), settled)
            except TailraceError as error:
                settled(place, error)

    def _is_there(self, place: Place) -> bool:
        topic = self._node.image.topic_by_id(place.topic_id)
        return topic is not None and place.partition in topic.partitions

    def _acknowledge(
        self,
        place: Place,
        acknowledgements: list[Acknowledgement],
        settled: Callable[[Place, TailraceError | None], None],
    ) -> None:
        topic = self._node.image.topic_by_id(place.topic_id)
        if topic is None:
            raise UnknownTopicIdError("there is no topic with this id")
        if place.partition not in topic.partitions:
            raise UnknownTopicOrPartitionError(f"{topic.name} has no partition {place.partition}")
        if not acknowledgements:
            settled(place, None)
            return
        group_id, member_id = self._key
        partition = self._node.shares.find(SharePartitionKey(group_id, *place))
        if partition is None:
            raise UnknownTopicOrPartitionError(
                f"nothing of {topic.name}-{place.partition} was delivered by this broker"
            )
        if not partition.settings.share_renew_acknowledge_enable and any(
            RENEW in each.types for each in acknowledgements
        ):
            raise InvalidRecordStateError(f"group {group_id} lets nobody renew a lock")
        partition.acknowledge(member_id, acknowledgements, lambda error: settled(place, error))
