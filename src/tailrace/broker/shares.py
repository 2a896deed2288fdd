"""Everything that a broker keeps for share groups: sessions of their members, and the partitions as they read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tailrace.broker.share_partition import Phase, SharePartition
from tailrace.broker.share_persister import SharePersister
from tailrace.broker.share_sessions import Place, SessionKey, ShareSession, ShareSessions
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.metadata.versions import SHARE_VERSION
from tailrace.metrics.count import Count
from tailrace.metrics.gauge import Gauge
from tailrace.model.errors import NotLeaderOrFollowerError, TailraceError, UnsupportedVersionError
from tailrace.model.noop import noop

if TYPE_CHECKING:
    from tailrace.broker.context import RequestContext
    from tailrace.broker.node import Node


class Shares:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.persister = SharePersister(node)
        self.sessions = ShareSessions()
        self._partitions: dict[SharePartitionKey, SharePartition] = {}

    @property
    def is_enabled(self) -> bool:
        return self._node.image.features.get(SHARE_VERSION, 0) >= 1

    def check_enabled(self) -> None:
        if not self.is_enabled:
            raise UnsupportedVersionError(f"{SHARE_VERSION} is 0: this cluster has no share groups")

    # Partitions

    def find(self, key: SharePartitionKey) -> SharePartition | None:
        found = self._partitions.get(key)
        if found is not None and not found.is_led:
            found.fence()
            return None
        return found

    def find_or_load(self, key: SharePartitionKey) -> SharePartition:
        """UnknownTopicIdError, UnknownTopicOrPartitionError, NotLeaderOrFollowerError."""
        found = self.find(key)
        if found is None:
            partition = self._node.replicas.partition_by_id(key.topic_id, key.partition)
            if not partition.is_leader:
                raise NotLeaderOrFollowerError(f"this broker does not lead {partition.id}")
            found = self._partitions[key] = SharePartition(self._node, self.persister, key, partition, self._forget)
            found.load()
        return found

    def _forget(self, partition: SharePartition) -> None:
        if self._partitions.get(partition.key) is partition:
            del self._partitions[partition.key]

    # Sessions

    def begin_session(self, key: SessionKey, places: Iterable[Place], context: RequestContext) -> ShareSession:
        """It ends with the connection, if not before."""
        limit = self._node.config.group_share_max_share_sessions
        connection = context.connection
        try:
            session = self.sessions.begin(key, places, connection, limit)
        finally:
            self._drop_group_without_sessions(key.group_id)
        context.when_closed("share sessions", lambda: self._connection_closed(connection))
        return session

    def update_session(self, session: ShareSession, added: Iterable[Place], forgotten: Sequence[Place]) -> None:
        try:
            self.sessions.update(session, added, forgotten)
        finally:
            self._drop_group_without_sessions(session.key.group_id)
        for place in forgotten:
            self.find(SharePartitionKey(session.key.group_id, *place))  # lets go of what is deleted or led elsewhere

    def _connection_closed(self, connection: object) -> None:
        for session in self.sessions.of_connection(connection):
            self.end_session(session.key, noop)

    def end_session(self, key: SessionKey, done: Callable[[dict[Place, TailraceError | None]], None]) -> None:
        """Release what the member holds; `done` gets what became of each of its partitions."""
        session = self.sessions.end(key)
        if session is None:
            done({})
        else:
            self._release(session, done)

    def _release(self, session: ShareSession, done: Callable[[dict[Place, TailraceError | None]], None]) -> None:
        group_id, member_id = session.key
        results: dict[Place, TailraceError | None] = {}
        held = [(place, self.find(SharePartitionKey(group_id, *place))) for place in session.partitions]

        def released(place: Place, error: TailraceError | None) -> None:
            results[place] = error
            if len(results) == len(held):
                self._drop_group_without_sessions(group_id)
                done(results)

        for place, partition in held:
            if partition is None:
                released(place, None)
            else:
                partition.release(member_id, lambda error, place=place: released(place, error))  # type: ignore[misc]
        if not held:
            self._drop_group_without_sessions(group_id)
            done(results)

    def _drop_group_without_sessions(self, group_id: str) -> None:
        """Nobody reads: the state is read anew when somebody does, as it may be another one by then."""
        if not self.sessions.has_group(group_id):
            for partition in [each for each in self._partitions.values() if each.key.group_id == group_id]:
                partition.fence()

    def gauges(self) -> Iterator[Gauge | Count]:
        yield from self.sessions.gauges()
        for each in self._partitions.values():
            if each.phase is Phase.ACTIVE:
                group_id, _, partition = each.key
                tags = (("group", group_id), ("topic", each.partition.topic), ("partition", str(partition)))
                yield Gauge("server", "SharePartitionMetrics", "InFlightMessageCount", each.records.count, tags)
                yield Gauge("server", "SharePartitionMetrics", "InFlightBatchCount", len(each.records.runs), tags)
