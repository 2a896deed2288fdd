"""Any sequence of operations on a log, with power lost at any file operation: what comes back is a log it was."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.crash_harness import CONFIGS, Operation, Rig
from tailrace.sim.faults import SimulatedCrash

CRASH_POINTS = int(os.environ.get("TAILRACE_CRASH_POINTS", "10500"))

parts = st.floats(0, 1)
sound_operations = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(1, 900), min_size=1, max_size=4), st.none()),
    st.tuples(st.just("append"), st.lists(st.integers(1, 300), min_size=1, max_size=2), st.integers(1, 4)),
    st.tuples(st.just("marker"), st.sampled_from([2, 4]), st.booleans()),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("jobs"), st.integers(1, 6)),
    st.tuples(st.just("time"), st.sampled_from([1, 50, 1100])),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("high_watermark")),
    st.tuples(st.just("log_start"), parts),
    st.tuples(st.just("retain"), st.sampled_from([-1, 0, 60]), st.sampled_from([-1, -1, 0, 2000, 6000]), st.booleans()),
    st.tuples(st.just("truncate"), parts, st.booleans()),
    st.tuples(st.just("cut"), parts, st.booleans()),
    st.tuples(st.just("start_over"), st.integers(0, 5)),
    st.tuples(st.just("follow"), st.integers(1, 900), st.sampled_from([0, 0, 3])),
    st.tuples(st.just("restart_at"), st.integers(0, 5)),
    st.tuples(st.just("close"), st.booleans(), st.booleans()),
    st.tuples(st.just("abandon")),
    st.tuples(st.just("kill")),
)
failing = st.tuples(
    st.just("fault"),
    st.sampled_from(["write", "sync", "sync_dir", "rename", "unlink", "truncate", "create", "open", "read", "map"]),
    st.sampled_from(["*", "*", "*.log", "*.index", "*.txnindex", "*.snapshot", "*checkpoint*"]),
    st.sampled_from([errno.EIO, errno.ENOSPC]),
    st.integers(0, 6),
    sound_operations,
)
operations = st.one_of(sound_operations, sound_operations, sound_operations, failing)


def run(seed: int, sequence: list[Operation], crash_at: int | None) -> int:
    """Returns how many file operations the sequence takes; with `crash_at` it ends in a recovery there."""
    rig = Rig(seed, CONFIGS[sorted(CONFIGS)[seed % len(CONFIGS)]])
    if crash_at is not None:
        rig.world.disk.crash_at(crash_at)
    try:
        for operation in sequence:
            rig.apply(operation)
    except SimulatedCrash:
        rig.lose_power()
        rig.go_on()
    return rig.world.disk.ops


def crash_everywhere(seed: int, sequence: list[Operation], first: int) -> int:
    total = run(seed, sequence, None)
    for crash_at in range(first, total + 1):
        run(seed, sequence, crash_at)
    return max(total - first + 1, 0)


@pytest.mark.long
@pytest.mark.spec("LS-21", "LS-25", "LS-33", "LS-46", "LS-52", "LM-36")
@pytest.mark.timeout(1800)
def test_a_crash_at_any_file_operation_leaves_a_log_that_was() -> None:
    tried = 0
    opening_ops = max(run(seed, [], None) for seed in range(len(CONFIGS)))

    @settings(max_examples=examples(100), database=None, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 2**32), sequence=st.lists(operations, min_size=4, max_size=24))
    def explore(seed: int, sequence: list[Operation]) -> None:
        nonlocal tried
        if tried < CRASH_POINTS:
            tried += crash_everywhere(seed, sequence, opening_ops + 1)

    while tried < CRASH_POINTS:
        explore()
    print(f"{tried} crash points")
