"""CreateTopics and CreatePartitions: error codes and texts are those that Kafka 4.3.1 was seen to give."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from support.metadata.controllers import ControllerRig, topic
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig().brokers(1)


@pytest.mark.spec("RP-01", "RP-38")
def test_a_topic_is_one_batch_of_records_which_brokers_apply(rig: ControllerRig) -> None:
    (result,) = rig.create(topic("orders", 2, configs={"retention.ms": "7"}))
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    batch = [each.record for each in rig.quorum.batches[-1]]
    assert [type(each) for each in batch] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert [each.version for each in rig.quorum.batches[-1]] == [0, 0, 2, 2]
    created = rig.image.topics["orders"]
    assert created.id == result.topic_id
    assert rig.image.topic_config("orders") == {"retention.ms": "7"}
    directory = rig.image.brokers[1].directories[0]
    for index in (0, 1):
        partition = created.partitions[index]
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == (directory,)
        assert partition.preferred_leader == partition.replicas[0]


def test_the_answer_lists_the_settings(rig: ControllerRig) -> None:
    (result,) = rig.create(topic("orders", configs={"cleanup.policy": "compact"}))
    assert result.configs is not None
    settings = {each.name: (each.value, each.config_source) for each in result.configs}
    assert settings["cleanup.policy"] == ("compact", 1)
    assert settings["segment.bytes"] == ("1073741824", 5)
    assert [each.name for each in result.configs] == sorted(settings)


def test_older_versions_say_less(rig: ControllerRig) -> None:
    (result,) = rig.create(topic("orders"), version=4)
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, -1, bytes(16))


ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (topic("a_b"), 17, "Topic 'a_b' collides with existing topic: a.b"),
        (topic("a.b"), 36, "Topic 'a.b' already exists."),
        (topic("x y"), 17, f"Topic name is invalid: 'x y' {ILLEGAL}"),
        (topic("ä"), 17, f"Topic name is invalid: 'ä' {ILLEGAL}"),
        (topic("x\n"), 17, f"Topic name is invalid: 'x\n' {ILLEGAL}"),
        (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (topic("."), 17, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            topic("z" * 250),
            17,
            f"Topic name is invalid: the length of '{'z' * 250}' is longer than the max allowed length 249",
        ),
        (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (topic("t", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (topic("t", -2), 37, "Number of partitions was set to an invalid non-positive value."),
        (topic("t", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("t", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            topic("t", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached "
            "because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            topic("t", assignments={0: [2]}),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (topic("t", assignments={0: []}), 39, "The manual partition assignment includes an empty replica list."),
        (
            topic("t", assignments={0: [1, 1]}),
            39,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic("t", assignments={1: [1]}),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (topic("t", configs={"retention.ms": None}), 40, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_refusals(rig: ControllerRig, asked: CreatableTopic, code: int, message: str) -> None:
    rig.create(topic("a.b"))
    before = len(rig.quorum.batches)
    (result,) = rig.create(asked)
    assert (result.error_code, result.error_message) == (code, message)
    assert len(rig.quorum.batches) == before


@pytest.mark.parametrize(
    ("key", "value"), [("retention.ms", "abc"), ("no.such.key", "1"), ("min.insync.replicas", "0")]
)
def test_illegal_settings(rig: ControllerRig, key: str, value: str) -> None:
    (result,) = rig.create(topic("t", configs={key: value}))
    assert result.error_code == 40
    assert result.error_message is not None
    assert key in result.error_message


def test_manual_assignments_exclude_numbers(rig: ControllerRig) -> None:
    asked = topic("t", assignments={0: [1]})
    asked.replication_factor = 1
    (result,) = rig.create(asked)
    text = "A manual partition assignment was specified, but {} was not set to -1."
    assert (result.error_code, result.error_message) == (42, text.format("replication factor"))
    asked = topic("t", assignments={0: [1]})
    asked.num_partitions = 1
    (result,) = rig.create(asked)
    assert (result.error_code, result.error_message) == (42, text.format("numPartitions"))


def test_manual_assignments() -> None:
    rig = ControllerRig().brokers(1, 2, 3)
    rig.beat(3, want_fence=True)
    (result,) = rig.create(topic("t", assignments={1: [2, 1], 0: [3, 1]}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    partitions = rig.image.topics["t"].partitions
    assert (partitions[0].replicas, partitions[0].isr, partitions[0].leader) == ((3, 1), (1,), 1)
    assert (partitions[1].replicas, partitions[1].isr, partitions[1].leader) == ((2, 1), (2, 1), 2)
    (result,) = rig.create(topic("u", assignments={0: [1, 2], 1: [1]}))
    assert result.error_code == 39
    (result,) = rig.create(topic("u", assignments={0: [3]}))
    assert result.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )


def test_what_is_legal_is_created_beside_what_is_not(rig: ControllerRig) -> None:
    results = {each.name: each for each in rig.create(topic("a"), topic("b", 0), topic("c"), topic("c"), topic("d"))}
    assert {name: each.error_code for name, each in results.items()} == {"a": 0, "b": 37, "c": 42, "d": 0}
    assert results["c"].error_message == "Duplicate topic name."
    assert set(rig.image.topics) == {"a", "d"}


def test_defaults_and_validate_only() -> None:
    rig = ControllerRig(num_partitions="3", default_replication_factor="2").brokers(1, 2)
    (result,) = rig.create(topic("t", -1, -1), validate_only=True)
    assert (result.num_partitions, result.replication_factor) == (3, 2)
    assert result.topic_id != bytes(16)
    assert not rig.image.topics
    assert not rig.state.image.topics
    (result,) = rig.create(topic("t", -1, -1))
    assert len(rig.image.topics["t"].partitions) == 3


def test_nobody_to_lead() -> None:
    rig = ControllerRig()
    rig.register(1)
    (result,) = rig.create(topic("t"))
    assert result.error_code == 38
    assert result.error_message is not None
    assert "All brokers are currently fenced" in result.error_message


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([9999], None),
        ([10_000], "Unable to perform excessively large batch operation."),
        ([10_001], "Excessively large number of partitions per request."),
        ([5000, 5001], "Excessively large number of partitions per request."),
        ([2**31 - 1], "Excessively large number of partitions per request."),
    ],
)
def test_many_partitions_in_one_request(rig: ControllerRig, counts: list[int], message: str | None) -> None:
    results = rig.create(*(topic(f"t{count}", count) for count in counts))
    assert {each.error_message for each in results} == {message}
    assert {each.error_code for each in results} == {0 if message is None else 44}
    assert sum(len(each.partitions) for each in rig.image.topics.values()) == (sum(counts) if message is None else 0)


def test_a_deadline_that_has_passed(rig: ControllerRig) -> None:
    (result,) = rig.create(topic("t"), timeout_ms=0)
    assert result.error_code == 7
    assert not rig.image.topics


def test_no_topics(rig: ControllerRig) -> None:
    assert rig.create() == []


def instructions(action: Callable[[], None]) -> int:
    """How many the interpreter executes: a cost that no load of the machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


class NeverWalked(dict[Any, Any]):
    """What C code walks over is not among the instructions."""

    def __iter__(self) -> Any:
        raise AssertionError("somebody goes through all topics")

    keys = values = items = __iter__


def test_the_cost_of_a_topic_does_not_grow(rig: ControllerRig) -> None:
    def costs(prefix: str) -> tuple[int, ...]:
        change = resource(f"{prefix}.a")
        steps: list[Request] = [
            CreateTopicsRequest(topics=[topic(f"{prefix}.a")]),
            IncrementalAlterConfigsRequest(resources=[change]),
            CreatePartitionsRequest(topics=[more(f"{prefix}.a", 2)], timeout_ms=1000),
            DeleteTopicsRequest(topics=[DeleteTopicState(name=f"{prefix}.a")], timeout_ms=1000),
        ]
        return tuple(
            instructions(partial(rig.controller.handle, step, step.VERSIONS[1], None, lambda _: None)) for step in steps
        )

    costs("warm")
    few = costs("few1")
    assert min(few) > 1000
    for batch in range(10):
        rig.create(*(topic(f"idle{batch}-{index}") for index in range(1000)), version=4)
    for image in (rig.image, rig.state.image):
        image.topics, image.topics_by_id = NeverWalked(image.topics), NeverWalked(image.topics_by_id)
    many = costs("many")
    assert dict.__len__(rig.image.topics) == 10_000
    assert many == pytest.approx(few, rel=0.02)


def resource(name: str) -> AlterConfigsResource:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="5")
    return AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])


# CreatePartitions


def grow(
    rig: ControllerRig, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return [(each.error_code, each.error_message) for each in rig.ask(request).results]


def more(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    lists = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=lists)


def test_partitions_are_added_behind_those_there_are() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", 1, 2))
    before = rig.image.topics["t"].partitions[0]
    assert grow(rig, more("t", 3), validate_only=True) == [(0, None)]
    assert len(rig.image.topics["t"].partitions) == 1
    assert grow(rig, more("t", 3)) == [(0, None)]
    partitions = rig.image.topics["t"].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert partitions[0] is before
    assert all(set(each.replicas) == {1, 2} for each in partitions.values())
    assert grow(rig, more("t", 4, [[2, 1]])) == [(0, None)]
    assert partitions[3].replicas == (2, 1)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (more("no", 2), (3, None)),
        (more("t", 1), (37, "Topic already has 1 partition(s).")),
        (more("t", 0), (37, "The topic t currently has 1 partition(s); 0 would not be an increase.")),
        (
            more("t", 3, [[1]]),
            (39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        ),
        (
            more("t", 2, [[5]]),
            (39, "The manual partition assignment includes broker 5, but no such broker is registered."),
        ),
        (more("t", 2, [[]]), (39, "The manual partition assignment includes an empty replica list.")),
        (more("t", 10_002), (44, "Unable to perform excessively large batch operation.")),
        (more("t", 2**31 - 1), (44, "Unable to perform excessively large batch operation.")),
    ],
)
def test_refused_additions(rig: ControllerRig, asked: CreatePartitionsTopic, expected: tuple[int, str | None]) -> None:
    rig.create(topic("t"))
    assert grow(rig, asked) == [expected]
    assert len(rig.image.topics["t"].partitions) == 1


def test_a_topic_twice_in_a_request(rig: ControllerRig) -> None:
    rig.create(topic("t"))
    assert grow(rig, more("t", 2), more("t", 3)) == [(42, "Duplicate topic name.")]


def test_a_deadline_that_has_passed_adds_nothing(rig: ControllerRig) -> None:
    rig.create(topic("t"))
    (result,) = rig.ask(CreatePartitionsRequest(topics=[more("t", 2)], timeout_ms=0)).results
    assert result.error_code == 7
