"""Whatever JSON comes, what becomes columns of it is something that an Iceberg table takes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.tables.columns import append_schema
from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.store import About, Change
from tailrace.spark.tables.values.plan import Decoded
from tailrace.spark.tables.values.spec import ValueSpec

NAMES = st.sampled_from(
    ["x", "X", "y", "x.y", "x.element", "element", "value", "key", "x.y.y", "_headers.key", "_headers.element", "n"]
)
VALUES = st.recursive(
    st.just(1),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3) | st.lists(inner, min_size=1, max_size=2),
    max_leaves=6,
)
RECORDS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(first=RECORDS, later=st.lists(RECORDS, min_size=1, max_size=4))
def test_what_is_discovered_can_be_added(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, Any], later: list[dict[str, Any]]
) -> None:
    _check_growth(tmp_path_factory, first, later)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"n": 1}, {"_headers.key": 1}),
        ({"n": 1}, {"_headers.element.value": 1}),
        ({"x": [{"y": 1}]}, {"x.y": 2}),
        ({"x": [[{"y": 1}]]}, {"x.element.y": 2}),
        ({"o": {"x": [{"y": {"z": 1}}]}}, {"o": {"x.y.z": 2}}),
    ],
)
def test_short_names_of_what_is_nested_are_no_columns(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, Any], later: dict[str, Any]
) -> None:
    """pyiceberg also knows nested columns without the words for elements of lists, and takes no other one there."""
    dead = _check_growth(tmp_path_factory, first, [later])
    assert "has no place" in dead[0]


def test_a_place_is_had_by_the_full_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert _check_growth(tmp_path_factory, {"x.y": 1}, [{"x": [{"y": 1}]}, {"x": [{"z": 1}]}]) == []


def _check_growth(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, Any], later: list[dict[str, Any]]
) -> list[str]:
    """Why records that were refused were so."""
    plan = ValueSpec("json").plan(None, lambda _: _raw(first))
    store = IcebergStore(str(tmp_path_factory.mktemp("iceberg") / "orders"))
    snapshot = store.create(About("orders", None, None), append_schema(pa.binary(), list(plan.fields), ()), {0: 0})
    dead: list[str] = []
    for record in later:
        decoded = plan.decoder().decode(_raw(record))
        if decoded.discovered:
            plan = plan.grown([decoded.discovered])
            schema = append_schema(pa.binary(), list(plan.fields), ())
            snapshot = snapshot.commit(Change("schema", {0: 0}, schema=schema))
            decoded = plan.decoder().decode(_raw(record))
            assert not decoded.discovered
        dead += _reasons(decoded)
    return dead


def _raw(record: dict[str, Any]) -> pa.Array:
    return pa.array([json.dumps(record).encode()], pa.binary())


def _reasons(decoded: Decoded) -> list[str]:
    return list(decoded.bad.values())
