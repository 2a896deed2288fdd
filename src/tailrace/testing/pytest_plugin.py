"""Fixtures for tests that need a broker; pytest finds them by itself where Tailrace is installed.

    def test_orders(tailrace_broker, tailrace_topic):
        producer = Producer({"bootstrap.servers": tailrace_broker.bootstrap_servers})
        producer.produce(tailrace_topic, b"two apples")

Nothing is imported and nothing starts before a test asks for it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tailrace.testing.broker import Broker

LONGEST_STEM: Final = 200  # a topic's name has at most 249 characters


@pytest.fixture(scope="session")
def tailrace_settings() -> Mapping[str, object]:
    """The broker's settings. Override it in a conftest.py to have others."""
    return {}


@pytest.fixture(scope="session")
def tailrace_broker(tailrace_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A running broker, one for all tests of the session."""
    from tailrace.testing.broker import Broker

    with Broker(tailrace_settings) as broker:
        yield broker


@pytest.fixture
def tailrace_topic(tailrace_broker: Broker, request: pytest.FixtureRequest) -> str:
    """The name of a fresh topic with one partition, for this test alone."""
    stem = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:LONGEST_STEM].strip("-")
    return tailrace_broker.create_topic(f"{stem}-{uuid.uuid4().hex[:8]}")
