"""What members of classic groups say to their coordinator, and what it answers: good manners first, then bad ones.

The servers are set to balance a new group at once, to take short sessions, and to let few members in (`SETTINGS`).
"""

from __future__ import annotations

import time

from support.conversations.classic_members import (
    DELETE,
    DESCRIBE,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LIST,
    SYNC,
    Member,
    Party,
    story,
)
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.max.size": "3",
}
SHORT_MS = 700
FETCH = 9


@story("of two")
def classic_group_of_two(party: Party) -> None:
    party.describe("before it is there")
    party.describe("before it is there, by an old client", 5)
    a = party.member("a")
    a.join("asks for an id")
    a.take()
    time.sleep(0.2)  # Kafka shows a group when its record is committed
    party.describe("with an id given out")
    a.join()
    a.take()
    party.describe("before assignments")
    a.join("joins again with the same")
    a.take()
    a.heartbeat()
    a.commit("commits too early")
    a.sync(of=[a])
    a.take()
    party.describe("with one")
    a.commit()
    b = party.member("b")
    b.join("asks for an id")
    b.take()
    party.describe("with one and an id given out")
    b.join()
    a.hears_of_rebalance()
    party.describe("while it is balanced")
    a.heartbeat("hears of it")
    a.commit("commits in between")
    a.sync("syncs in between")
    a.take()
    a.join("joins again")
    a.take()
    b.take()
    b.sync()
    a.commit("commits too early again")
    a.sync(of=[a, b])
    a.take()
    b.take()
    b.sync("syncs twice")
    b.take()
    party.describe("with two")
    for version in range(LIST + 1):
        party.listed(f"in version {version}", version)
    b.join("joins again without a change")
    b.take()
    b.join("joins again with a change", protocols={"range": b"other"})
    a.hears_of_rebalance()
    a.join("joins again after a change")
    a.take()
    b.take()
    a.leave("leaves before assignments")
    b.heartbeat("hears of it")
    b.join("joins alone")
    b.take()
    b.sync(of=[b])
    b.take()
    b.leave()
    party.describe("without members")
    party.listed("without members")
    b.heartbeat("beats after its end")
    b.join("joins after its end")
    b.take()
    b.sync("syncs after its end")
    b.take()
    b.leave("leaves twice")
    b.commit("commits after its end")


@story("strangers")
def strangers_of_classic_groups(party: Party) -> None:
    nobody = party.member("nobody")
    nobody.id, nobody.generation = "nobody", 1

    def tried(where: str) -> None:
        for version in range(HEARTBEAT + 1):
            nobody.heartbeat(f"beats in version {version} {where}", version)
        for version in range(SYNC + 1):
            nobody.sync(f"syncs in version {version} {where}", version)
            nobody.take()
        for version in range(LEAVE + 1):
            nobody.leave(f"leaves in version {version} {where}", version)
        for version in range(JOIN + 1):
            nobody.join(f"joins in version {version} {where}", version)
            nobody.take()
        nobody.commit(f"commits {where}")

    tried("no group")
    a, _ = party.stable("a", "b")
    tried("a group")
    old = a.generation
    for generation in (-1, 0, old - 1, old + 1):
        a.heartbeat(f"beats in {generation - old}", generation_id=generation)
        a.sync(f"syncs in {generation - old}", generation_id=generation)
        a.take()
        a.commit(f"commits in {generation - old}", generation_id_or_member_epoch=generation)
    a.heartbeat("beats as another one", group_instance_id="other")
    a.sync("syncs as another one", group_instance_id="other")
    a.take()
    a.leave("leaves as another one", group_instance_id="other")
    a.join("joins as another one", group_instance_id="other")
    a.take()
    a.sync("syncs in another type", protocol_type="connect")
    a.take()
    a.sync("syncs in another protocol", protocol_name="sticky")
    a.take()
    a.sync("syncs in none", protocol_type=None, protocol_name=None)
    a.take()
    a.sync("syncs in half of one", protocol_name=None)
    a.take()
    a.sync("syncs in none for an old client", 4)
    a.take()
    a.commit("commits without a name", member_id="", generation_id_or_member_epoch=-1)
    a.commit("commits without a generation", generation_id_or_member_epoch=-1)
    a.commit("commits without a name in a generation", member_id="")
    party.describe("unharmed")


@story("languages")
def protocols_of_classic_groups(party: Party) -> None:
    def refused(who: Member, where: str) -> None:
        for name, fields in {
            "no type": {"protocol_type": ""},
            "no protocols": {"protocols": {}},
            "another type": {"protocol_type": "connect"},
            "another protocol": {"protocols": {"other": b""}},
        }.items():
            for version in (1, 4, JOIN):
                who.join(f"joins with {name} in version {version} {where}", version, **fields)
                if not who.is_answered():
                    who.close()
                    who._socket = None
                    who._posted.clear()
                    party.note(f"{name} waits", None)
                else:
                    who.take()

    a = party.member("a")
    a.join("joins a new group with no type", protocol_type="")
    a.take()
    a.join("joins a new group with no protocols", protocols={})
    a.take()
    party.describe("refused")
    party.listed("refused")
    a, b = party.stable("a", "b")
    c = party.member("c")
    refused(c, "as a stranger")
    b.join("joins again in another type", protocol_type="connect")
    b.take()
    b.join("joins again in another protocol", protocols={"other": b""})
    b.take()
    b.join("joins again with two", protocols={"other": b"o", "range": b"r"})
    a.hears_of_rebalance()
    a.join("joins again with two", protocols={"other": b"o", "range": b"r"})
    a.take()
    b.take()
    b.sync()
    a.sync(of=[a, b])
    a.take()
    b.take()
    party.describe("after the vote")


@story("timeouts")
def timeouts_of_classic_groups(party: Party) -> None:
    a = party.member("a")
    for timeout_ms in (-1, 0, 499, 1_800_001):
        for version in (0, JOIN):
            a.join(f"wants a session of {timeout_ms}", version, session_timeout_ms=timeout_ms)
            a.take()
    a.join("in version 0", 0, session_timeout_ms=SHORT_MS)
    a.take()
    a.sync(of=[a])
    a.take()
    b = party.member("b")
    b.join("in version 1", 1, rebalance_timeout_ms=60_000)
    time.sleep(2 * SHORT_MS / 1000)
    b.take()
    a.heartbeat("comes too late")
    b.sync(of=[b])
    b.take()
    c = party.member("c")
    c.join("asks for a short id", session_timeout_ms=SHORT_MS)
    c.take()
    time.sleep(2 * SHORT_MS / 1000)
    c.join("comes too late")
    c.take()
    party.describe("at the end")


@story("instances")
def static_members(party: Party) -> None:
    a, b = party.stable("a", "b", static=True)
    party.describe("with two")
    for version in (5, JOIN):
        for who in (a, b):
            old, who.id = who.id, ""
            who.join(f"comes back in version {version}", version)
            who.take()
            new, who.id = who.id, old
            who.heartbeat("beats as before")
            who.sync("syncs as before")
            who.take()
            who.join("joins as before")
            who.take()
            who.commit("commits as before")
            who.leave("leaves as before")
            who.heartbeat("beats as before without its instance", group_instance_id=None)
            who.id = new
            who.heartbeat("beats as it is now")
            who.sync("syncs as it is now", of=[a, b])
            who.take()
    party.describe("come back")
    b.leave("names an instance", member_id="")
    b.leave("names it twice", member_id="")
    b.leave("names nothing", member_id="", group_instance_id=None)
    a.leave("names one that is wrong", member_id="x")
    a.join("joins alone")
    a.take()
    waiting = a.id
    a.id = ""
    again = party.member("again", a.instance_id)
    again.join("comes while assignments are awaited")
    again.take()
    a.id = waiting
    a.heartbeat("is fenced")
    again.sync(of=[again])
    again.take()
    again.id = ""
    again.join("comes back with other metadata", protocols={"range": b"other"})
    again.take()
    again.id = ""
    again.join("comes back with another protocol", protocols={"sticky": b"other"})
    again.take()
    party.describe("at the end")


@story("full")
def full_classic_group(party: Party) -> None:
    a, b, c = party.stable("a", "b", "c")
    d = party.member("d")
    for version in (1, 4, JOIN):
        d.join(f"joins a full group in version {version}", version)
        d.take()
    d.join("joins a full group as an instance", group_instance_id="i")
    d.take()
    a.join("joins again")
    b.hears_of_rebalance()
    d.join("joins while there is room", 1)
    d.is_answered()
    b.join("joins again")
    b.is_answered()
    c.join("joins again too late")
    c.take()
    c.heartbeat("is out")
    party.describe("with those who came first")


@story("deleted")
def deleted_groups(party: Party) -> None:
    def delete(name: str, *group_ids: str, version: int = DELETE) -> None:
        party.ask(f"{name} deleted", DeleteGroupsRequest(groups_names=list(group_ids)), version)

    def fetched(name: str) -> None:
        group = OffsetFetchRequestGroup(group_id=party.group_id, topics=None)
        party.ask(f"{name} fetched", OffsetFetchRequest(groups=[group]), FETCH)

    for version in range(DELETE + 1):
        delete("nothing", "", "no such group", "x" * 10_000, "no such group", version=version)
    admin = party.member("admin")
    admin.commit("commits for nobody")
    party.describe("with offsets only")
    party.listed("with offsets only")
    fetched("a commit")
    (a,) = party.stable("a")
    a.commit()
    delete("a live group", party.group_id)
    a.leave()
    fetched("what is left")
    delete("an empty group", party.group_id, party.group_id)
    fetched("nothing")
    party.describe("deleted")
    party.listed("deleted")
    delete("a deleted group", party.group_id)
    a.join("joins a deleted group")
    a.take()


@story("listed")
def filters_of_groups(party: Party) -> None:
    party.stable("a")
    for states in (["Stable"], ["stable", "Empty"], [" STABLE "], ["Dead"], ["nonsense"], [""]):
        party.listed(f"by {states}", states_filter=states)
    for kinds in (["Classic"], ["classic"], ["CONSUMER"], ["share", "streams"], ["nonsense"], [" classic"], [""]):
        party.listed(f"by {kinds}", types_filter=kinds)
    party.listed("by both", states_filter=["Stable"], types_filter=["classic"])
    party.listed("by both, wrongly", states_filter=["Empty"], types_filter=["classic"])


@story("x" * 10_000)
def group_with_a_long_name(party: Party) -> None:
    (a,) = party.stable("a")
    party.describe("long")
    a.leave()


@story("any")
def group_without_a_name(party: Party) -> None:
    party.group_id = ""
    a = party.member("a")
    a.id = "somebody"
    for version in range(JOIN + 1):
        a.join(f"joins in version {version}", version)
        a.take()
    for version in range(SYNC + 1):
        a.sync(f"syncs in version {version}", version)
        a.take()
    a.sync("syncs in no protocol", protocol_name=None)
    a.take()
    for version in range(HEARTBEAT + 1):
        a.heartbeat(f"beats in version {version}", version)
    for version in range(LEAVE + 1):
        a.leave(f"leaves in version {version}", version)
    for version in range(DESCRIBE + 1):
        party.describe(f"in version {version}", version)
    party.ask("nothing described", DescribeGroupsRequest(groups=[]), DESCRIBE)
    party.ask("two described", DescribeGroupsRequest(groups=["no", "no", ""]), DESCRIBE)


CONVERSATIONS_OF_CLASSIC_GROUPS = (
    classic_group_of_two,
    strangers_of_classic_groups,
    protocols_of_classic_groups,
    timeouts_of_classic_groups,
    static_members,
    full_classic_group,
    deleted_groups,
    filters_of_groups,
    group_with_a_long_name,
    group_without_a_name,
)
