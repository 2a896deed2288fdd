"""A real broker under load is killed with SIGKILL, again and again, as `support.stress.broker_kills` describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.seeds import fresh_seed
from support.kafka.killable import killable_broker
from support.stress.broker_kills import BrokerKills
from support.stress.killed_brokers import BROKER_SETTINGS

KILLS = int(os.environ.get("BROKER_KILLS", "50"))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_or_doubled_by_killed_brokers(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    kafka = tmp_path if pytestconfig.getoption("--against-kafka") else None
    with killable_broker(BROKER_SETTINGS, kafka) as broker:
        figures = BrokerKills(broker, fresh_seed(), KILLS).run()
    figures.assert_passed(KILLS)
    assert figures.acknowledged == figures.sent > 100 * KILLS
    assert figures.topics
