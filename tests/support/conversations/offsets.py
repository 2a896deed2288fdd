"""What groups commit and ask for at their coordinator, in every version; what it refuses, and what is there then."""

from __future__ import annotations

import time
from collections.abc import Callable

from support.conversations.conversation import Talk
from support.requests.case import DATA, versions
from support.requests.offsets import IDS_FROM, MANY_GROUPS_FROM, TOPICS, commit, delete, fetch, txn_commit
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest
from tailrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

ONE = ((DATA, (0,)),)
LONGEST = 4096
"""What `offset.metadata.max.bytes` is."""


def coordinated(talk: Talk) -> None:
    """Wait until the coordinator's topic is there and loaded."""
    for _ in range(100):
        found = talk._client.ask(FindCoordinatorRequest(coordinator_keys=["any"], key_type=0), 4)
        asked = talk._client.ask(fetch(talk.facts, 7, "any", topics=None), 7)
        if not any(each.error_code for each in found.coordinators) and not asked.error_code:  # type: ignore[attr-defined]
            return
        time.sleep(0.1)


def commits_of_a_simple_group(talk: Talk) -> None:
    coordinated(talk)
    for version in versions(OffsetCommitRequest):
        facts, group = talk.facts, f"simple-{version}"
        talk.ask(f"{version}: some", commit(facts, version, group, version, "note"), version)
        talk.ask(f"{version}: what is there", fetch(facts, 7, group, topics=None), 7)
        talk.ask(f"{version}: a null note", commit(facts, version, group, version, None, topics=ONE), version)
        for epoch, member in ((5, "m"), (0, ""), (-1, "m"), (-2, "m")):
            fields = {"generation_id_or_member_epoch": epoch, "member_id": member}
            refused = commit(facts, version, group, 77, topics=ONE, **fields)
            talk.ask(f"{version}: epoch {epoch} of {member!r}", refused, version)
            new = commit(facts, version, f"{group}-{epoch}{member}", 77, topics=ONE, **fields)
            talk.ask(f"{version}: epoch {epoch} of {member!r} in no group", new, version)
        if version >= 7:
            instance = commit(facts, version, group, 78, topics=ONE, group_instance_id="i")
            talk.ask(f"{version}: an instance", instance, version)
        talk.ask(f"{version}: what is there then", fetch(facts, 7, group, topics=None), 7)


def notes_and_names_of_any_length(talk: Talk) -> None:
    coordinated(talk)
    facts = talk.facts
    notes = {"longest": "x" * LONGEST, "longer": "x" * (LONGEST + 1), "of pairs": "😀" * 2048, "of more": "😀" * 2049}
    for name, note in notes.items():
        talk.ask(f"note {name}", commit(facts, 8, "notes", 5, note, topics=ONE), 8)
        talk.ask(f"after {name}", fetch(facts, 7, "notes", topics=None), 7)
    many = ((DATA, (0, 1, 2) * 100),)
    talk.ask("more than a batch takes", commit(facts, 8, "huge", 5, "x" * 4000, topics=many), 8)
    talk.ask("after that", fetch(facts, 7, "huge", topics=None), 7)
    for length in (0, 10_000, 32_767):
        talk.ask(f"a group of {length}", commit(facts, 8, "g" * length, 6, topics=ONE), 8)
        talk.ask(f"what a group of {length} has", fetch(facts, 7, "g" * length), 7)


def odd_offsets_and_retentions(talk: Talk) -> None:
    coordinated(talk)
    facts = talk.facts
    for version, retention_ms in ((2, 0), (3, (1 << 63) - 1), (4, -5)):
        group = f"kept for {retention_ms}"
        talk.ask(group, commit(facts, version, group, 5, topics=ONE, retention_time_ms=retention_ms), version)
        talk.ask(f"{group}: what is there", fetch(facts, 7, group, topics=None), 7)
    for offset in (-1, -7, (1 << 63) - 1):
        talk.ask(f"offset {offset}", commit(facts, 9, "odd", offset, topics=ONE), 9)
        talk.ask(f"offset {offset} is there", fetch(facts, 7, "odd", topics=None), 7)


def fetches_of_all_kinds(talk: Talk) -> None:
    coordinated(talk)
    facts = talk.facts
    talk.ask("some", commit(facts, 9, "fetched", 5, "note"), 9)
    for version in versions(OffsetFetchRequest):
        for stable in (False, True)[: 2 if version >= 7 else 1]:
            for group in ("fetched", "never heard of", ""):
                name = f"{version}: {group!r}, stable {stable}"
                talk.ask(name, fetch(facts, version, group, stable=stable), version)
                if version >= 2:
                    talk.ask(f"{name}, all", fetch(facts, version, group, topics=None, stable=stable), version)
                talk.ask(f"{name}, none", fetch(facts, version, group, topics=(), stable=stable), version)
            if version >= MANY_GROUPS_FROM:
                several = ("fetched", "never heard of", "fetched")
                talk.ask(f"{version}: several {stable}", fetch(facts, version, *several, stable=stable), version)
            for member, epoch in (("m", 1), ("m", -1), ("", 0), (None, 0)) if version > MANY_GROUPS_FROM else ():
                asked = fetch(facts, version, "fetched", stable=stable, member_id=member, member_epoch=epoch)
                talk.ask(f"{version}: member {member!r} of {epoch}, stable {stable}", asked, version)


def deleted_offsets(talk: Talk) -> None:
    coordinated(talk)
    talk.ask("some", commit(talk.facts, 9, "deleted", 5, "note"), 9)
    for group in ("never heard of", "", "deleted", "deleted"):
        talk.ask(f"of {group!r}", delete(group), 0)
        talk.ask(f"of {group!r}, nothing", delete(group, ()), 0)
    talk.ask("twice", delete("deleted", ((DATA, (1, 1)), (DATA, (1,)))), 0)
    talk.ask("what is left", fetch(talk.facts, 7, "deleted", topics=None), 7)


def offsets_of_nobodys_transaction(talk: Talk) -> None:
    coordinated(talk)
    for version in versions(TxnOffsetCommitRequest):
        for group in ("", "of a transaction"):
            talk.ask(f"{version}: {group!r}", txn_commit(group), version)
        talk.ask(f"{version}: only what is not there", txn_commit("", TOPICS[1:2]), version)
    talk.ask("what is there", fetch(talk.facts, IDS_FROM, "of a transaction"), IDS_FROM)


CONVERSATIONS_OF_OFFSETS: tuple[Callable[[Talk], None], ...] = (
    commits_of_a_simple_group,
    notes_and_names_of_any_length,
    odd_offsets_and_retentions,
    fetches_of_all_kinds,
    deleted_offsets,
    offsets_of_nobodys_transaction,
)
