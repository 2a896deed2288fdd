"""FindCoordinator: which broker coordinates a group, a transactional id, or a partition of a share group.

Any broker answers, from the metadata: the key's hash gives a partition of the coordinator's topic, and the leader of
that is the coordinator. A topic that is not there yet is made, and whoever asked is answered when it is. (Kafka has the
client come again.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.endpoints import ListenerView, SeenBroker
from tailrace.model.errors import CoordinatorNotAvailableError, InvalidRequestError, TailraceError
from tailrace.model.ids import TopicId
from tailrace.model.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

SHARE: Final = 2
TOPICS: Final = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
SEVERAL_FROM: Final = 4
SHARE_FROM: Final = 6
NO_NODE: Final = SeenBroker(-1, "", -1, None, False)
NO_ERROR_TEXT: Final = "NONE"  # what older versions are told when all is well

Found = SeenBroker | type[TailraceError]


def handle(
    node: Node,
    context: RequestContext,
    request: FindCoordinatorRequest,
    reply: Callable[[FindCoordinatorResponse], None],
) -> None:
    topic = TOPICS.get(request.key_type)
    is_known = topic is not None and node.coordinators.of_topic(topic) is not None
    keys = request.coordinator_keys if context.version >= SEVERAL_FROM else [request.key]
    is_wanted = any(_is_legal(request.key_type, key, context.version) for key in keys)
    if is_known and is_wanted and topic not in node.image.topics:
        assert topic is not None
        node.auto_topics.create([topic], lambda: reply(_answer(node, context, request, keys)))
    else:
        reply(_answer(node, context, request, keys))


def _answer(
    node: Node, context: RequestContext, request: FindCoordinatorRequest, keys: list[str]
) -> FindCoordinatorResponse:
    view = {broker.id: broker for broker in ListenerView(node.image, context.listener).brokers()}
    found = [_find(node, view, request.key_type, key, context.version) for key in keys]
    if context.version >= SEVERAL_FROM:
        text = None if request.key_type in TOPICS else InvalidRequestError.hint
        rows = [_row(key, each, text) for key, each in zip(keys, found, strict=True)]
        return FindCoordinatorResponse(coordinators=rows)
    row = _row(keys[0], found[0], None)
    return FindCoordinatorResponse(
        error_code=row.error_code,
        error_message=NO_ERROR_TEXT if isinstance(found[0], SeenBroker) else found[0].hint,
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )


def _row(key: str, found: Found, text: str | None) -> Coordinator:
    """`text` says why nobody at all was looked for."""
    is_found = isinstance(found, SeenBroker)
    broker = found if isinstance(found, SeenBroker) else NO_NODE
    return Coordinator(
        key=key,
        node_id=broker.id,
        host=broker.host,
        port=broker.port,
        error_code=0 if isinstance(found, SeenBroker) else found.code,
        error_message="" if is_found or text is None else text,
    )


def _find(node: Node, brokers: dict[int, SeenBroker], key_type: int, key: str, version: int) -> Found:
    if not _is_legal(key_type, key, version):
        return InvalidRequestError
    topic = node.image.topics.get(TOPICS[key_type])
    runtime = node.coordinators.of_topic(TOPICS[key_type])
    if topic is None or runtime is None:
        return CoordinatorNotAvailableError
    registration = topic.partitions.get(runtime.partition_for(key))
    leader = None if registration is None else brokers.get(registration.leader)
    return CoordinatorNotAvailableError if leader is None else leader


def _is_legal(key_type: int, key: str, version: int) -> bool:
    if key_type not in TOPICS:
        return False
    if key_type != SHARE:
        return True
    return version >= SHARE_FROM and _is_share_key(key)


def _is_share_key(key: str) -> bool:
    """`group:topic id:partition`."""
    parts = key.split(":")
    if len(parts) != 3 or not parts[0]:
        return False
    try:
        TopicId.parse(parts[1])
        int(parts[2])
    except ValueError:
        return False
    return True
