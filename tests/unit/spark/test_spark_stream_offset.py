"""How far a stream is, as Spark keeps it, and what has become of it since."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, PipelineError
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.stream_offset import StreamOffset

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {A0: "ida", A1: "ida", B0: None}


def at(offsets: dict[TopicPartition, int], **ids: str) -> StreamOffset:
    return StreamOffset.of(offsets, {each: ids.get(each.topic) for each in offsets})


def test_it_is_an_object_of_topics_with_their_ids() -> None:
    stored = StreamOffset.of({B0: 7, A1: 0, A0: 5}, IDS).to_dict()
    assert stored == {"a": {"id": "ida", "offsets": {"0": 5, "1": 0}}, "b": {"offsets": {"0": 7}}}


def test_the_same_offsets_are_the_same_text_whatever_their_order() -> None:
    many = {TopicPartition("t", number): number for number in range(12)}
    texts = {json.dumps(at(dict(order), t="id").to_dict()) for order in (many.items(), reversed(many.items()))}
    assert len(texts) == 1
    assert list(at(many).to_dict()["t"]["offsets"]) == [str(number) for number in range(12)]


def test_ids_of_other_partitions_are_not_kept() -> None:
    assert StreamOffset.of({A0: 1}, IDS) == StreamOffset({A0: 1}, {A0: "ida"})
    assert StreamOffset.of({A0: 1}, {}) == StreamOffset({A0: 1}, {A0: None})


PARTITIONS = st.builds(TopicPartition, st.text("abcxyz._-", min_size=1, max_size=8), st.integers(0, 1 << 20))


@given(st.dictionaries(PARTITIONS, st.integers(0, (1 << 63) - 1)), st.none() | st.text(min_size=1))
def test_it_comes_back_from_json_as_it_was(offsets: dict[TopicPartition, int], topic_id: str | None) -> None:
    offset = StreamOffset.of(offsets, dict.fromkeys(offsets, topic_id))
    assert StreamOffset.from_dict(json.loads(json.dumps(offset.to_dict()))) == offset


def test_the_offsets_of_sparks_kafka_source_are_understood() -> None:
    carried_over = StreamOffset.from_dict({"a": {"0": 5, "1": 0}, "b": {"0": 7}})
    assert carried_over.offsets == {A0: 5, A1: 0, B0: 7}
    assert set(carried_over.ids.values()) == {None}
    assert carried_over.lost_in(at({A0: 5, A1: 0, B0: 7}, a="any", b="id")) == []


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        {"a": 5},
        {"a": {"0": "5"}},
        {"a": {"0": True}},
        {"a": {"0": -1}},
        {"a": {"0": 1 << 63}},
        {"a": {"zero": 5}},
        {"a": {"-1": 5}},
        {"a": {"²": 5}},
        {"a": {"id": 5, "offsets": {}}},
        {"a": {"id": "x", "offsets": [1]}},
        {"logOffset": 5},
    ],
)
def test_a_checkpoint_of_something_else_is_told(stored: object) -> None:
    with pytest.raises(PipelineError, match="the checkpoint holds no offset of this source"):
        StreamOffset.from_dict(stored)


def test_partitions_and_topics_that_came_are_new() -> None:
    assert at({A0: 5}, a="x").new_in(at({A0: 9, A1: 3, B0: 2}, a="x")) == [A1, B0]


def test_a_topic_made_again_is_new_and_lost() -> None:
    before, now = at({A0: 5, B0: 1}, a="old", b="b"), at({A0: 9, B0: 1}, a="new", b="b")
    assert before.new_in(now) == [A0]
    (loss,) = before.lost_in(now)
    assert loss[:3] == (A0, 5, None)
    assert "made again (its id was old and is new)" in loss.why


@pytest.mark.parametrize(("was", "now"), [({}, {"a": "x"}), ({"a": "x"}, {}), ({}, {})])
def test_without_an_id_a_topic_is_taken_for_the_same(was: dict[str, str], now: dict[str, str]) -> None:
    assert at({A0: 5}, **was).lost_in(at({A0: 5}, **now)) == []
    assert at({A0: 5}, **was).new_in(at({A0: 5}, **now)) == []


def test_a_partition_that_is_gone_is_lost_and_not_carried_on() -> None:
    (loss,) = at({A0: 5, A1: 6}).lost_in(at({A0: 5}))
    assert loss == (A1, 6, None, "the partition is gone")


def test_a_log_that_ends_before_what_was_read_has_lost_the_difference() -> None:
    (loss,) = at({A0: 100}, a="x").lost_in(at({A0: 60}, a="x"))
    assert loss[:3] == (A0, 60, 100)


def test_nothing_is_lost_while_logs_grow() -> None:
    assert at({A0: 5, A1: 6}, a="x").lost_in(at({A0: 5, A1: 60, B0: 3}, a="x")) == []


def test_new_partitions_whose_beginning_was_deleted_have_missed_it() -> None:
    before = at({A0: 5}, a="x")
    losses = before.missed({A1: 3, B0: 0}, [A1, B0])
    assert [each[:3] for each in losses] == [(A1, 0, 3)]
    assert before.missed({A0: 3}, [A0]) == []  # it was made anew: told by lost_in


def test_losses_are_told_as_the_policy_wants() -> None:
    (gone,) = at({A1: 6}).lost_in(at({}))
    with pytest.raises(DataLossError, match=r"a-1: offsets from 6 on are lost: the partition is gone"):
        LossPolicy().lost(*gone)
    lenient = LossPolicy(fails=False)
    lenient.lost(*gone)
    lenient.lost(A0, 60, 100, "cut")
    assert lenient.lost_offsets == 40
