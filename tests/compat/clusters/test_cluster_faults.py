"""A cluster of real processes under random faults, as `support.stress.cluster_faults` describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.seeds import fresh_seed
from support.stress.cluster_faults import run

FAULTS = int(os.environ.get("CLUSTER_FAULTS", "20"))


@pytest.mark.spec("RP-21")
@pytest.mark.long
@pytest.mark.timeout(300 + 20 * FAULTS)
def test_nothing_acknowledged_is_lost_and_all_images_agree(tmp_path: Path) -> None:
    figures = run(tmp_path, fresh_seed(), FAULTS)
    figures.differences += [] if figures.kills >= FAULTS else [f"only {figures.kills} faults"]
    figures.assert_passed(figures.kills)
    assert min(figures.acknowledged_topics, figures.acknowledged_settings, figures.records) > FAULTS
    assert figures.acknowledged_voters > 0
