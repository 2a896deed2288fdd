"""A scripted broker with a topic for the readers of pieces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.scripted import Log, ScriptedBroker
from support.spark.scripted_pieces import batch_of
from tailrace.spark.source.brokers import links, piece_fetcher


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is gone is believed soon, and no link is kept for the next test."""
    monkeypatch.setattr(piece_fetcher, "GONE_AFTER_S", 0.1)
    yield
    links.POOL.close()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def log(broker: ScriptedBroker) -> Log:
    """Batches of ten records, up to offset 100."""
    (log,) = broker.add_topic("t")
    for first in range(0, 100, 10):
        log.append(batch_of(first))
    return log
