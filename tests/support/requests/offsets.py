"""Commits and fetches of offsets at a broker that coordinates no group: what does not exist, and who is not there."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import COMPACTED, DATA, NO_ID, UNKNOWN_ID, Case, ServerFacts, label, versions
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

IDS_FROM = 10
MANY_GROUPS_FROM = 8
NAMES = ("nobody", "", "x" * 10_000, "ünicode")
TOPICS: tuple[tuple[str, tuple[int, ...]], ...] = ((DATA, (0, 9, 1)), ("nope", (0,)), (DATA, (2,)), (COMPACTED, ()))


def commit(
    facts: ServerFacts,
    version: int,
    group: str,
    offset: int = 5,
    note: str | None = "",
    topics: object = TOPICS,
    **fields: object,
) -> OffsetCommitRequest:
    assert isinstance(topics, tuple)
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < IDS_FROM else "",
                topic_id=id_of(facts, name) if version >= IDS_FROM else NO_ID,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=note
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
        **fields,  # type: ignore[arg-type]
    )


def id_of(facts: ServerFacts, name: str) -> bytes:
    return facts.topic_ids.get(name, UNKNOWN_ID) if name else NO_ID


def fetch(
    facts: ServerFacts, version: int, *groups: str, topics: object = TOPICS, stable: bool = False, **fields: object
) -> OffsetFetchRequest:
    """Of the first group only, in versions that know one. `topics` None is all."""
    assert topics is None or isinstance(topics, tuple)
    if version < MANY_GROUPS_FROM:
        rows = [OffsetFetchRequestTopic(name=name, partition_indexes=list(each)) for name, each in topics or ()]
        return OffsetFetchRequest(group_id=groups[0], topics=None if topics is None else rows, require_stable=stable)
    many = [
        OffsetFetchRequestTopics(
            name=name if version < IDS_FROM else "",
            topic_id=id_of(facts, name) if version >= IDS_FROM else NO_ID,
            partition_indexes=list(each),
        )
        for name, each in topics or ()
    ]
    asked = [
        OffsetFetchRequestGroup(group_id=group, topics=None if topics is None else many, **fields)  # type: ignore[arg-type]
        for group in groups
    ]
    return OffsetFetchRequest(groups=asked, require_stable=stable)


def delete(group: str, topics: tuple[tuple[str, tuple[int, ...]], ...] = TOPICS) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )


def txn_commit(group: str, topics: tuple[tuple[str, tuple[int, ...]], ...] = TOPICS) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="nobody's",
        group_id=group,
        producer_id=5,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def offsets_of_groups(facts: ServerFacts) -> Iterator[Case]:
    for name in NAMES:
        for version in versions(OffsetCommitRequest):
            yield Case(f"of {label(name)}", commit(facts, version, name), version)
        for version in versions(OffsetFetchRequest):
            yield Case(f"of {label(name)}", fetch(facts, version, name), version)
        yield Case(f"of {label(name)}", delete(name), 0)
        for version in versions(TxnOffsetCommitRequest):
            yield Case(f"of {label(name)}", txn_commit(name), version)
    nowhere = (("nope", (0, 1)), ("", (0,)))
    for version in versions(OffsetCommitRequest):
        yield Case("of nothing", commit(facts, version, "nobody", topics=()), version)
        yield Case("of topics that are not there", commit(facts, version, "nobody", topics=nowhere), version)
        yield Case("of no partition", commit(facts, version, "nobody", topics=((DATA, ()), ("nope", ()))), version)
    for version in versions(OffsetFetchRequest, 2):
        yield Case("of everything", fetch(facts, version, "nobody", topics=None), version)
    for version in versions(OffsetFetchRequest, MANY_GROUPS_FROM):
        yield Case("of no group", OffsetFetchRequest(), version)
        yield Case("of many groups", fetch(facts, version, *NAMES, *NAMES, stable=True), version)
    for version in versions(TxnOffsetCommitRequest):
        yield Case("of topics that are not there", txn_commit("", nowhere), version)
    yield Case("of topics that are not there", delete("nobody", nowhere), 0)
