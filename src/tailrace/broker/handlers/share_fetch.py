"""ShareFetch: records for a member of a share group, and what it says of those that it has got before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.share_acknowledgements import (
    RENEWS_FROM,
    AcknowledgementBatch,
    Acknowledging,
    Results,
    session_key,
)
from tailrace.broker.share_fetch import ACQUIRE_MODES, Fetched, ShareFetch, ShareWant
from tailrace.broker.share_rows import leader_instead
from tailrace.broker.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, SessionKey, ShareSession
from tailrace.coordinator.group_settings import settings_of_group
from tailrace.model.errors import (
    RefusedRequestError,
    ShareSessionLimitReachedError,
    TailraceError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.noop import noop
from tailrace.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

LONGEST_PAUSE_MS: Final = 5000
"""A refusal that waits outlives its connection."""

Reply = Callable[[ShareFetchResponse], None]


def handle(node: Node, context: RequestContext, request: ShareFetchRequest, reply: Reply) -> None:
    node.shares.check_enabled()
    key = session_key(request.group_id, request.member_id)
    _check(request, context.version)
    try:
        session, places = _session(node, context, request, key)
    except ShareSessionLimitReachedError as error:
        # The client would come again at once, and in vain.
        refusal = ShareFetchResponse(error_code=error.code, error_message=str(error))
        pause_ms = min(max(request.max_wait_ms, 0), LONGEST_PAUSE_MS)
        node.env.jobs.later("share-session-limit", pause_ms, lambda: reply(refusal))
        return
    _Answer(node, context, request, key, session, reply).run(places)


def _check(request: ShareFetchRequest, version: int) -> None:
    if version >= RENEWS_FROM and request.is_renew_ack:
        asked = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
        if any(asked):
            raise RefusedRequestError(f"a request that renews locks cannot ask for records, as this does with {asked}")
    if request.share_acquire_mode not in ACQUIRE_MODES:
        raise UnknownServerError(f"there is no acquire mode {request.share_acquire_mode}")


def _session(
    node: Node, context: RequestContext, request: ShareFetchRequest, key: SessionKey
) -> tuple[ShareSession | None, list[Place]]:
    """The member's session, if it goes on after this request, and the partitions to read, in turn."""
    named = [Place(topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions]
    epoch = request.share_session_epoch
    if epoch == FINAL_EPOCH:
        node.shares.sessions.get(key)
        return None, []
    if epoch == INITIAL_EPOCH:
        if any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions):
            raise RefusedRequestError("a session cannot begin with acknowledgements")
        return node.shares.begin_session(key, named, context), named
    session = node.shares.sessions.at(key, epoch)
    forgotten = [Place(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    node.shares.update_session(session, named, forgotten)
    session.turn()
    places = list(session.partitions)
    turned = epoch % len(places) if places else 0
    return session, places[turned:] + places[:turned]


class _Answer:
    """It is complete when both parts are: the acknowledgements and the records."""

    def __init__(
        self,
        node: Node,
        context: RequestContext,
        request: ShareFetchRequest,
        key: SessionKey,
        session: ShareSession | None,
        reply: Reply,
    ) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._key = key
        self._session = session
        self._reply = reply
        self._results: Results | None = None
        self._fetched: dict[Place, Fetched] | None = None

    def run(self, places: list[Place]) -> None:
        request = self._request
        wanted: dict[Place, Sequence[AcknowledgementBatch]] = {
            Place(topic.topic_id, part.partition_index): part.acknowledgement_batches
            for topic in request.topics
            for part in topic.partitions
            if part.acknowledgement_batches
        }
        Acknowledging(self._node, self._key, self._acknowledged).run(
            wanted, self._context.version, request.is_renew_ack
        )
        if request.is_renew_ack:
            self._read({})
            return
        unknown = {place: Fetched(error=error) for place in places if (error := self._refusal(place)) is not None}
        want = ShareWant(
            request.min_bytes,
            min(request.max_bytes, self._node.config.fetch_max_bytes),
            request.max_records,
            request.batch_size,
            request.share_acquire_mode,
            request.max_wait_ms,
        )
        known = [place for place in places if place not in unknown]
        fetch = ShareFetch(self._node, self._key, want, known, lambda found: self._read({**unknown, **found}))
        fetch.run(self._context.when_dropped)

    def _refusal(self, place: Place) -> TailraceError | None:
        topic = self._node.image.topic_by_id(place.topic_id)
        if topic is None:
            return UnknownTopicIdError("there is no topic with this id")
        if place.partition not in topic.partitions:
            return UnknownTopicOrPartitionError(f"{topic.name} has no partition {place.partition}")
        return None

    def _acknowledged(self, results: Results) -> None:
        self._results = results
        self._answer()

    def _read(self, fetched: dict[Place, Fetched]) -> None:
        self._fetched = fetched
        self._answer()

    def _answer(self) -> None:
        if self._results is None or self._fetched is None:
            return
        rows = {place: _row(place, found) for place, found in self._fetched.items()}
        if self._session is not None and self._request.share_session_epoch != INITIAL_EPOCH:
            rows = {place: row for place, row in rows.items() if self._is_news(self._session, place, row)}
        for place, error in self._results.items():
            row = rows.setdefault(place, _row(place, Fetched()))
            if error is not None:
                row.acknowledge_error_code, row.acknowledge_error_message = error.code, str(error)
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._node.shares.end_session(self._key, noop)
        self._reply(self._response(rows))

    def _is_news(self, session: ShareSession, place: Place, row: PartitionData) -> bool:
        must_be_told = session.partitions.get(place, False)
        if place in session.partitions:
            session.partitions[place] = bool(row.error_code)  # when it has recovered, that is told too
        return must_be_told or bool(row.error_code) or bool(row.acquired_records)

    def _response(self, rows: dict[Place, PartitionData]) -> ShareFetchResponse:
        node, context = self._node, self._context
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        for place, row in rows.items():
            topic = topics.setdefault(place.topic_id, ShareFetchableTopicResponse(topic_id=place.topic_id))
            topic.partitions.append(row)
            leader = leader_instead(node, place, row.error_code, context.listener)
            if leader is not None:
                row.current_leader = LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)
                if leader.endpoint is not None:
                    endpoints[leader.node_id] = NodeEndpoint(**leader.endpoint)
        settings = settings_of_group(node.config, node.image, self._key.group_id)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
            responses=list(topics.values()),
            node_endpoints=list(endpoints.values()),
        )


def _row(place: Place, found: Fetched) -> PartitionData:
    error = found.error
    return PartitionData(
        partition_index=place.partition,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else str(error),
        records=found.records,
        acquired_records=[
            AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
            for each in found.acquired
        ],
    )
