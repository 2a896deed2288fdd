"""Topologies held against topics: numbers of partitions, what is missing, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.conversations.streams_members import subtopology, topology
from tailrace.coordinator.streams.configured import ConfiguredTopology, configured
from tailrace.coordinator.streams.status import StatusCode
from tailrace.coordinator.streams.topology import Topology, check_changelogs, check_topology, topology_value
from tailrace.model.errors import StreamsInvalidTopologyError
from tailrace.protocol.messages import streams_group_heartbeat as message
from tailrace.protocol.messages.streams_group_heartbeat import CopartitionGroup, TopicInfo


def against(existing: Mapping[str, int], *subtopologies: message.Subtopology) -> ConfiguredTopology:
    return configured(Topology(topology_value(topology(*subtopologies))), existing.get)


def own(*names: str, partitions: int = 0) -> list[TopicInfo]:
    return [TopicInfo(name=name, partitions=partitions) for name in names]


def together(*, sources: Any = (), repartitions: Any = ()) -> list[CopartitionGroup]:
    return [CopartitionGroup(source_topics=list(sources), repartition_source_topics=list(repartitions))]


def test_a_topology_that_has_everything() -> None:
    found = against({"a": 3, "b": 5, "s": 5}, subtopology("0", "a", "b", state="s"))
    assert found.is_ready
    assert found.missing == ()
    assert found.subtopologies["0"].task_count == 5
    assert found.subtopologies["0"].is_stateful


def test_missing_sources_are_said_before_anything_else() -> None:
    found = against({"b": 1}, subtopology("0", "a", "b", state="s"), subtopology("1", "c"))
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_SOURCE_TOPICS
    assert "a, c" in found.problem.detail
    assert not found.missing


def test_partitions_follow_the_chain_of_repartitions() -> None:
    found = against(
        {"a": 3},
        subtopology("2", repartition_source_topics=own("r2"), state="s"),
        subtopology("1", repartition_source_topics=own("r1"), repartition_sink_topics=["r2"]),
        subtopology("0", "a", repartition_sink_topics=["r1"]),
    )
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert {topic.name: topic.partitions for topic in found.missing} == {"r1": 3, "r2": 3, "s": 3}
    assert list(found.subtopologies) == ["0", "1", "2"]


def test_the_widest_source_counts_even_when_it_is_known_last() -> None:
    found = against(
        {"a": 2, "b": 7},
        subtopology("0", "a", repartition_source_topics=own("r1"), repartition_sink_topics=["r2"]),
        subtopology("1", "b", repartition_sink_topics=["r1"]),
        subtopology("2", repartition_source_topics=own("r2")),
    )
    assert {topic.name: topic.partitions for topic in found.missing} == {"r1": 7, "r2": 7}


def test_a_long_chain_takes_no_time() -> None:
    """In the worst order: each is known only when the next one is."""
    count = 5_000
    chain = [
        subtopology(f"{count - n:06}", repartition_source_topics=own(f"r{n}"), repartition_sink_topics=[f"r{n + 1}"])
        for n in range(count)
    ]
    found = against(
        {"a": 3},
        subtopology("999999", "a", repartition_sink_topics=["r0"]),
        *chain,
        subtopology("last", repartition_source_topics=own(f"r{count}")),
    )
    assert {topic.partitions for topic in found.missing} == {3}


def test_a_topology_with_too_many_tasks() -> None:
    with pytest.raises(StreamsInvalidTopologyError, match="tasks"):
        against({"a": 100_001}, subtopology("0", "a"), subtopology("1", "a"))


def test_a_loop_takes_its_width_from_outside() -> None:
    found = against({"a": 4}, subtopology("0", "a", repartition_source_topics=own("r"), repartition_sink_topics=["r"]))
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("r", 4)]


def test_a_repartition_topic_that_says_its_width_keeps_it() -> None:
    found = against(
        {"a": 4},
        subtopology("0", "a", repartition_sink_topics=["r"]),
        subtopology("1", repartition_source_topics=own("r", partitions=9), state="s"),
    )
    assert {topic.name: topic.partitions for topic in found.missing} == {"r": 9, "s": 9}


def test_topics_that_are_joined_are_as_wide_as_each_other() -> None:
    found = against(
        {"a": 4, "b": 6},
        subtopology("0", "a", repartition_sink_topics=["r"]),
        subtopology(
            "1",
            "b",
            repartition_source_topics=own("r"),
            copartition_groups=together(sources=[0], repartitions=[0]),
        ),
    )
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("r", 6)]


def test_repartition_topics_that_are_joined_have_the_widest() -> None:
    found = against(
        {"a": 4, "b": 6},
        subtopology("0", "a", repartition_sink_topics=["r"]),
        subtopology("1", "b", repartition_sink_topics=["q"]),
        subtopology("2", repartition_source_topics=own("q", "r"), copartition_groups=together(repartitions=[0, 1])),
    )
    assert {topic.name: topic.partitions for topic in found.missing} == {"q": 6, "r": 6}


def test_widths_that_are_said_for_one_join_do_not_bind_another() -> None:
    found = against(
        {"a": 4},
        subtopology("0", "a", repartition_sink_topics=["p", "q", "r", "s"]),
        subtopology(
            "1",
            repartition_source_topics=own("p", "q", partitions=2),
            copartition_groups=together(repartitions=[0, 1]),
        ),
        subtopology(
            "2",
            repartition_source_topics=own("r", "s", partitions=3),
            copartition_groups=together(repartitions=[0, 1]),
        ),
    )
    assert {topic.name: topic.partitions for topic in found.missing} == {"p": 2, "q": 2, "r": 3, "s": 3}


@pytest.mark.parametrize(
    ("existing", "subtopologies"),
    [
        ({"a": 2, "b": 3}, [subtopology("0", "a", "b", copartition_groups=together(sources=[0, 1]))]),
        ({"a": 2, "s": 3}, [subtopology("0", "a", state="s")]),
        (
            {"a": 2, "r": 3},
            [
                subtopology("0", "a", repartition_sink_topics=["r"]),
                subtopology("1", repartition_source_topics=own("r", partitions=2)),
            ],
        ),
        (
            {"a": 2},
            [
                subtopology("0", "a", repartition_sink_topics=["r"]),
                subtopology(
                    "1",
                    "a",
                    repartition_source_topics=own("r", partitions=5),
                    copartition_groups=together(sources=[0], repartitions=[0]),
                ),
            ],
        ),
        (
            {"a": 2},
            [
                subtopology("0", "a", repartition_sink_topics=["q", "r"]),
                subtopology(
                    "1",
                    repartition_source_topics=[*own("q", partitions=2), *own("r", partitions=3)],
                    copartition_groups=together(repartitions=[0, 1]),
                ),
            ],
        ),
    ],
)
def test_topics_that_do_not_go_together(existing: dict[str, int], subtopologies: list[message.Subtopology]) -> None:
    found = against(existing, *subtopologies)
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert not found.missing


@pytest.mark.parametrize(
    "wrong",
    [
        subtopology("0", repartition_source_topics=own("r"), repartition_sink_topics=["r"]),
        subtopology("0", "a", repartition_source_topics=own("r")),
        subtopology("0"),
        subtopology("0", "a", copartition_groups=together(sources=[1])),
        subtopology("0", "a", copartition_groups=together(sources=[-1])),
        subtopology("0", "a", copartition_groups=together(repartitions=[0])),
    ],
)
def test_topologies_that_cannot_be(wrong: message.Subtopology) -> None:
    with pytest.raises(StreamsInvalidTopologyError):
        against({"a": 2}, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        topology(subtopology("0", "a"), epoch=-1),
        topology(subtopology("0", "a"), subtopology("0", "b")),
        topology(subtopology("0", "a", repartition_source_topics=own("r", partitions=-1))),
        topology(subtopology("0", "a", copartition_groups=together(sources=[7]))),
    ],
)
def test_topologies_that_nobody_can_bring(wrong: message.Topology) -> None:
    with pytest.raises(StreamsInvalidTopologyError):
        check_topology(wrong)


def test_a_changelog_that_says_its_width() -> None:
    with pytest.raises(StreamsInvalidTopologyError):
        check_changelogs(topology(subtopology("0", "a", state_changelog_topics=own("s", partitions=1))))


def test_the_same_topology_in_another_order() -> None:
    one, other = subtopology("0", "a"), subtopology("1", "b", state="s")
    first, second = (Topology(topology_value(topology(*each))) for each in ((one, other), (other, one)))
    assert first.is_the_same_as(second)
    assert not first.is_the_same_as(Topology(topology_value(topology(one))))
    assert not first.is_the_same_as(Topology(topology_value(topology(one, other, epoch=1))))
    assert first.topics == {"a", "b", "s"}
    assert first.subtopology_of == {"a": "0", "b": "1"}
