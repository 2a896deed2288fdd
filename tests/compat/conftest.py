"""Fixtures of the tests that foreign software judges."""

from __future__ import annotations

import pytest

from support.kafka.tools import why_unavailable


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Skips where Kafka's own tools cannot run; the reason is printed with the results."""
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
