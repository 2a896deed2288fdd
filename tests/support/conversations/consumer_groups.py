"""What members of consumer groups say to their coordinator, and what it answers: good manners first, then bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.conversations.consumer_members import (
    EVEN,
    TOPIC,
    ClassicMember,
    Party,
    hide,
    leave_classic,
    make_topic,
    pause,
    subscription,
)
from support.conversations.conversation import Talk

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
    "group.initial.rebalance.delay.ms": "0",
}


def bad_requests(talk: Talk) -> None:
    party = Party(talk, "bad")
    whole: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": [TOPIC], "owned": {}}
    for version in (0, 1):
        for epoch in (-3, -2, -1, 0, 1, 7):
            party.beat(f"v{version} no member id, {epoch}", "", epoch, version, rack_id="")
            party.beat(f"v{version} nobody, {epoch}", "a", epoch, version)
            party.beat(f"v{version} nobody's instance, {epoch}", "a", epoch, version, instance_id="i")
    for field, values in {
        "rebalance_timeout_ms": (-1,),
        "subscribed_topic_names": (None,),
        "instance_id": ("", " "),
        "rack_id": ("", "\t"),
        "server_assignor": ("", "best", "Uniform", "range "),
        "subscribed_topic_regex": ("(", "[a", "a**", "(?=a)", "\\1", "a{1001}"),
        "owned": (None, {bytes(16): [0]}, {bytes(16): []}),
    }.items():
        for value in values:
            party.beat(f"{field} {value!r}", "a", 0, **{**whole, field: value})
    Party(talk, "").beat("no group", "a", 0, **whole)
    Party(talk, " ").beat("a blank group", "a", 0, **whole)
    party.beat("a blank member", " ", 0, **whole)
    party.describe("nothing came of it")
    party.describe("nothing came of it, v0", 0)
    Party(talk, "").describe("no group described")
    party.delete("deleted nothing")


def reconciliation(talk: Talk) -> None:
    party = Party(talk, "reconciliation")
    a, b = party.member("a"), party.member("b")
    a.join("a joins")
    party.describe("a alone")
    a.beat("a goes on")
    party.beat("a says little", "a", a.epoch)
    b.join("b joins")
    party.describe("b waits")
    b.beat("b still waits")
    before = dict(a.owned)
    a.beat("a is asked to give up")
    party.describe("a has to give up")
    party.beat("a holds on", "a", a.epoch, owned=before)
    party.beat("a says nothing of what it owns", "a", a.epoch)
    a.beat("a gives up")
    b.beat("b is given it")
    party.describe("stable")
    party.describe("stable, v0", 0)
    party.list("listed")
    party.describe_classic("as a classic group")
    b.beat("b with everything said", rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC])
    a.join("a joins again")
    party.delete("not empty")
    a.leave("a leaves")
    party.describe("b has less than it should")
    b.beat("b is given the rest")
    b.beat("b changes its assignor", server_assignor="range")
    b.beat("b changes its rack", rack_id="r")
    party.describe("b with both")
    b.beat("b is not subscribed", subscribed_topic_names=[])
    b.beat("b gave up")
    party.describe("b owns nothing")
    b.leave("b leaves")
    b.leave("b leaves again")
    party.describe("empty")
    party.list("listed, empty")
    party.delete("deleted")
    party.describe("gone")


def fencing(talk: Talk) -> None:
    party = Party(talk, "fencing")
    topic = party.topic_id()
    a = party.member("a", TOPIC, "cg-later")
    a.join("a joins")
    for name in ("cg-other", "cg-later"):
        make_topic(talk, name, 1)
    a.beat("a is given the later one")
    a.beat("a goes on")
    party.describe("two epochs")
    for epoch in range(-4, a.epoch + 3):
        if epoch not in (-2, -1, 0):
            party.beat(f"epoch {epoch}, owning all", "a", epoch, owned=a.owned)
            party.beat(f"epoch {epoch}, owning what is not its", "a", epoch, owned={topic: [0, 9]})
            party.beat(f"epoch {epoch}, owning nothing", "a", epoch, owned={})
            party.beat(f"epoch {epoch}, saying nothing", "a", epoch)
            party.beat(f"epoch {epoch}, somebody else", "x", epoch)
        party.commit(f"commit in {epoch}", "a", epoch)
        party.fetch(f"fetch in {epoch}", "a", epoch)
    party.commit("commit by an old client", "a", a.epoch, version=8)
    party.commit("commit by nobody", "", -1)
    party.commit("commit by somebody else", "x", a.epoch)
    party.commit("commit by an instance", "a", a.epoch, instance="i")
    party.fetch("fetch by nobody", None, -1)
    party.fetch("fetch without an id", "", -1)
    party.fetch("fetch by somebody else", "x", a.epoch)
    a.leave("a leaves")
    party.commit("commit to an empty group", "", -1)
    party.commit("commit to an empty group by who has left", "a", a.epoch)
    party.fetch("fetch from an empty group", None, -1)
    party.fetch("fetch from an empty group by who has left", "a", a.epoch)


def sizes(talk: Talk) -> None:
    party = Party(talk, "sizes")
    members = [party.member(f"m{number}") for number in range(4)]
    for member in members:
        member.join(f"{member.id} joins")
    members[0].beat("one who is in")
    members[1].leave("one leaves")
    members[3].join("the last one comes")
    party.describe("full")


def static_members(talk: Talk) -> None:
    party = Party(talk, "static")
    a = party.member("a", instance_id="one")
    a.join("a joins")
    b = party.member("b", instance_id="one")
    b.join("b takes its name too early")
    for epoch in (-2, -1, 1, 2):
        party.beat(f"b says {epoch}", "b", epoch, instance_id="one")
        party.beat(f"a unknown instance says {epoch}", "a", epoch, instance_id="two")
        party.beat(f"a without its instance says {epoch}", "x", epoch)
    a.beat("a goes on")
    a.leave("a goes for a while", -2)
    party.describe("a is away")
    a.leave("a goes again", -2)
    party.beat("a is away and talks", "a", -2 + 4, instance_id="one", owned=a.owned)
    b.join("b comes in its place")
    party.describe("b is there")
    a.beat("a is fenced")
    b.leave("b goes for a while", -2)
    b.join("b comes back")
    party.beat("b again with its id alone", "b", b.epoch)
    b.leave("b leaves")
    party.describe("empty")


def patterns(talk: Talk) -> None:
    party = Party(talk, "patterns")
    for name in ("pat-a", "pat-b", "other-pat"):
        make_topic(talk, name, 1)
    a = party.member("a", subscribed_topic_regex="pat-.*", subscribed_topic_names=None)
    a.join("a joins")
    pause(talk)
    a.beat("a is given what matches")
    party.describe("with a pattern")
    b = party.member("b", subscribed_topic_regex="pat-.*", subscribed_topic_names=[])
    b.join("b joins")
    a.beat("a gives up")
    a.beat("a gave up")
    b.beat("b is given one")
    b.beat("b names one, too", subscribed_topic_names=["other-pat"])
    b.beat("b goes on")
    party.describe("a pattern and a name", hides=True)
    b.beat("b is wrong", subscribed_topic_regex="(")
    b.join("b joins again")
    b.beat("b has no pattern any more", subscribed_topic_regex="")
    b.beat("b goes on without")
    a.beat("a goes on")
    party.describe("one pattern, one name", hides=True)
    a.leave("a leaves")
    b.leave("b leaves")
    party.describe("empty")


def classic_members(talk: Talk) -> None:
    """Of a consumer group."""
    party = Party(talk, "mixed")
    new, old = party.member("new"), ClassicMember(party, "old")
    new.join("new joins")
    old.join("joins")
    old.beat("before it syncs")
    old.sync("syncs")
    for what, fields in {
        "another generation": {"generation": 99},
        "somebody else": {"member_id": "x"},
        "the new one": {"member_id": "new"},
        "an instance": {"instance_id": "i"},
    }.items():
        old.beat(f"beats as {what}", **fields)
        old.sync(f"syncs as {what}", **fields)
    old.sync("syncs another type", protocol_type="connect")
    old.sync("syncs another protocol", protocol_name="other")
    old.sync("syncs its own", protocol_type="consumer", protocol_name="range")
    other = ClassicMember(party, "other")
    other.join("with nothing in common", {"other": subscription()})
    other.join("with no protocol", {})
    other.join("of another type", protocol_type="connect")
    other.join("with what nobody understands", {"range": b"?"})
    new.beat("new gives up")
    new.beat("new gave up")
    old.beat("hears that there is something")
    old.join("joins for it")
    old.sync("syncs for it")
    old.beat("goes on")
    party.list("listed")
    party.commit("commits", old.id, old.generation, version=8)
    party.commit("commits ahead", old.id, old.generation + 1, version=8)
    party.commit("commits behind", old.id, old.generation - 1, version=8)
    party.describe_classic("as a classic group")
    leave_classic(party, "who is not there leaves", ("x", None), ("", "i"))
    leave_classic(party, "old leaves", (old.id, None))
    new.beat("new has all again")
    new.leave("new leaves")
    party.describe("empty")


def upgrade(talk: Talk) -> None:
    party = Party(talk, "upgrade")
    make_topic(talk, EVEN, 4)
    protocols = {"range": subscription(topics=[EVEN])}
    old = ClassicMember(party, "old")
    old.join("joins", protocols)
    old.sync("syncs")
    party.describe_classic("classic")
    new = party.member("new", EVEN)
    hide(new.join("new joins").assignment)
    party.list("listed")
    party.describe_classic("not classic any more")
    old.beat("hears of it")
    old.join("joins again", protocols)
    answer = old.sync("syncs again")
    answer.assignment = bytes(len(answer.assignment))
    hide(new.beat("new goes on").assignment)
    new.leave("new leaves")
    party.list("listed, classic again")
    party.describe_classic("classic again")
    party.describe("not a consumer group any more")
    old.join("joins the classic group", protocols)
    party.member("late").beat("late says 0, as a member would")


def empty_groups(talk: Talk) -> None:
    """Change their kind with whoever comes."""
    party = Party(talk, "empty")
    a = party.member("a")
    a.join("a joins")
    a.leave("a leaves")
    party.commit("offsets of nobody", "", -1)
    old = ClassicMember(party, "old")
    old.join("joins")
    party.list("classic")
    leave_classic(party, "old leaves", (old.id, None))
    party.list("classic and empty")
    a.join("a joins again")
    party.list("a consumer group again")
    party.fetch("the offsets are still there", "a", a.epoch)
    simple = Party(talk, "simple")
    simple.commit("offsets of nobody", "", -1)
    simple.list("only offsets")
    simple.member("a").join("a joins")
    simple.describe("with a")


def static_downgrade(talk: Talk) -> None:
    party = Party(talk, "static-downgrade")
    new = party.member("new", instance_id="one")
    new.join("new joins")
    old = ClassicMember(party, "old", "one")
    old.join("comes in its place")
    party.list("classic")
    old.sync("syncs")
    old.beat("goes on")
    new.beat("new is out")
    back = party.member("back", instance_id="one")
    back.join("back comes in its place")
    party.list("a consumer group")
    party.describe("described")


CONVERSATIONS_OF_CONSUMER_GROUPS: tuple[Callable[[Talk], None], ...] = (
    bad_requests,
    reconciliation,
    fencing,
    sizes,
    static_members,
    patterns,
    classic_members,
    upgrade,
    empty_groups,
    static_downgrade,
)
