"""Requests about reassignments, in a cluster of one broker: no partition can be moved to another one."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import COMPACTED, DATA, UNUSUAL_NAMES, Case, ServerFacts, label, versions
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

FIRST_WITH_FACTOR = 1
INT32_MAX = 2**31 - 1


def reassignment(topic: str, *targets: tuple[int, list[int] | None]) -> ReassignableTopic:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in targets]
    return ReassignableTopic(name=topic, partitions=partitions)


def alter_partition_reassignments(facts: ServerFacts) -> Iterator[Case]:
    targets: dict[str, list[int] | None] = {
        "cancel": None,
        "to the same broker": [1],
        "to no broker": [],
        "to a broker twice": [1, 1],
        "to an unknown broker": [7],
        "to an unknown broker as well": [1, 7],
        "to broker -1": [-1],
        "to the largest id": [1, INT32_MAX],
    }
    for version in versions(AlterPartitionReassignmentsRequest):

        def asked(*topics: ReassignableTopic, timeout_ms: int = 20_000) -> AlterPartitionReassignmentsRequest:
            return AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=list(topics))

        yield Case("nothing", asked(), version)
        for name, replicas in targets.items():
            request = asked(reassignment(DATA, (2, replicas)))
            yield Case(name, request, version)
            if version >= FIRST_WITH_FACTOR:
                kept = asked(reassignment(DATA, (2, replicas)))
                kept.allow_replication_factor_change = False
                yield Case(f"{name}, with the same factor", kept, version)
        for topic in UNUSUAL_NAMES:
            yield Case(f"of {label(topic)}", asked(reassignment(topic, (0, [1]), (0, None))), version)
        yield Case("of unknown partitions", asked(reassignment(DATA, (9, [1]), (-1, [1]), (9, None))), version)
        yield Case("without partitions", asked(reassignment(DATA), reassignment("nope")), version)
        yield Case("several", asked(reassignment(DATA, (0, [1]), (9, [1]), (1, [7]), (2, None))), version)
        yield Case("a partition twice", asked(reassignment(DATA, (2, [1]), (2, [1]))), version)
        yield Case("a topic twice", asked(reassignment(DATA, (2, [1])), reassignment(DATA, (2, [1]))), version)
        for timeout_ms in (0, -1):
            request = asked(reassignment(DATA, (2, [1]), (9, None)), reassignment("nope"), timeout_ms=timeout_ms)
            yield Case(f"within {timeout_ms} ms", request, version)


def list_partition_reassignments(facts: ServerFacts) -> Iterator[Case]:
    def named(*topics: tuple[str, list[int]], timeout_ms: int = 20_000) -> ListPartitionReassignmentsRequest:
        rows = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
        return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=rows)

    requests = {
        "all": ListPartitionReassignmentsRequest(timeout_ms=20_000, topics=None),
        "nothing": named(),
        "some": named((DATA, [0, 1, 2]), (COMPACTED, [0])),
        "unknown partitions": named((DATA, [9, -1, INT32_MAX])),
        "without partitions": named((DATA, [])),
        "strange": named(*((name, [0]) for name in UNUSUAL_NAMES)),
        "twice": named((DATA, [0, 0]), (DATA, [0])),
        "all within 0 ms": ListPartitionReassignmentsRequest(timeout_ms=0, topics=None),
        "some within 0 ms": named((DATA, [0, 1]), ("nope", [0]), timeout_ms=0),
        "some within -1 ms": named((DATA, [0]), timeout_ms=-1),
    }
    for version in versions(ListPartitionReassignmentsRequest):
        for name, request in requests.items():
            yield Case(name, request, version)
