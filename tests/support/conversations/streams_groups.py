"""What members of streams groups say to their coordinator, and what it answers: good manners first, then bad ones.

Each story has topics of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.conversations.consumer_members import ClassicMember, Party, pause
from support.conversations.conversation import Talk
from support.conversations.streams_members import StreamsParty, hide_tasks, subtopology, topology
from tailrace.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    TaskOffset,
    TopicInfo,
)

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "4",
}


def streams_manners(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-manners")
    topic = party.make("in", 2)
    good = topology(subtopology("0", topic))
    whole: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "topology": good, "held": {}, "process_id": "p"}
    for epoch in (-3, -2, -1, 1, 7):
        party.beat(f"nobody, {epoch}", "a", epoch)
        party.beat(f"no member id, {epoch}", "", epoch, rack_id="")
        party.beat(f"an instance, {epoch}", "a", epoch, instance_id="i")
        party.beat(f"a topology, {epoch}", "a", epoch, topology=good)
    for field, values in {
        "rebalance_timeout_ms": (-1,),
        "topology": (None,),
        "instance_id": ("", "i"),
        "rack_id": ("", " "),
        "held": (None, {"active": {"0": [0]}}, {"standby": {"0": [0]}}, {"warmup": {"0": [0]}}),
        "task_offsets": ([], [TaskOffset(subtopology_id="0", partition=0, offset=1)]),
        "task_end_offsets": ([],),
    }.items():
        for value in values:
            party.beat(f"{field} {value!r}", "a", 0, **{**whole, field: value})
    party.beat("only active tasks", "a", 1, active_tasks=[])
    party.beat("only active tasks, joining", "a", 0, **{**whole, "held": None}, active_tasks=[])
    StreamsParty(talk, "").beat("no group", "a", 0, **whole)
    party.beat("a blank member", " ", 0, **whole)
    party.describe("nothing came of it")
    StreamsParty(talk, "").describe("no group described")
    party.delete("deleted nothing")


def topologies_that_cannot_be(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-wrong")
    topic = party.make("in", 2)
    wrong = {
        "an internal topic": subtopology("0", "__consumer_offsets"),
        "an internal sink": subtopology("0", topic, repartition_sink_topics=["__transaction_state"]),
        "an illegal name": subtopology("0", "a b"),
        "an illegal changelog": subtopology("0", topic, state=".."),
        "a pattern": subtopology("0", topic, source_topic_regex=["a.*"]),
        "a changelog with partitions": subtopology(
            "0", topic, state_changelog_topics=[TopicInfo(name="streams-wrong-log", partitions=2)]
        ),
        "no sources": subtopology("0"),
        "a loop": subtopology(
            "0", repartition_sink_topics=["loop"], repartition_source_topics=[TopicInfo(name="loop")]
        ),
        "a repartition that nobody writes": subtopology("0", topic, repartition_source_topics=[TopicInfo(name="x")]),
    }
    for name, each in wrong.items():
        party.thread("a", topology(each)).join(name)
    party.describe("nothing came of it")


def word_count(talk: Talk) -> None:
    """An application with a repartition topic and a store, from the first heartbeat to the last."""
    party = StreamsParty(talk, "streams-words")
    between, store = party.named("between"), party.named("store")
    brought = topology(
        subtopology("0", party.named("in"), repartition_sink_topics=[between]),
        subtopology("1", state=store, repartition_source_topics=[TopicInfo(name=between, replication_factor=1)]),
    )
    a = party.thread("a", brought)
    a.join("a joins without source topics")
    party.describe("not ready")
    a.beat("a goes on")
    party.beat("a says little", "a", a.epoch)
    party.make("in", 3)
    a.beat("internal topics are missing")
    party.wait_for_topics(between, store)
    pause(talk)
    party.topics("made for it", between, store)
    a.beat("all topics are there")
    party.describe("with tasks")
    a.beat("nothing new")
    b = party.thread("b", brought, client_tags=[KeyValue(key="zone", value="1")], rack_id="r")
    b.join("b joins")
    party.describe("b waits", hides=True)
    a.beat("a is asked to give up", hides=True)
    party.describe("a has to give up", hides=True)
    party.beat("a says nothing of what it has", "a", a.epoch)
    a.beat("a gives up", hides=True)
    b.beat("b is given them", hides=True)
    party.describe("stable", hides=True)
    party.list("listed")
    party.describe_classic("as a classic group")
    party.delete("not empty")
    party.set("streams.num.standby.replicas", "1")
    a.beat("a is told of standbys", hides=True)
    b.beat("b is told of standbys", hides=True)
    a.beat("a goes on", hides=True)
    party.describe("with standbys", hides=True)
    b.leave("b leaves")
    party.describe("a alone")
    a.settle()
    party.describe("a has all")
    a.leave("a leaves")
    a.leave("a leaves again")
    party.describe("empty")
    party.list("listed, empty")
    a.join("a joins again")
    a.settle()
    party.describe("a is back")
    a.leave("a leaves for good")
    party.delete("deleted")
    party.describe("gone")


def streams_fencing(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-fencing")
    topic = party.make("in", 3)
    a = party.thread("a", topology(subtopology("0", topic)))
    a.join("a joins")
    party.widen(topic, 4)
    a.beat("a is given one more")
    a.beat("a goes on")
    party.describe("two epochs")
    for epoch in range(1, a.epoch + 3):
        for what, held in {"all": a.held, "too much": {"active": {"0": [9]}}, "nothing": {}}.items():
            party.beat(f"epoch {epoch}, having {what}", "a", epoch, held=held)
        party.beat(f"epoch {epoch}, unknown subtopology", "a", epoch, held={"active": {"7": [0]}})
        party.beat(f"epoch {epoch}, saying nothing", "a", epoch)
        party.beat(f"epoch {epoch}, somebody else", "x", epoch)
    for epoch in range(-1, a.epoch + 2):
        party.commit_for(f"commit in {epoch}", topic, "a", epoch)
        party.commit_for(f"commit of another topic in {epoch}", "elsewhere", "a", epoch)
        party.fetch(f"fetch in {epoch}", "a", epoch)
    party.commit_for("commit by an old client", topic, "a", a.epoch, 8)
    party.commit_for("commit by nobody", topic, "", -1)
    party.commit_for("commit by somebody else", topic, "x", a.epoch)
    party.fetch("fetch by nobody", None, -1)
    party.fetch("fetch by somebody else", "x", a.epoch)
    a.join("a joins again")
    party.describe("as before")
    a.beat("another process", process_id="other")
    a.beat("a longer timeout", rebalance_timeout_ms=90_000)
    party.describe("changed")
    a.leave("a leaves")
    party.commit_for("commit to an empty group", topic, "", -1)
    party.fetch("fetch from an empty group", None, -1)


def streams_sizes(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-sizes")
    brought = topology(subtopology("0", party.make("in", 1)))
    threads = [party.thread(f"m{number}", brought) for number in range(5)]
    for thread in threads:
        hide_tasks(thread.join(f"{thread.id} joins"))
    threads[0].beat("one who is in", hides=True)
    threads[0].join("one who is in joins again")
    threads[1].leave("one leaves")
    hide_tasks(threads[4].join("the last one comes"))


def other_topologies(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-other")
    topic = party.make("in", 2)
    a = party.thread("a", topology(subtopology("0", topic), epoch=3))
    a.join("a joins")
    party.thread("b", topology(subtopology("0", topic), epoch=2)).join("b has an older one")
    party.describe("b is behind", hides=True)
    party.thread("c", topology(subtopology("0", topic), epoch=4)).join("c has a newer one")
    party.thread("d", topology(subtopology("1", topic), epoch=3)).join("d has another one")
    party.thread("e", topology(subtopology("1", topic), epoch=2)).join("e has another one of before")
    a.beat("a goes on", hides=True)


def joined_topics(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-joined")
    left, right = party.make("left", 2), party.make("right", 3)
    both = [CopartitionGroup(source_topics=[0, 1])]
    party.thread("a", topology(subtopology("0", left, right, copartition_groups=both))).join("different widths")
    party.describe("not ready")
    fixed = StreamsParty(talk, "streams-fixed")
    repartition = fixed.named("own")
    brought = topology(
        subtopology("0", left, repartition_sink_topics=[repartition]),
        subtopology(
            "1",
            right,
            repartition_source_topics=[TopicInfo(name=repartition)],
            copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
        ),
    )
    b = fixed.thread("b", brought)
    b.join("the width of the other")
    b.settle_with(repartition)
    fixed.topics("as wide as the other", repartition)
    fixed.describe("ready")
    wide = StreamsParty(talk, "streams-wide")
    wide.make("log", 7)
    c = wide.thread("c", topology(subtopology("0", left, state=wide.named("log"))))
    c.join("a changelog that is too wide")
    wide.describe("not ready either")
    narrow = StreamsParty(talk, "streams-narrow")
    five = TopicInfo(name=narrow.named("own"), partitions=5)
    d = narrow.thread(
        "d",
        topology(
            subtopology("0", left, repartition_sink_topics=[five.name]),
            subtopology(
                "1",
                right,
                repartition_source_topics=[five],
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            ),
        ),
    )
    d.join("a repartition topic that says its width")


def topics_that_go(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-going")
    topic = party.make("in", 2)
    a = party.thread("a", topology(subtopology("0", topic, state=party.named("store"))))
    a.join("a joins")
    a.settle()
    party.describe("ready")
    party.drop(topic)
    a.beat("its topic is gone")
    a.beat("it has given up")
    party.describe("not ready")
    party.make("in", 2)
    a.settle()
    party.describe("ready again")
    party.drop(party.named("store"))
    a.settle_with(party.named("store"))
    party.topics("made again", party.named("store"))
    party.describe("ready once more")


def endpoints(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-endpoints")
    topic = party.make("in", 2)
    brought = topology(subtopology("0", topic))
    a = party.thread("a", brought, user_endpoint=RequestEndpoint(host="a.example", port=1))
    a.join("a joins")
    a.beat("a is told again")
    a.beat("a is up to date")
    b = party.thread("b", brought)
    hide_tasks(b.join("b has none"))
    a.settle()
    b.settle()
    a.beat("a goes on", endpoint_information_epoch=a.endpoint_epoch)
    a.beat("a knows nothing", endpoint_information_epoch=-1, hides=True)
    a.beat("a moves", user_endpoint=RequestEndpoint(host="a.example", port=2), hides=True)
    party.describe("with endpoint", hides=True)


def processes(talk: Talk) -> None:
    """Of two threads each: a process has a task once."""
    party = StreamsParty(talk, "streams-processes")
    brought = topology(subtopology("0", party.make("in", 4), state=party.named("store")))
    party.set("streams.num.standby.replicas", "1")
    one, two = party.thread("1a", brought, "one"), party.thread("1b", brought, "one")
    one.join("the first thread")
    one.settle()
    hide_tasks(two.join("another of the same process"))
    for thread in (one, two):
        thread.settle()
    party.describe("no standbys", hides=True)
    three, four = party.thread("2a", brought, "two"), party.thread("2b", brought, "two")
    hide_tasks(three.join("a second process"))
    for _ in range(3):
        for thread in (one, two, three):
            thread.settle()
    party.describe("standbys", hides=True)
    hide_tasks(four.join("its second thread"))
    for _ in range(3):
        for thread in (one, two, three, four):
            thread.settle()
    party.describe("even", hides=True)
    one.leave("1a leaves")
    two.leave("1b leaves")
    for _ in range(3):
        for thread in (three, four):
            thread.settle()
    party.describe("standbys have taken over", hides=True)


def late_members(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-late")
    brought = topology(subtopology("0", party.make("in", 2)))
    a, b = party.thread("a", brought), party.thread("b", brought)
    a.join("a joins", rebalance_timeout_ms=1_000)
    before = dict(a.held)
    hide_tasks(b.join("b joins"))
    a.beat("a has to give up", hides=True)
    pause(talk, 0.3)
    hide_tasks(party.beat("a holds on", "a", a.epoch, held=before))
    pause(talk, 1.5)
    party.describe("a is out")
    a.beat("a is unknown")
    b.beat("b has all")


def offsets_of_streams(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-offsets")
    topic, other = party.make("in", 1), party.make("other", 1)
    a = party.thread("a", topology(subtopology("0", topic, state=party.named("store"))))
    a.join("a joins")
    a.settle()
    party.commit_for("a commits", topic, "a", a.epoch)
    party.delete_offsets("offsets of what is read", topic, other, party.named("store"))
    a.leave("a leaves")
    party.delete_offsets("offsets of what was read", topic)


def topics_that_cannot_be_made(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-unmade")
    store = TopicInfo(name=party.named("store"), replication_factor=5)
    a = party.thread("a", topology(subtopology("0", party.make("in", 1), state_changelog_topics=[store])))
    a.join("a joins")
    pause(talk)
    a.beat("it was tried")
    party.topics("nothing was made", store.name)
    configs = [KeyValue(key="cleanup.policy", value="burn")]
    bad = TopicInfo(name=party.named("bad"), topic_configs=configs)
    wrong = StreamsParty(talk, "streams-unmade-too")
    b = wrong.thread("b", topology(subtopology("0", party.named("in"), state_changelog_topics=[bad])))
    b.join("b joins")
    pause(talk)
    b.beat("it was tried too")
    wrong.describe("not ready")


def shutdown(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-shutdown")
    brought = topology(subtopology("0", party.make("in", 1)))
    a, b = party.thread("a", brought, "one"), party.thread("b", brought, "one")
    a.join("a joins")
    hide_tasks(b.join("b joins"))
    a.beat("a asks for the end", shutdown_application=True, hides=True)
    b.beat("b hears of it", hides=True)
    a.leave("a leaves", shutdown_application=True)
    b.beat("b still hears of it", hides=True)
    b.leave("b leaves")
    a.join("a comes back")


def delays(talk: Talk) -> None:
    party = StreamsParty(talk, "streams-delays")
    brought = topology(subtopology("0", party.make("in", 2)))
    party.set("streams.initial.rebalance.delay.ms", "1500")
    a, b = party.thread("a", brought), party.thread("b", brought)
    a.join("a joins")
    party.describe("a waits")
    a.beat("a goes on")
    b.join("b joins")
    party.describe("both wait")
    pause(talk, 2.0)
    party.describe("assigned by itself", hides=True)
    a.beat("a is given its own", hides=True)
    b.beat("b is given its own", hides=True)
    party.describe("stable", hides=True)
    party.set("streams.assignment.interval.ms", "15000")
    a.leave("a leaves")
    b.beat("not so soon", hides=True)
    party.describe("still assigning", hides=True)
    party.set("streams.assignment.interval.ms", "0")
    b.beat("now it may")
    party.describe("b has all")


def other_kinds(talk: Talk) -> None:
    """Of groups, under the same id."""
    party = StreamsParty(talk, "streams-kinds")
    brought = topology(subtopology("0", party.make("in", 1)))
    old = ClassicMember(party, "old")
    old.join("joins")
    a = party.thread("a", brought)
    a.join("a finds a classic group")
    party.describe("a classic group described")
    empty = StreamsParty(talk, "streams-after-classic")
    empty.commit_for("offsets of nobody", party.named("in"), "", -1)
    b = empty.thread("b", brought)
    b.join("b joins where only offsets are")
    empty.list("a streams group")
    Party(talk, "streams-after-classic").member("c").join("a consumer finds a streams group")
    Party(talk, "streams-after-classic").describe("a streams group as a consumer group")
    ClassicMember(empty, "late").join("finds a streams group")
    b.leave("b leaves")
    late = ClassicMember(empty, "late")
    late.join("finds an empty streams group")
    empty.list("a classic group")


CONVERSATIONS_OF_STREAMS_GROUPS: tuple[Callable[[Talk], None], ...] = (
    streams_manners,
    topologies_that_cannot_be,
    word_count,
    streams_fencing,
    streams_sizes,
    other_topologies,
    joined_topics,
    topics_that_go,
    endpoints,
    processes,
    late_members,
    offsets_of_streams,
    topics_that_cannot_be_made,
    shutdown,
    delays,
    other_kinds,
)
