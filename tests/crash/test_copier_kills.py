"""A real broker is killed with SIGKILL under transactional copiers, as `support.stress.copier_kills` describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.seeds import fresh_seed
from support.kafka.killable import killable_broker
from support.stress.copier_kills import PROTOCOLS, SETTINGS, CopierKills

KILLS = int(os.environ.get("COPIER_KILLS", "5"))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_copy_made_in_transactions_equals_the_original(
    protocol: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    kafka = tmp_path if pytestconfig.getoption("--against-kafka") else None
    with killable_broker(SETTINGS, kafka, data_dir=tmp_path / "data") as broker:
        figures = CopierKills(broker, fresh_seed(), KILLS, protocol).run()
    figures.assert_passed(KILLS)
    assert figures.fed > 100 * KILLS
    assert figures.committed
    assert figures.aborted
