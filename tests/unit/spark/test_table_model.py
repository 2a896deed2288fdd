"""The model that tables are held against, and the records that it is fed: it must itself be right."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from support.tables.model import APPEND, EPOCH, UPSERT, Record, TableModel, headers_of
from support.tables.records import LATE_FIELD, PARTITIONS, decode, records


def model_of(mode: str, *given: Record) -> TableModel:
    model = TableModel(mode, decode, buckets=4)
    model.add(given)
    return model


def value(number: int) -> bytes:
    return json.dumps({"number": number}).encode()


def numbers(model: TableModel) -> dict[Any, int]:
    return {known: json.loads(row[-1])["number"] for known, row in model.rows().items()}


def test_append_has_a_row_for_each_record() -> None:
    model = model_of(APPEND, Record(0, 0, 5, b"a", value(1)), Record(0, 1, 5, None, None), Record(1, 0, 5, b"a", b"{"))
    assert model.rows() == {
        (0, 0): (0, 0, 5, b"a", "topic", (), '{"number": 1}'),
        (0, 1): (0, 1, 5, None, "topic", (), "{}"),
    }
    assert list(model.dead) == [(1, 0)]


def test_upsert_takes_the_highest_offset_of_a_partition_whatever_its_timestamp() -> None:
    model = model_of(UPSERT, Record(0, 0, 9, b"a", value(1)), Record(0, 1, 3, b"a", value(2)))
    assert numbers(model) == {b"a": 2}


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (Record(0, 9, 5, b"a", value(1)), Record(1, 0, 6, b"a", value(2)), 2),
        (Record(0, 0, 7, b"a", value(1)), Record(1, 5, 6, b"a", value(2)), 1),
        (Record(0, 9, 5, b"a", value(1)), Record(1, 0, 5, b"a", value(2)), 2),
    ],
)
def test_partitions_of_a_key_are_decided_by_timestamp_partition_offset(one: Record, other: Record, winner: int) -> None:
    assert numbers(model_of(UPSERT, one, other)) == numbers(model_of(UPSERT, other, one)) == {b"a": winner}


def test_a_tombstone_deletes_by_the_same_order() -> None:
    stays = model_of(UPSERT, Record(0, 0, 5, b"a", None), Record(1, 0, 6, b"a", value(2)))
    goes = model_of(UPSERT, Record(0, 0, 7, b"a", None), Record(1, 0, 6, b"a", value(2)))
    assert numbers(stays) == {b"a": 2}
    assert goes.rows() == {}


def test_a_loser_comes_back_when_its_winner_moves_down() -> None:
    """The newest of a partition may have an older timestamp than the one before it."""
    model = model_of(
        UPSERT, Record(0, 0, 9, b"a", value(1)), Record(1, 0, 5, b"a", value(2)), Record(0, 1, 3, b"a", value(3))
    )
    assert numbers(model) == {b"a": 2}


def test_records_without_a_key_and_bad_values_are_dead_letters() -> None:
    model = model_of(
        UPSERT, Record(0, 0, 5, b"a", value(1)), Record(0, 1, 5, None, value(2)), Record(0, 2, 5, b"a", b"x")
    )
    assert numbers(model) == {b"a": 1}
    assert list(model.dead) == [(0, 1), (0, 2)]


def as_read(model: TableModel, given: Iterable[Record], mode: str) -> list[dict[str, Any]]:
    """As a reader of a table finds them."""
    rows = []
    for record in given:
        own = {
            "_partition": record.partition,
            "_offset": record.offset,
            "_timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
            "_key": record.key,
        }
        more = (
            {"_topic": "topic", "_headers": [{"key": key, "value": value} for key, value in record.headers]}
            if mode == APPEND
            else {"_bucket": zlib.crc32(record.key or b"") % model.buckets}
        )
        rows.append({**own, **more, "number": None, **decode(record.value or b'{"number": 0}')})
    return rows


@pytest.mark.parametrize("mode", [APPEND, UPSERT])
def test_differences_are_told(mode: str) -> None:
    given = [Record(0, each, each, b"%d" % each, value(each), (("h", None),)) for each in range(5)]
    model = model_of(mode, *given)
    rows = as_read(model, given, mode)
    assert model.differences(rows, []) == []
    assert "1 of 5 rows are missing" in model.differences(rows[1:], [])[0]
    assert "1 of 5 rows are there more than once" in model.differences([*rows, rows[0]], [])[0]
    assert "1 of 5 rows are wrong" in model.differences([{**rows[0], "number": 7}, *rows[1:]], [])[0]
    strange = as_read(model, [Record(3, 3, 3, b"z", value(3))], mode)
    assert "should not be there" in model.differences([*rows, *strange], [])[0]
    if mode == APPEND:
        letter = {**rows[0], "value": b"x", "reason": "why"}
        assert "dead letter" in model.differences(rows, [letter])[0]
        assert headers_of(letter) == (("h", None),)


def test_the_records_have_all_that_a_table_has_to_cope_with() -> None:
    made = list(records(5000, 3))
    assert made == list(records(5000, 3))
    for partition in range(PARTITIONS):
        of_it = [each for each in made if each.partition == partition]
        assert [each.offset for each in of_it] == list(range(len(of_it)))
    model = TableModel(UPSERT, decode)
    model.add(made)
    kinds = Counter(
        "tombstone" if each.value is None else "late" if LATE_FIELD.encode() in each.value else "early" for each in made
    )
    assert min(kinds.values()) > 100
    assert len(model.dead) > 20
    wandering = {each.key for each in made if each.partition == 0} & {each.key for each in made if each.partition == 1}
    assert len(wandering) > 20
    assert 0 < len(model.rows()) < 1000
