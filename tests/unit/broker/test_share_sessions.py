"""Share sessions."""

from __future__ import annotations

import pytest

from tailrace.broker import share_sessions
from tailrace.broker.share_sessions import Place, SessionKey, ShareSessions
from tailrace.model.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

A, B = SessionKey("g", "a"), SessionKey("g", "b")
ID = bytes(16)


def places(count: int) -> list[Place]:
    return [Place(ID, index) for index in range(count)]


def test_a_session_is_known_by_its_member_and_epoch() -> None:
    sessions = ShareSessions()
    with pytest.raises(ShareSessionNotFoundError):
        sessions.at(A, 1)
    session = sessions.begin(A, places(2), None, 10)
    assert sessions.at(A, 1) is session
    session.turn()
    with pytest.raises(InvalidShareSessionEpochError):
        sessions.at(A, 1)
    session.epoch = 0x7FFF_FFFF
    session.turn()
    assert session.epoch == 1


def test_a_session_that_begins_anew_replaces_the_one_before() -> None:
    sessions = ShareSessions()
    first = sessions.begin(A, places(2), None, 1)
    assert sessions.begin(A, places(1), None, 1) is not first
    with pytest.raises(ShareSessionLimitReachedError):
        sessions.begin(B, (), None, 1)
    assert sessions.has_group("g")
    assert A in sessions
    sessions.end(A)
    assert not sessions.has_group("g")
    assert len(sessions) == 0
    assert sessions.end(A) is None


def test_sessions_end_with_their_connection() -> None:
    sessions, link = ShareSessions(), object()
    session = sessions.begin(A, (), link, 10)
    sessions.begin(B, (), object(), 10)
    assert sessions.of_connection(link) == [session]


def test_no_client_makes_sessions_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 10)
    sessions = ShareSessions()
    session = sessions.begin(A, places(8), None, 10)
    with pytest.raises(ShareSessionLimitReachedError):
        sessions.begin(B, places(3), None, 10)
    sessions.update(session, places(10), places(2))
    with pytest.raises(ShareSessionNotFoundError):
        sessions.update(session, places(30), ())
    assert A not in sessions
    sessions.begin(B, places(10), None, 10)


def test_a_partition_that_is_forgotten_with_a_last_word_about_it_is_forgotten() -> None:
    """A member that loses a partition acknowledges what it has of it in the request that forgets it."""
    sessions = ShareSessions()
    session = sessions.begin(A, places(2), None, 10)
    sessions.update(session, places(1), places(1))
    assert list(session.partitions) == [Place(ID, 1)]
