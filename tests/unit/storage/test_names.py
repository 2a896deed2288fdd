"""File and directory names: what we write, what we accept."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.errors import InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.storage import names

TOPICS = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249).filter(
    lambda topic: topic not in (".", "..")
)


@pytest.mark.spec("LS-01")
def test_the_files_of_a_partition_have_kafkas_names() -> None:
    assert names.partition_dir_name(TopicPartition("orders", 2)) == "orders-2"
    assert names.log_name(147001) == "00000000000000147001.log"
    assert names.offset_index_name(147001) == "00000000000000147001.index"
    assert names.time_index_name(147001) == "00000000000000147001.timeindex"
    assert names.txn_index_name(147001) == "00000000000000147001.txnindex"
    assert names.snapshot_name(0) == "00000000000000000000.snapshot"
    assert names.LEADER_EPOCH_CHECKPOINT == "leader-epoch-checkpoint"
    assert names.PARTITION_METADATA == "partition.metadata"
    assert (names.DELETED_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX) == (".deleted", ".cleaned", ".swap")


@pytest.mark.spec("LS-01")
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_prefix_has_20_digits_and_sorts_as_its_offset(one: int, other: int) -> None:
    assert len(names.prefix_of(one)) == 20
    assert (names.prefix_of(one) < names.prefix_of(other)) == (one < other)
    for suffix in (".log", ".index", ".timeindex.swap", ".snapshot.deleted"):
        assert names.offset_of(names.prefix_of(one) + suffix) == one


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_an_offset_that_is_none_has_no_name(offset: int) -> None:
    with pytest.raises(InvalidDataError, match=str(offset)):
        names.prefix_of(offset)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".log",
        "7.log",
        "00000000000000000007",
        "0000000000000000007.log",
        "-0000000000000000007.log",
        "0000000000000000000_7.log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.log",
        "99999999999999999999.log",
        "partition.metadata",
        "leader-epoch-checkpoint",
    ],
)
def test_a_foreign_name_has_no_offset(name: str) -> None:
    assert names.parse_offset(name) is None
    with pytest.raises(InvalidDataError):
        names.offset_of(name)


@pytest.mark.spec("LS-01")
@given(TOPICS, st.integers(0, 2**31 - 1))
def test_a_directory_name_leads_back_to_its_partition(topic: str, partition: int) -> None:
    name = names.partition_dir_name(TopicPartition(topic, partition))
    assert len(name) <= 255
    assert names.parse_partition_dir(name) == TopicPartition(topic, partition)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("orders", "no dash"),
        ("-3", "empty"),
        ("orders-", "partition number"),
        ("orders-x", "partition number"),
        ("orders-+1", "partition number"),
        ("orders-007", "partition number"),
        ("orders-2147483648", "partition number"),
        ("orders-0.d41d8cd98f-delete", "partition number"),
        ("or ders-0", "characters"),
        ("ordérs-0", "characters"),
        ("..-0", "not allowed"),
        ("a" * 250 + "-0", "250 characters"),
    ],
)
def test_a_directory_that_is_no_partition_is_refused_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(InvalidDataError, match=problem):
        names.parse_partition_dir(name)


@pytest.mark.parametrize(("topic", "partition"), [("../up", 0), ("", 0), ("a\n", 0), ("t", -1), ("t", 2**31)])
def test_no_directory_is_named_after_a_bad_topic(topic: str, partition: int) -> None:
    with pytest.raises(InvalidDataError):
        names.partition_dir_name(TopicPartition(topic, partition))


@given(st.text(max_size=300))
def test_any_text_is_a_partition_or_refused(name: str) -> None:
    try:
        partition = names.parse_partition_dir(name)
    except InvalidDataError:
        return
    assert names.partition_dir_name(partition) == name


def test_the_directory_of_a_path() -> None:
    assert names.directory_of("/data/orders-0/x") == "/data/orders-0"
    assert names.directory_of("/x") == "/"
    assert names.directory_of("x") == "."
    assert names.join("/data", "x") == "/data/x"
