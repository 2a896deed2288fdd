"""Our broker's directory, audited while it is written, rolled, compacted and deleted, and after a stop and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.audit.live_brokers import AuditedBrokerCases
from support.spark.live_directories import SETTINGS
from tailrace.testing.broker import Broker

pytestmark = pytest.mark.long


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def address(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def directory(broker: Broker) -> Path:
    return broker.data_dir


class TestAuditOfABusyBroker(AuditedBrokerCases):
    pass
