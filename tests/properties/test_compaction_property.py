"""Any life of compacted logs, struck by a crash at any file operation: readers and producers find what they must.

`TAILRACE_COMPACTION_CRASH_POINTS` says how many crash points the long test takes.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from suite.seeds import examples, seeds
from support.compaction.harness import Operation, Rig
from support.compaction.scenarios import POLICIES, SHAPES

CRASH_POINTS = int(os.environ.get("TAILRACE_COMPACTION_CRASH_POINTS", "10500"))
FEW_CRASH_POINTS = 300

salts = st.integers(0, 2**16)
parts = st.floats(0, 1)
writes = st.tuples(st.just("write"), st.integers(1, 12), salts)
cleans = st.tuples(st.just("clean"), salts)
sound_operations = st.one_of(
    st.tuples(st.just("nothing"), st.just(0)),
    writes,
    writes,
    writes,
    writes,
    writes,
    cleans,
    cleans,
    st.tuples(st.just("end_transactions"), salts),
    st.tuples(st.just("high_watermark"), salts),
    st.tuples(st.just("roll"), salts),
    st.tuples(st.just("jobs"), st.integers(1, 30), salts),
    st.tuples(st.just("time"), st.sampled_from([1, 60, 600, 1500, 5000]), salts),
    st.tuples(st.just("delete_records"), parts, salts),
    st.tuples(st.just("retention"), salts),
    st.tuples(st.just("truncate"), parts, salts),
    st.tuples(st.just("flush"), salts),
    st.tuples(st.just("checkpoint"), salts),
    st.tuples(st.just("policy"), st.sampled_from(POLICIES), salts),
    st.tuples(st.just("check"), salts),
    st.tuples(st.just("resend"), salts),
    st.tuples(st.just("shutdown"), salts),
    st.tuples(st.just("kill"), salts),
    st.tuples(st.just("power"), salts),
)
struck = st.one_of(
    st.tuples(st.just("crash_in_clean"), st.integers(1, 80), salts),
    st.tuples(st.just("crash_in_clean"), st.integers(1, 80), salts),
    st.tuples(st.just("crash"), st.integers(1, 60), sound_operations, salts),
    st.tuples(st.just("crash"), st.integers(1, 60), sound_operations, salts),
    st.tuples(st.just("crash_in_retention"), st.integers(1, 40), parts, salts),
)
failing = st.tuples(
    st.just("fault"),
    st.sampled_from(["write", "sync", "sync_dir", "rename", "unlink", "truncate", "create", "open", "read", "map"]),
    st.sampled_from(["*", "*", "*.log*", "*.index*", "*.txnindex*", "*.snapshot*", "*checkpoint*", "*.cleaned"]),
    st.sampled_from([errno.EIO, errno.ENOSPC]),
    st.integers(0, 12),
    sound_operations,
    salts,
)
operations = st.one_of(sound_operations, sound_operations, sound_operations, struck, struck, struck, failing)


def live(seed: int, sequence: list[Operation]) -> Counter[str]:
    """Returns where crashes fell."""
    rig = Rig(seed, SHAPES[seed % len(SHAPES)])
    for operation in sequence:
        rig.apply(operation)
    rig.finish()
    return rig.struck


def explore(crash_points: int, first_seed: int) -> Counter[str]:
    fell: Counter[str] = Counter()
    has_failed = False

    @settings(
        max_examples=examples(100),
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(seed=st.integers(0, 2**32), sequence=st.lists(operations, min_size=25, max_size=60))
    def lives(seed: int, sequence: list[Operation]) -> None:
        nonlocal has_failed
        if fell.total() >= crash_points and not has_failed:
            return
        try:
            fell.update(live(seed, sequence))
        except BaseException:
            has_failed = True
            raise

    for round_seed in count(first_seed):
        if fell.total() >= crash_points:
            break
        seeded(round_seed)(lives)()
    print(f"{fell.total()} crash points: {dict(fell.most_common())}")
    return fell


def check_is_not_idle(fell: Counter[str]) -> None:
    """Enough of them fell where it matters."""
    total = fell.total()
    assert fell["rewrite"] + fell["swap"] >= total / 12, fell
    assert fell["retention"] + fell["deletion"] >= total / 40, fell
    assert fell["load"] >= total / 12, fell
    assert fell["append"] >= total / 20, fell


ITEMS = ("LM-13", "LM-19", "LM-20", "LM-21", "LM-26", "LM-36", "LM-41", "LM-42", "LM-43")


@pytest.fixture
def first_seed() -> int:
    """The first of the core seeds, or TAILRACE_SEEDS."""
    return seeds(core=1, fresh=0)[0]


@pytest.mark.spec(*ITEMS)
def test_some_lives_with_crashes_go_on_as_the_model_says(first_seed: int) -> None:
    assert explore(FEW_CRASH_POINTS, first_seed).total() >= FEW_CRASH_POINTS


@pytest.mark.long
@pytest.mark.spec(*ITEMS)
@pytest.mark.timeout(3600)
def test_a_crash_at_any_file_operation_shows_no_reader_and_no_producer_what_cannot_be(first_seed: int) -> None:
    fell = explore(CRASH_POINTS, first_seed)
    assert fell.total() >= CRASH_POINTS
    check_is_not_idle(fell)
