"""Names of partition directories."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.errors import InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.directory_names import PartitionDir, Role, is_ours, name_for, parse

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda topic: topic not in (".", ".."))


@given(TOPICS, st.integers(0, 2**31 - 1), st.sampled_from(Role), st.integers())
def test_every_name_is_read_back(topic: str, number: int, role: Role, seed: int) -> None:
    partition = TopicPartition(topic, number)
    try:
        name = name_for(partition, role, random.Random(seed))
    except InvalidDataError:
        assert role is Role.FUTURE
        assert len(topic) > 200
        return
    assert len(name) <= 255
    found = parse(name)
    assert found.role is role or role is Role.CURRENT
    if role is not Role.CURRENT:
        assert found.partition.partition == number
        assert topic.startswith(found.partition.topic)


@pytest.mark.spec("LM-12")
def test_the_form_is_kafkas() -> None:
    name = name_for(TopicPartition("a.b-c", 12), Role.DELETED, random.Random(1))
    stem, _, rest = name.rpartition(".")
    assert stem == "a.b-c-12"
    assert rest.endswith("-delete")
    assert len(rest.removesuffix("-delete")) == 32
    assert int(rest.removesuffix("-delete"), 16) > 0


@pytest.mark.spec("LM-07")
def test_names_that_kafka_made() -> None:
    kafkas = "orders-3.0a2b4c6d8e0f4a1b8c3d5e7f9a0b1c2d"
    for role in (Role.DELETED, Role.STRAY, Role.FUTURE):
        assert parse(kafkas + role.value) == PartitionDir(TopicPartition("orders", 3), role)
    assert parse("orders-3") == PartitionDir(TopicPartition("orders", 3), Role.CURRENT)


@pytest.mark.parametrize("name", ["lost+found", "orders", "orders-x", "-0", "a-0-delete", "a.b-delete", "a-1 .x-stray"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidDataError):
        parse(name)


@pytest.mark.spec("LM-07")
def test_what_belongs_to_other_parts() -> None:
    assert is_ours("remote-log-index-cache")
    assert is_ours("__cluster_metadata-0")
    assert not is_ours("__cluster_metadata2-0")
    assert not is_ours("orders-0")
