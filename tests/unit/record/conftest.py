"""The judges of the record format: kafka-python, and batches that Apache Kafka wrote.

Importing kafka-python warns of its own use of importlib, which is not ours to fix.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kafka.record.memory_records  # noqa: F401


@pytest.fixture(scope="session")
def kafka_batches() -> dict[str, bytes]:
    """Batches by name; the head of the file says how each was made."""
    lines = Path(__file__).with_name("kafka_batches.txt").read_text().splitlines()
    return {name: bytes.fromhex(data) for name, data in (line.split() for line in lines if not line.startswith("#"))}
