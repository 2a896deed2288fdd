"""Sets in one append are as sets each in an append of its own, and the short way of an append is as the long one."""

from __future__ import annotations

import errno
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import (
    SimLog,
    bases,
    batch,
    bytes_of,
    file_bytes,
    in_transaction,
    marker,
    produced_by,
    with_config,
)
from tailrace.storage.append import AppendResult
from tailrace.storage.origin import Origin
from tailrace.storage.verification import NO_GUARD

LAST_SEQUENCE = 2**31 - 1
PRODUCERS = st.integers(5, 7)


class Sent(NamedTuple):
    """One set, by how it stands to what its producer sent before. `age_ms` None stands for a batch without time."""

    producer: int
    kind: str
    count: int
    age_ms: int | None
    step_ms: int
    codec: int


class Ended(NamedTuple):
    """A marker; its abort may find no room in the transaction index."""

    producer: int
    is_commit: bool
    transaction_version: int
    fails: bool


class Passed(NamedTuple):
    """What happens beside appends."""

    kind: str
    amount: int


KINDS = ["next"] * 10 + ["again"] * 2 + ["begin"] * 2 + ["gap", "epoch", "old epoch", "outside", "nobody"]
SETS = st.builds(
    Sent,
    PRODUCERS,
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.sampled_from([0, 0, 0, None, 2000, -2000, 5000]),
    st.sampled_from([0, 0, 3]),
    st.sampled_from([0, 0, 0, 3]),
)
STEPS = st.one_of(
    st.lists(SETS, min_size=1, max_size=8),
    st.lists(SETS, min_size=1, max_size=8),
    st.builds(Ended, PRODUCERS, st.booleans(), st.sampled_from([0, 0, 2]), st.booleans()),
    st.builds(Passed, st.sampled_from(["watermark", "clock", "expiry", "restart", "cut", "roll"]), st.integers(0, 20)),
)


class Sender:
    """Makes the bytes of a plan, from what each producer sent last; two of them begin just before sequences wrap."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int]] = {5: (1, 0), 6: (1, LAST_SEQUENCE - 3), 7: (1, LAST_SEQUENCE - 1)}
        self._sent: dict[int, tuple[int, int, int, bool]] = {}
        self._open: set[int] = set()

    def records_of(self, sent: Sent, now_ms: int) -> bytearray:
        producer, kind, count = sent[:3]
        stamp: dict[str, Any] = {"timestamp": -1} if sent.age_ms is None else {"timestamp": now_ms - sent.age_ms}
        stamp |= {"step_ms": 0 if sent.age_ms is None else sent.step_ms, "codec": sent.codec}
        if kind == "nobody":
            return batch(count, **stamp)
        epoch, sequence = self._next[producer]
        is_open = producer in self._open
        if kind == "again" and producer in self._sent:
            epoch, sequence, count, was_open = self._sent[producer]
            return batch_of(was_open, producer, sequence, count, epoch=epoch, **stamp)
        if kind == "gap":
            return batch_of(is_open, producer, (sequence + 1) & LAST_SEQUENCE, count, epoch=epoch, **stamp)
        if kind == "old epoch":
            return batch_of(is_open, producer, sequence, count, epoch=epoch - 1, **stamp)
        if kind == "outside" and is_open:
            return batch_of(False, producer, sequence, count, epoch=epoch, **stamp)
        if kind == "epoch":
            epoch, sequence = epoch + 1, 0
        if kind == "begin":
            self._open.add(producer)
        is_open = producer in self._open
        self._next[producer] = (epoch, (sequence + count) & LAST_SEQUENCE)
        self._sent[producer] = (epoch, sequence, count, is_open)
        return batch_of(is_open, producer, sequence, count, epoch=epoch, **stamp)

    def marker_of(self, ended: Ended) -> bytearray:
        epoch, sequence = self._next[ended.producer]
        self._open.discard(ended.producer)
        if ended.transaction_version == 2:
            epoch, sequence = epoch + 1, 0
        self._next[ended.producer] = (epoch, sequence)
        return marker(ended.producer, commit=ended.is_commit, epoch=epoch)


def batch_of(is_transactional: bool, *args: Any, **fields: Any) -> bytearray:
    return (in_transaction if is_transactional else produced_by)(*args, **fields)


def told(results: list[AppendResult]) -> list[object]:
    return [(each._replace(error=None), type(each.error), str(each.error)) for each in results]


def pass_by(sim: SimLog, passed: Passed) -> None:
    log, amount = sim.log, passed.amount
    if passed.kind == "watermark":
        log.update_high_watermark(min(amount, log.log_end_offset))
    elif passed.kind == "clock":
        sim.world.clock.advance(amount * 1000)
    elif passed.kind == "expiry":
        sim.world.clock.advance(2 * 86_400_000)
        log.producers.remove_expired(sim.world.env.clock.now_ms())
    elif passed.kind == "restart":
        sim.kill_and_open()
    elif passed.kind == "cut":
        log.truncate_to(min(amount, log.log_end_offset))
    else:
        log.roll()


def seen(sim: SimLog) -> dict[str, object]:
    """Everything that appends leave behind."""
    log, producers = sim.log, sim.log.producers
    return {
        "producers": list(producers.producers.items()),
        "ongoing": producers.ongoing,
        "ends": (producers.map_end_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
        "aborted": log.aborted_transactions(0, 1 << 40),
        "segments": bases(log),
        "snapshots": {name: file_bytes(sim.world, name) for name in sim.names() if name.endswith(".snapshot")},
        "bytes": bytes_of(log),
    }


def always_the_long_way(sim: SimLog) -> Any:
    return mock.patch.object(sim.log._appender, "_follows", return_value=False)


@pytest.mark.spec("LS-29")
@settings(max_examples=examples(150))
@given(st.lists(STEPS, max_size=14), st.sampled_from([1000, 1 << 20]), st.booleans())
def test_sets_together_are_as_sets_alone(plan: list[Any], segment_bytes: int, stamps: bool) -> None:
    config = with_config(segment_bytes=segment_bytes, segment_ms=3000, segment_jitter_ms=0)
    if stamps:
        config = with_config(config, message_timestamp_type="LogAppendTime")
    together, alone = SimLog(config), SimLog(config)
    sender = Sender()
    for step in plan:
        if isinstance(step, Passed):
            pass_by(together, step)
            pass_by(alone, step)
        elif isinstance(step, Ended):
            records = sender.marker_of(step)
            for sim in (together, alone):
                if step.fails and not step.is_commit:
                    sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC)
                version = step.transaction_version
                sim.log.append_as_leader([bytearray(records)], 0, Origin.COORDINATOR, NO_GUARD, version)
                sim.tape.heal()
        else:
            sets = [sender.records_of(sent, together.world.env.clock.now_ms()) for sent in step]
            with always_the_long_way(alone):
                each = [told(alone.log.append_as_leader([bytearray(records)], 0)) for records in sets]
            assert told(together.log.append_as_leader(sets, 0)) == [result for [result] in each]
        assert seen(together) == seen(alone)
    assert seen_after_a_kill(together) == seen_after_a_kill(alone)


def seen_after_a_kill(sim: SimLog) -> dict[str, object]:
    sim.kill_and_open()
    return seen(sim)
