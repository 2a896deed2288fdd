"""Any life of compacted logs, struck by a crash at any file operation: readers and producers find what they must.

`TAILRACE_COMPACTION_CRASH_POINTS` says how many crash points the long test takes.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from itertools import chain, count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from suite.seeds import examples
from support.compaction.harness import Operation, Rig
from support.compaction.scenarios import POLICIES, SHAPES

CRASH_POINTS = int(os.environ.get("TAILRACE_COMPACTION_CRASH_POINTS", "10500"))
FEW_CRASH_POINTS = 300
CORE_SEED = 0  # of the first round of every run

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

    for round_seed in chain([CORE_SEED], count(first_seed)):
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
def first_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run; `suite.seeds` sets the option of Hypothesis."""
    return int(request.config.getoption("--hypothesis-seed") or 0)


def test_a_cleaned_batch_is_still_where_its_transaction_began() -> None:
    """A producer snapshot says so, when a crash in a truncation has left that to be seen."""
    sequence = [
        ("write", 1, 0),
        ("write", 8, 1),
        ("end_transactions", 31757),
        ("clean", 0),
        ("crash", 1, ("truncate", 0.0, 1), 0),
        ("write", 1, 0),
        ("truncate", 0.5, 0),
    ]
    assert live(0, sequence)["checkpoint"] == 1


def test_a_leader_epoch_may_begin_after_the_end_of_a_log_that_lost_its_records() -> None:
    """DeleteRecords moved the start of the epoch; then power loss took every record."""
    sequence = [
        ("crash", 11, ("nothing", 0), 0),
        ("write", 1, 3),
        ("high_watermark", 0),
        ("delete_records", 0.0, 0),
        ("delete_records", 1.0, 0),
        ("jobs", 1, 16),
    ]
    assert live(1, sequence).total() == 1


def test_records_that_a_crash_brings_back_are_not_taken_for_clean() -> None:
    """DeleteRecords removed them, and the start of the log was not durable when power was lost."""
    for operation in range(1, 30):
        sequence = [
            ("crash_in_retention", 15, 0.0, 0),
            ("write", 5, 0),
            ("delete_records", 1.0, 0),
            ("crash", operation, ("nothing", 0), 0),
            ("time", 1, 0),
        ]
        assert live(0, sequence).total() >= 1


def test_a_marker_of_a_forgotten_producer_leaves_no_sequence() -> None:
    """DeleteRecords removed its records, and a crash its snapshot: the log refuses its next batch, as Kafka does."""
    sequence = [("write", 1, 1), ("crash_in_retention", 1, 1.0, 0), ("clean", 1), ("write", 1, 1)]
    assert live(0, sequence).total() == 1


def test_a_truncation_fails_if_its_checkpoint_cannot_be_written() -> None:
    """The log is untouched then, and its directory offline until the broker starts again."""
    fault = ("fault", "write", "*", errno.EIO, 0, ("truncate", 0.0, 0), 0)
    assert live(0, [("write", 1, 0), fault]).total() == 0


def test_an_aborted_transaction_that_a_full_disk_kept_out_of_its_index_becomes_stable() -> None:
    """Also where nothing more is written: the log tries again after some time."""
    fault = ("fault", "open", "*.txnindex", errno.ENOSPC, 0, ("end_transactions", 2), 0)
    assert live(0, [("write", 8, 0), fault]).total() == 0


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
