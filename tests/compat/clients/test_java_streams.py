"""Kafka Streams' own example counts words exactly once, though it is killed on the way."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_driver import Message
from client_servers import Server

from support.kafka.tools import KAFKA_SCRIPT

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
SOURCE, TARGET = "streams-plaintext-input", "streams-wordcount-output"  # which the demo does not let one choose
PARTITIONS = 2
PATIENCE_S = 90
LINES = [f"all streams lead to kafka and line {n % 7} says so" for n in range(60)]


@contextmanager
def demo(properties: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (properties.parent / "demo.log").open("ab") as log:
        process = subprocess.Popen([str(KAFKA_SCRIPT), "streams", DEMO, str(properties)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(params=["classic", "streams"])
def properties(request: pytest.FixtureRequest, server: Server, helper: Any, tmp_path: Path) -> Iterator[Path]:
    for topic in (SOURCE, TARGET):
        helper.create_topic(topic, partitions=PARTITIONS)
    file = tmp_path / "wordcount.properties"
    settings = {
        "bootstrap.servers": server.address,
        "application.id": f"wordcount-{request.param}",
        "processing.guarantee": "exactly_once_v2",
        "group.protocol": request.param,
        "state.dir": str(tmp_path / "state"),
        "num.stream.threads": "2",
        "commit.interval.ms": "100",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    if request.param == "streams":
        del settings["session.timeout.ms"], settings["heartbeat.interval.ms"]  # the broker says them
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    yield file
    for topic in helper.topics():
        if topic in (SOURCE, TARGET) or topic.startswith("wordcount-"):
            helper.delete_topic(topic)


def counted(helper: Any) -> list[tuple[str, int]]:
    """What the demo has said and committed, in the order of each word."""
    found = [each for partition in range(PARTITIONS) for each in helper.read_records_to_end(TARGET, partition)]
    return [(each.key.decode(), struct.unpack(">q", each.value)[0]) for each in found]


def wait_for(helper: Any, words: Counter[str], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while dict(counted(helper)) != dict(words):
        assert process.poll() is None, "the demo has ended"
        assert time.monotonic() < deadline, Counter(dict(counted(helper)))
        time.sleep(0.5)


def test_words_are_counted_exactly_once(properties: Path, helper: Any) -> None:
    def say(lines: list[str]) -> None:
        for partition in range(PARTITIONS):
            helper.produce(
                SOURCE, [Message(line.encode()) for line in lines[partition::PARTITIONS]], partition=partition
            )

    half = len(LINES) // 2
    first, all_words = (Counter(word for line in lines for word in line.split()) for lines in (LINES[:half], LINES))
    with demo(properties) as process:
        say(LINES[:half])
        wait_for(helper, first, process)
        say(LINES[half : half + 10])
        process.send_signal(signal.SIGKILL)
        process.wait()
    with demo(properties) as process:
        say(LINES[half + 10 :])
        wait_for(helper, all_words, process)
        process.send_signal(signal.SIGTERM)
        assert os.WEXITSTATUS(process.wait(PATIENCE_S) << 8) in (0, 128 + signal.SIGTERM)
    # Every count of every word was said, once: neither the kill nor the new start has shown in what is committed.
    assert Counter(counted(helper)) == Counter((word, n + 1) for word, count in all_words.items() for n in range(count))
