"""Holes in the offsets between two segments: a loss after a crash, unless the log can prove that they were meant."""

from __future__ import annotations

import pytest

from support.logs.crash_harness import Rig, brief, items_of


@pytest.mark.spec("LS-13", "LS-48")
def test_a_followers_gap_before_a_new_segment_survives_a_kill() -> None:
    rig = Rig(1)
    rig.apply(("append", [900, 900, 900], None))
    rig.apply(("follow", 900, 40))
    assert len(rig.log.local.segments) == 2
    assert rig.content[-1].first == rig.content[-2].last + 41
    rig.apply(("kill",))
    assert items_of(rig.log) == rig.content


@pytest.mark.spec("LS-33")
def test_a_new_segment_behind_a_batch_that_was_cut_through_survives_a_kill() -> None:
    rig = Rig(1)
    rig.apply(("append", [50, 50, 50], None))
    cut_through = rig.content[-1]
    rig.apply(("truncate", 1.0, True))
    assert rig.log.log_end_offset == cut_through.last > rig.content[-1].last + 1
    rig.apply(("roll",))
    rig.apply(("append", [100], None))
    rig.apply(("kill",))
    assert brief(items_of(rig.log))[-1][0] == cut_through.last


@pytest.mark.spec("LS-25")
def test_a_hole_left_by_lost_power_ends_the_log() -> None:
    """Segment 1 is on the disk, the last batches of segment 0 are not: what follows them must go too."""
    for seed in range(60):
        rig = Rig(seed)
        rig.apply(("append", [300, 300], None))
        rig.apply(("roll",))
        rig.apply(("append", [300], None))
        rig.world.disk.crash()
        rig.lose_power()
