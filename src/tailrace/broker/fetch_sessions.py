"""Incremental fetch sessions: a consumer of many partitions names them once, and then only what has changed.

    epoch −1    a fetch outside of any session; ends the one that it names
    epoch 0     all partitions; the answer's session id is what later ones are told relative to, 0 if none was made
    epoch n     the partitions that changed or were forgotten since epoch n − 1 of the session

Both sides remember the same state, so an answer leaves out what has not changed. There are at most
`max.incremental.fetch.session.cache.slots` sessions. When all are taken, a new one replaces one that was not used for
two minutes, or else the one with the fewest partitions if it has more, by Kafka's rule. Unlike Kafka's they hold no
more than MAX_PARTITIONS together: a client may name any number of partitions, whether they exist or not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Final

from tailrace.metrics.count import Count
from tailrace.metrics.gauge import Gauge
from tailrace.model.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
    TailraceError,
)
from tailrace.model.ids import NO_LEADER_EPOCH
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
MIN_EVICTION_MS: Final = 120_000
MAX_PARTITIONS: Final = 500_000  # about 130 MB
_MAX_EPOCH: Final = 0x7FFF_FFFF

Key = tuple[str | bytes, int]


class Wanted:
    """One partition that a client wants to read, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "offset",
        "told_high_watermark",
        "told_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: FetchTopic, part: FetchPartition) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = part.partition
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.take(part)

    def take(self, part: FetchPartition) -> None:
        self.offset = part.fetch_offset
        self.max_bytes = part.partition_max_bytes
        self.current_leader_epoch = max(part.current_leader_epoch, NO_LEADER_EPOCH)  # whatever is negative is none
        self.last_fetched_epoch = max(part.last_fetched_epoch, NO_LEADER_EPOCH)
        self.log_start_offset = part.log_start_offset


class FetchSession:
    """`partitions` is in the order in which they are served: those that got data go to its end."""

    __slots__ = ("created_ms", "epoch", "id", "is_privileged", "partitions", "used_ms", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, is_privileged: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.uses_ids = uses_ids
        self.is_privileged = is_privileged
        self.created_ms = self.used_ms = now_ms
        self.partitions: dict[Key, Wanted] = {}

    def update(self, request: FetchRequest) -> None:
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_ids else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((name, index), None)
        for topic in request.topics:
            name = topic.topic_id if self.uses_ids else topic.topic
            for part in topic.partitions:
                known = self.partitions.get((name, part.partition))
                if known is None:
                    self.partitions[name, part.partition] = Wanted(topic, part)
                else:
                    known.take(part)

    def served(self, wanted: Wanted) -> None:
        """Whoever got data is served last the next time."""
        key = (wanted.topic_id if self.uses_ids else wanted.topic, wanted.index)
        if self.partitions.get(key) is wanted:
            del self.partitions[key]
            self.partitions[key] = wanted


class FetchPlan:
    """What one request asks for. `is_incremental`: what has not changed is left out of the answer."""

    __slots__ = ("error", "is_incremental", "session", "wanted")

    def __init__(
        self,
        wanted: Iterable[Wanted] = (),
        session: FetchSession | None = None,
        *,
        is_incremental: bool = False,
        error: TailraceError | None = None,
    ) -> None:
        self.wanted = list(wanted)
        self.session = session
        self.is_incremental = is_incremental
        self.error = error


class FetchSessions:
    def __init__(self, slots: int, source: random.Random) -> None:
        self._slots = slots
        self._random = source
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self._partitions = 0  # of all of them
        self.evictions = 0

    def plan(self, request: FetchRequest, uses_ids: bool, is_follower: bool, now_ms: int) -> FetchPlan:
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(request.session_id)
            wanted = {}
            for topic in request.topics:
                for part in topic.partitions:
                    wanted[topic.topic_id if uses_ids else topic.topic, part.partition] = Wanted(topic, part)
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._begin(len(wanted), uses_ids, is_follower, now_ms)
                if session is not None:
                    session.partitions = wanted
                    self._partitions += len(wanted)
            return FetchPlan(wanted.values(), session)
        return self._go_on(request, uses_ids, now_ms)

    def _go_on(self, request: FetchRequest, uses_ids: bool, now_ms: int) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchPlan(error=FetchSessionIdNotFoundError(f"there is no fetch session {request.session_id}"))
        if session.epoch != request.session_epoch:
            text = f"fetch session {session.id} is at epoch {session.epoch}, not {request.session_epoch}"
            return FetchPlan(error=InvalidFetchSessionEpochError(text))
        if session.uses_ids != uses_ids:
            text = f"fetch session {session.id} was begun {'with' if session.uses_ids else 'without'} topic ids"
            return FetchPlan(error=FetchSessionTopicIdError(text))
        before = len(session.partitions)
        session.update(request)
        self._partitions += len(session.partitions) - before
        if not session.partitions:
            self._end(session.id)
            return FetchPlan()  # nothing is left of it
        if self._partitions > MAX_PARTITIONS:
            self._end(session.id)
            return FetchPlan(error=FetchSessionIdNotFoundError(f"fetch session {session.id} has become too large"))
        self._sessions[session.id] = self._sessions.pop(session.id)
        session.used_ms = now_ms
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        return FetchPlan(session.partitions.values(), session, is_incremental=True)

    def _begin(self, size: int, uses_ids: bool, is_privileged: bool, now_ms: int) -> FetchSession | None:
        is_full = len(self._sessions) >= self._slots or self._partitions + size > MAX_PARTITIONS
        if is_full and not self._evict(size, is_privileged, now_ms):
            return None
        if self._partitions + size > MAX_PARTITIONS:
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(session_id, uses_ids, is_privileged, now_ms)
        return session

    def _evict(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Make one slot free for a session of `size` partitions, if that is fair."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim = oldest if now_ms - oldest.used_ms > MIN_EVICTION_MS else None
        if victim is None:
            settled = (each for each in self._sessions.values() if now_ms - each.created_ms > MIN_EVICTION_MS)
            rivals = [each for each in settled if (each.is_privileged, len(each.partitions)) < (is_privileged, size)]
            victim = min(rivals, key=lambda each: (each.is_privileged, len(each.partitions)), default=None)
        if victim is None:
            return False
        self._end(victim.id)
        self.evictions += 1
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def gauges(self) -> Iterator[Gauge | Count]:
        yield Gauge("server", "FetchSessionCache", "NumIncrementalFetchSessions", len(self._sessions))
        yield Gauge("server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached", self._partitions)
        yield Count("server", "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec", self.evictions)
