"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

from __future__ import annotations

import pytest

pytest_plugins = [
    "pytester",
    "suite.spec_marks",
    "suite.recorder",
    "suite.scheduler",
    "suite.seeds",
    "suite.spark_classes",
    "suite.early_imports",
    "suite.interrupts",
    "suite.unclosed_sockets",
]


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
    parser.addoption("--by-hand", action="store_true", help="run only the tests that are run by hand")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_wanted = config.getoption("--by-hand")
    others = [item for item in items if (item.get_closest_marker("by_hand") is not None) != is_wanted]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]
