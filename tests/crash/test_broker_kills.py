"""A real broker under load is killed with SIGKILL, again and again, as `support.stress.broker_kills` describes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tailrace
from support.kafka.killable import KafkaVictim
from support.stress.broker_kills import BROKER_SETTINGS, Storm, Victim

KILLS = int(os.environ.get("BROKER_KILLS", "50"))
SEED = 5


@contextmanager
def victim(config: pytest.Config, folder: Path) -> Iterator[Victim]:
    if config.getoption("--against-kafka"):
        with KafkaVictim(folder, BROKER_SETTINGS) as kafka:
            yield kafka
        return
    broker = tailrace.Broker(BROKER_SETTINGS)
    try:
        yield broker
    finally:
        broker.close()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_or_doubled_by_killed_brokers(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    with victim(pytestconfig, tmp_path) as broker:
        figures = Storm(broker, SEED).run(KILLS)
    print(figures)
    assert not figures.differences, "\n".join(figures.differences)
    assert figures.kills == KILLS
    assert figures.acknowledged == figures.sent > 100 * KILLS
    assert figures.topics
