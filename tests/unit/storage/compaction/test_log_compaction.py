"""A clean of a whole log leaves what a plain model says, whatever was written."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.compaction.compacted_logs import RETENTION_MS, CompactedLog

KEYS = [b"a", b"b", b"c", b"", b"longer key"]
pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=90))), min_size=1, max_size=6)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), pairs, st.sampled_from([0, 0, 1, 2, 3, 4])),
        st.tuples(st.just("idempotent"), pairs, st.sampled_from([1, 2])),
        st.tuples(st.just("transactional"), pairs, st.sampled_from([11, 12, 13])),
        st.tuples(st.just("end"), st.booleans(), st.sampled_from([11, 12, 13])),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean"), st.integers(0, 2 * RETENTION_MS), st.booleans()),
    ),
    max_size=25,
)


def apply(log: CompactedLog, operation: tuple) -> None:
    kind, *arguments = operation
    if kind == "put":
        log.put(arguments[0], codec=arguments[1])
    elif kind == "idempotent":
        log.put(arguments[0], producer_id=arguments[1])
    elif kind == "transactional":
        log.put(arguments[0], producer_id=arguments[1], transactional=True)
    elif kind == "end" and arguments[1] in log.open_transactions:
        log.end(arguments[1], commit=arguments[0])
    elif kind == "roll":
        log.roll()
    elif kind == "clean":
        log.wait(arguments[0])
        clean_and_compare(log, restarts=arguments[1])


def clean_and_compare(log: CompactedLog, *, restarts: bool) -> None:
    log.settle()
    first_dirty = log.cleaner_point or 0
    before = log.table()
    stats = log.clean()
    end = stats.cleaner_point
    if end > first_dirty:
        log.model_clean(first_dirty, end)
    assert log.data_records() == log.expected_records()
    assert log.shape() == log.expected_shape()
    assert log.table() == before
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
    if restarts:
        log.reopen()
        assert log.shape() == log.expected_shape()
        assert log.table() == before
    assert log.findings() == []


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(operations)
@pytest.mark.spec("LM-13", "LM-20", "LM-21", "LM-42", "RF-08", "RF-13", "RF-15")
def test_what_survives_is_what_the_model_says(script: list[tuple]) -> None:
    log = CompactedLog()
    for operation in [*script, ("clean", 0, True), ("clean", 2 * RETENTION_MS, True)]:
        apply(log, operation)
