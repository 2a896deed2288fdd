"""Subscriptions by regular expression."""

from __future__ import annotations

import pytest
import re2  # type: ignore[import-untyped,unused-ignore]

from support.coordinators.consumer import Consumer, ConsumerRig, owned_of, topic_id
from tailrace.coordinator.consumer import pattern_resolver
from tailrace.coordinator.consumer.patterns import compiled
from tailrace.model.errors import InvalidRegularExpressionError

HOSTILE = (
    "(a+)+$",
    "(a|a)*b",
    "((((((((((a*)*)*)*)*)*)*)*)*)*)b",
    "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[0-9]",
    "x" * 30_000,
)
NOT_RE2 = (
    "(",
    "[",
    "a**",
    "(?=a)",
    r"(a)\1",
    "(?P<n",
    "a{2,1}",
    "a{1001}",
    "(a{1000}){1000}",
    "\\",
    "\ud800",
    "x" * 32_768,
)


@pytest.mark.parametrize("pattern", NOT_RE2)
def test_what_re2_does_not_accept_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        compiled(pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_long(pattern: str) -> None:
    assert not compiled(pattern)("a" * 248 + "!")


def test_no_pattern_is_remembered_by_the_library() -> None:
    compiled("a{1000}")
    with pytest.raises(InvalidRegularExpressionError):
        compiled("(")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_a_pattern_matches_whole_names() -> None:
    matches = compiled("order.?")
    assert [name for name in ("order", "orders", "orders2", "reorder") if matches(name)] == ["order", "orders"]


def subscribed(rig: ConsumerRig, member_id: str, pattern: str) -> Consumer:
    member = Consumer(
        rig, member_id, subscribed_topic_regex=pattern, subscribed_topic_names=None, rebalance_timeout_ms=30_000
    )
    member.beat()
    return member


@pytest.mark.spec("CO-05")
def test_topics_are_found_by_pattern_between_two_heartbeats() -> None:
    rig = ConsumerRig({"order-a": 1, "order-b": 2, "other": 3})
    member = subscribed(rig, "a", "order-.*")
    assert member.owned == {}
    member.beat()
    assert member.owned == {topic_id("order-a"): {0}, topic_id("order-b"): {0, 1}}
    assert rig.consumers.is_subscribed_to("order-a")
    assert not rig.consumers.is_subscribed_to("other")
    assert rig.describe().members[0].subscribed_topic_regex == "order-.*"


def test_a_pattern_that_is_none_is_refused_and_leaves_no_trace() -> None:
    rig = ConsumerRig()
    refused = rig.refused("a", 0, owned={}, subscribed_topic_regex="(", rebalance_timeout_ms=1_000)
    assert refused is InvalidRegularExpressionError
    assert (rig.written, rig.pair.leader.machine.groups) == (0, {})


def test_new_topics_are_found_no_sooner_than_ten_seconds_after_the_last_look() -> None:
    rig = ConsumerRig({"order-a": 1})
    member = subscribed(rig, "a", "order-.*")
    member.beat()
    rig.create("order-b", 1)
    member.settle()
    assert member.owned == {topic_id("order-a"): {0}}
    rig.pass_time(10_001)
    member.settle()
    assert member.owned == {topic_id("order-a"): {0}, topic_id("order-b"): {0}}


def test_deleted_topics_are_given_up() -> None:
    rig = ConsumerRig({"order-a": 1, "order-b": 1})
    member = subscribed(rig, "a", "order-.*")
    member.beat()
    rig.delete("order-b")
    member.settle()
    assert member.owned == {topic_id("order-a"): {0}}


def test_another_member_of_a_known_pattern_is_assigned_at_once() -> None:
    rig = ConsumerRig({"order-a": 2})
    first = subscribed(rig, "a", "order-.*")
    first.settle()
    subscribed(rig, "b", "order-.*")
    assert rig.consumers.targets["b"] == {topic_id("order-a"): frozenset({1})}


def test_a_pattern_is_forgotten_with_its_last_member() -> None:
    rig = ConsumerRig({"order-a": 1, "t": 1})
    member = subscribed(rig, "a", "order-.*")
    member.settle()
    assert list(rig.consumers.subscriptions.resolved) == ["order-.*"]
    answer = rig.beat("a", member.epoch, owned=member.owned, subscribed_topic_regex="", subscribed_topic_names=["t"])
    assert rig.consumers.subscriptions.resolved == {}
    assert rig.consumers.subscriptions.topics == {"t"}
    assert owned_of(answer) == {}

    other = subscribed(rig, "b", "o.*")
    rig.pass_time(10_001)
    other.settle()
    assert list(rig.consumers.subscriptions.resolved) == ["o.*"]
    other.leave()
    assert rig.consumers.subscriptions.resolved == {}
    assert rig.consumers.subscriptions.topics == {"t"}


def test_names_and_a_pattern_count_both() -> None:
    rig = ConsumerRig({"order-a": 1, "t": 1, "u": 1})
    member = Consumer(
        rig, "a", subscribed_topic_regex="order-.*", subscribed_topic_names=["t"], rebalance_timeout_ms=30_000
    )
    member.settle()
    assert member.owned == {topic_id("order-a"): {0}, topic_id("t"): {0}}


def test_many_topics_are_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_resolver, "SLICE", 3)
    rig = ConsumerRig({f"t{number}": 1 for number in range(10)})
    member = subscribed(rig, "a", "t[0-4]")
    member.beat()
    assert set(member.owned) == {topic_id(f"t{number}") for number in range(5)}


def test_another_coordinator_knows_what_the_patterns_matched() -> None:
    rig = ConsumerRig({"order-a": 1})
    member = subscribed(rig, "a", "order-.*")
    member.settle()
    before = rig.consumers
    rig.reload()
    after = rig.consumers
    assert after.subscriptions.resolved == before.subscriptions.resolved
    assert after.subscriptions.patterns == before.subscriptions.patterns
    rig.create("order-b", 1)
    rig.pass_time(10_001)
    member.settle()
    assert set(member.owned) == {topic_id("order-a"), topic_id("order-b")}


def test_one_pattern_is_compiled_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers choose how many there are, and one may take tens of milliseconds."""
    compilations: list[str] = []
    monkeypatch.setattr(pattern_resolver, "compiled", lambda pattern: compilations.append(pattern) or compiled(pattern))
    matches: dict[str, set[str]] = {pattern: set() for pattern in ("t.*", "u", "(", "v")}
    todo = pattern_resolver._candidates(["t", "u"], list(matches), matches)
    most = 0
    while pattern_resolver._some(todo):
        most = max(most, len(compilations))
        compilations.clear()
    assert most == 1
    assert matches == {"t.*": {"t"}, "u": {"u"}, "(": set(), "v": set()}
