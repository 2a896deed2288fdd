"""The directory of a real Kafka, read while it is at work."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.spark.live_directories import SETTINGS, LiveDirectoryCases

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port
from tailrace.client.cluster import Cluster

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka"), free_port(), SETTINGS) as broker:
        yield broker


@pytest.fixture
def directory(kafka: Broker) -> Path:
    return kafka.log_dir


@pytest.fixture
def cluster(kafka: Broker) -> Iterator[Cluster]:
    with Cluster(kafka.address) as cluster:
        yield cluster


class TestLiveDirectory(LiveDirectoryCases):
    pass
