"""Readers go to an offset or to a time, learn where a log starts and ends, and are told when they ask beyond it."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_driver import Message, Reader

pytestmark = pytest.mark.compat

T0 = 1_700_000_000_000
COUNT = 400
STEP_MS = 10


@pytest.fixture(scope="session")
def filled(driver_named: Any) -> str:
    """A topic with a record every ten milliseconds, in batches of several codecs, that starts at offset 40."""
    helper = driver_named("confluent-kafka")
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    helper.create_topic(name)
    for n, codec in enumerate(("none", "lz4", "gzip", "zstd")):
        part = range(n * COUNT // 4, (n + 1) * COUNT // 4)
        helper.produce(name, [Message(b"%d" % i, None, T0 + STEP_MS * i) for i in part], codec=codec)
    helper.delete_records(name, 40)
    return name


@pytest.mark.parametrize("offset", [40, 41, 150, 399])
def test_seek_to_an_offset(reader: Reader, filled: str, offset: int) -> None:
    found = reader.read(filled, min(5, COUNT - offset), offset=offset)
    assert [(each.offset, each.value) for each in found] == [
        (n, b"%d" % n) for n in range(offset, min(offset + 5, COUNT))
    ]


def test_seek_to_and_fro(reader: Reader, filled: str) -> None:
    offsets = [300, 40, 399, 250, 251, 41]
    assert [(each.offset, each.value) for each in reader.read_at_each(filled, offsets)] == [
        (n, b"%d" % n) for n in offsets
    ]


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [
        (T0 - 1, 40),
        (T0 + STEP_MS * 100, 100),
        (T0 + STEP_MS * 100 + 1, 101),
        (T0 + STEP_MS * 255, 255),
        (T0 + STEP_MS * 399, 399),
    ],
)
def test_seek_to_a_time(teller: Any, filled: str, timestamp_ms: int, offset: int) -> None:
    assert teller.offset_at(filled, timestamp_ms) == offset
    if hasattr(teller, "read"):
        assert teller.read(filled, 1, offset=offset)[0].timestamp_ms >= timestamp_ms


def test_no_record_is_that_young(teller: Any, filled: str) -> None:
    beyond = {"kafkajs": COUNT}  # it turns the answer into the log's end
    assert teller.offset_at(filled, T0 + STEP_MS * COUNT) == beyond.get(teller.name)


def test_bounds(teller: Any, filled: str) -> None:
    assert teller.bounds(filled) == (40, COUNT)


@pytest.mark.parametrize("offset", [0, 39, COUNT + 1])
def test_an_offset_out_of_range_is_refused(reader: Reader, filled: str, offset: int) -> None:
    """Each library has a word of its own for it; what the record would be none of them makes up."""
    with pytest.raises(Exception, match=r"(?i)out.?of.?range|no.?offset.?for.?partition|no suitable offset"):
        reader.read(filled, 1, offset=offset)


def test_a_reader_at_the_end_gets_what_comes(reader: Reader, topic: str, helper: Any) -> None:
    helper.produce(topic, [Message(b"before")])
    assert reader.bounds(topic) == (0, 1)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(reader.read, topic, 3, offset=1)
        for n in range(3):
            helper.produce(topic, [Message(b"%d" % n)])
        assert [each.value for each in reading.result()] == [b"0", b"1", b"2"]
