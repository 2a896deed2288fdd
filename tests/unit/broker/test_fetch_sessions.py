from __future__ import annotations

import random

import pytest

from tailrace.broker import fetch_sessions
from tailrace.broker.fetch_sessions import MIN_EVICTION_MS, FetchPlan, FetchSessions
from tailrace.model.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def request(session_id: int, epoch: int, offsets: dict[tuple[str, int], int], forget: tuple[str, int] | None = None):
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=index, fetch_offset=offset)])
        for (name, index), offset in offsets.items()
    ]
    forgotten = [ForgottenTopic(topic=forget[0], partitions=[forget[1]])] if forget else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten)


def offsets_of(plan: FetchPlan) -> dict[tuple[str, int], int]:
    return {(wanted.topic, wanted.index): wanted.offset for wanted in plan.wanted}


def test_outside_of_a_session_only_what_is_named_is_read() -> None:
    plan = sessions().plan(request(0, -1, {("a", 0): 5}), False, False, 0)
    assert plan.session is None
    assert offsets_of(plan) == {("a", 0): 5}


def test_a_session_remembers_what_is_not_named_again() -> None:
    cache = sessions()
    first = cache.plan(request(0, 0, {("a", 0): 5, ("b", 0): 6}), False, False, 0)
    assert first.session is not None
    assert not first.is_incremental
    second = cache.plan(request(first.session.id, 1, {("a", 0): 9}), False, False, 1)
    assert second.is_incremental
    assert offsets_of(second) == {("a", 0): 9, ("b", 0): 6}
    third = cache.plan(request(first.session.id, 2, {("c", 3): 1}, forget=("a", 0)), False, False, 2)
    assert offsets_of(third) == {("b", 0): 6, ("c", 3): 1}


def test_a_wrong_epoch_an_unknown_session_and_a_change_of_naming_are_refused() -> None:
    cache = sessions()
    begun = cache.plan(request(0, 0, {("a", 0): 5}), False, False, 0).session
    assert begun is not None
    assert isinstance(cache.plan(request(begun.id, 2, {}), False, False, 0).error, InvalidFetchSessionEpochError)
    assert isinstance(cache.plan(request(begun.id, 1, {}), True, False, 0).error, FetchSessionTopicIdError)
    assert isinstance(cache.plan(request(begun.id + 1, 1, {}), False, False, 0).error, FetchSessionIdNotFoundError)
    assert cache.plan(request(begun.id, 1, {}), False, False, 0).error is None


def test_the_final_epoch_ends_a_session() -> None:
    cache = sessions()
    begun = cache.plan(request(0, 0, {("a", 0): 5}), False, False, 0).session
    assert begun is not None
    cache.plan(request(begun.id, -1, {}), False, False, 0)
    assert isinstance(cache.plan(request(begun.id, 1, {}), False, False, 0).error, FetchSessionIdNotFoundError)


def test_a_session_without_partitions_ends() -> None:
    cache = sessions()
    begun = cache.plan(request(0, 0, {("a", 0): 5}), False, False, 0).session
    assert begun is not None
    emptied = cache.plan(request(begun.id, 1, {}, forget=("a", 0)), False, False, 0)
    assert emptied.session is None
    assert emptied.error is None


def test_a_full_cache_makes_room_only_for_the_old_and_the_small() -> None:
    cache = sessions(slots=1)
    small = cache.plan(request(0, 0, {("a", 0): 5}), False, False, 0).session
    assert small is not None
    larger = {("a", 0): 5, ("a", 1): 5}
    assert cache.plan(request(0, 0, larger), False, False, 1).session is None, "it is too new to be replaced"
    later_ms = MIN_EVICTION_MS + 1
    cache.plan(request(small.id, 1, {}), False, False, later_ms)  # still in use
    assert cache.plan(request(0, 0, {("b", 0): 1}), False, False, later_ms).session is None, "no larger than it"
    assert cache.plan(request(0, 0, larger), False, False, later_ms).session is not None
    assert cache.evictions == 1
    unused_ms = 3 * later_ms
    assert cache.plan(request(0, 0, {("b", 0): 1}), False, False, unused_ms).session is not None


def test_a_follower_goes_before_a_consumer() -> None:
    cache = sessions(slots=1)
    cache.plan(request(0, 0, {("a", 0): 5, ("a", 1): 5}), False, False, 0)
    soon_ms = MIN_EVICTION_MS + 1
    session = next(iter(cache._sessions.values()))
    session.used_ms = soon_ms
    assert cache.plan(request(0, 0, {("b", 0): 1}), False, True, soon_ms).session is not None


def test_who_got_data_is_served_last() -> None:
    cache = sessions()
    plan = cache.plan(request(0, 0, {("a", 0): 0, ("b", 0): 0, ("c", 0): 0}), False, False, 0)
    assert plan.session is not None
    plan.session.served(plan.wanted[0])
    after = cache.plan(request(plan.session.id, 1, {}), False, False, 0)
    assert [wanted.topic for wanted in after.wanted] == ["b", "c", "a"]


def test_all_together_hold_no_more_partitions_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 3)
    cache = sessions()
    first = cache.plan(request(0, 0, {("a", 0): 0, ("a", 1): 0}), False, False, 0)
    assert first.session is not None
    refused = cache.plan(request(0, 0, {("b", 0): 0, ("b", 1): 0}), False, False, 0)
    assert refused.session is None, "it is served, but not remembered"
    assert len(refused.wanted) == 2
    grown = cache.plan(request(first.session.id, 1, {("c", 0): 0, ("c", 1): 0}), False, False, 0)
    assert isinstance(grown.error, FetchSessionIdNotFoundError), "it begins anew"
    second = cache.plan(request(0, 0, {("b", 0): 0, ("b", 1): 0, ("b", 2): 0}), False, False, 0)
    assert second.session is not None, "what has ended takes no room"
    assert cache.plan(request(0, 0, {("d", 0): 0}), False, False, MIN_EVICTION_MS + 1).session is not None
