"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester", "suite.spec_marks", "suite.recorder", "suite.scheduler", "suite.seeds"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--against-kafka",
        nargs="?",
        const="start",
        metavar="HOST:PORT",
        help="try the clients on a real Apache Kafka instead of Tailrace: one that is started, or the one named",
    )
    parser.addoption(
        "--record-kafka",
        action="store_true",
        help="record the responses of a real Apache Kafka again (make record-kafka)",
    )
