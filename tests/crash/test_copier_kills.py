"""A real broker is killed with SIGKILL under transactional copiers, as `support.stress.copier_kills` describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tailrace
from support.kafka.killable import KafkaVictim
from support.stress.copier_kills import SETTINGS, CopierStorm

KILLS = int(os.environ.get("COPIER_KILLS", "5"))
SEED = 4


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_copy_made_in_transactions_equals_the_original(
    protocol: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    if pytestconfig.getoption("--against-kafka"):
        with KafkaVictim(tmp_path, SETTINGS) as kafka:
            figures = CopierStorm(kafka, SEED, protocol).run(KILLS)
    else:
        broker = tailrace.Broker(SETTINGS, data_dir=tmp_path / "data")  # kept: a difference can be looked into
        try:
            figures = CopierStorm(broker, SEED, protocol).run(KILLS)
        finally:
            broker.close()
    print(figures)
    assert not figures.differences, "\n".join(figures.differences)
    assert figures.kills == KILLS
    assert figures.fed > 100 * KILLS
    assert figures.committed
    assert figures.aborted
