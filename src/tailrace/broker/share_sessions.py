"""Share sessions: which partitions a member of a share group reads from this broker, named once and then by changes.

    epoch −1   ends the session; what the member still holds is released
    epoch 0    begins one, in the place of the member's older one
    epoch n    the n-th request of the session, fetch or acknowledgement

A session belongs to the connection that began it and ends with it. There are at most `group.share.max.share.sessions`.
Unlike Kafka's they hold no more than MAX_PARTITIONS together: a client may name any number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tailrace.metrics.gauge import Gauge
from tailrace.model.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_PARTITIONS: Final = 500_000
_LAST_EPOCH: Final = 0x7FFF_FFFF


class Place(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: bytes
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[Place, bool] = {}
        """Whether the next answer must tell of it even if there is nothing new."""

    def turn(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1


class ShareSessions:
    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._members: dict[str, int] = {}
        """Sessions by group."""
        self._partitions = 0  # of all of them

    def get(self, key: SessionKey) -> ShareSession:
        found = self._sessions.get(key)
        if found is None:
            raise ShareSessionNotFoundError(f"member {key.member_id} of {key.group_id} has no share session here")
        return found

    def at(self, key: SessionKey, epoch: int) -> ShareSession:
        found = self.get(key)
        if found.epoch != epoch:
            raise InvalidShareSessionEpochError(
                f"the share session of member {key.member_id} is at epoch {found.epoch}, not {epoch}"
            )
        return found

    def update(self, session: ShareSession, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Other partitions from now on; one that is in both is forgotten: what is said of it are last words.

        A session that has become too large is ended.
        """
        before = len(session.partitions)
        for place in added:
            session.partitions.setdefault(place, True)
        for place in forgotten:
            session.partitions.pop(place, None)
        self._partitions += len(session.partitions) - before
        if self._partitions > MAX_PARTITIONS:
            self.end(session.key)
            raise ShareSessionNotFoundError(f"the share session of member {session.key.member_id} is too large")

    def begin(self, key: SessionKey, places: Iterable[Place], connection: object, limit: int) -> ShareSession:
        self.end(key)
        partitions = dict.fromkeys(places, False)
        if len(self._sessions) >= limit or self._partitions + len(partitions) > MAX_PARTITIONS:
            raise ShareSessionLimitReachedError(
                f"there are {len(self._sessions)} share sessions on this broker already"
            )
        session = self._sessions[key] = ShareSession(key, connection)
        session.partitions = partitions
        self._partitions += len(partitions)
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            self._members[key.group_id] -= 1
            if not self._members[key.group_id]:
                del self._members[key.group_id]
        return session

    def of_connection(self, connection: object) -> list[ShareSession]:
        return [session for session in self._sessions.values() if session.connection is connection]

    def has_group(self, group_id: str) -> bool:
        return group_id in self._members

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("server", "ShareSessionCache", "ShareSessionsCount", len(self._sessions))
        yield Gauge("server", "ShareSessionCache", "SharePartitionsCount", self._partitions)
