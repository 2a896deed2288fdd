"""Kafka and Tailrace receive the same requests: the responses match, except for `support.requests.known_differences`.

`make test` compares with recorded responses of Kafka. `make test-long` compares with a running Kafka, and its responses
with the recorded ones. `make record-kafka` records them again.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from support.clients.raw_client import RawClient
from support.conversations.series import CONVERSATIONS, REQUESTS, SETTINGS, SIMULATED, Series, Server, furnished
from support.hostile.request_load import controller_listener
from support.kafka.recordings import changes, disagreements, load, recorded_series, save
from support.requests.known_differences import KNOWN_DIFFERENCES, Known

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import SETTINGS as SETTINGS_OF_KAFKA
    from golden.broker import Broker
    from support.kafka.client import free_port

import tailrace

pytestmark = pytest.mark.timeout(300)

COMPATIBILITY = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
UNSUPPORTED_VERSION = 35
RECORDED = [each for each in CONVERSATIONS if each.name.partition("/")[0] not in SIMULATED]


class Pair(NamedTuple):
    """Servers that received the same requests, and no others."""

    kafka: Server
    ours: Server


class Comparison(NamedTuple):
    """The series that were compared with a running Kafka, and the known differences that were found."""

    series: set[str]
    seen: set[Known]


@contextmanager
def our_server() -> Iterator[Server]:
    """A broker with the settings of the Kafka that it is compared with."""
    with (
        tailrace.Broker(SETTINGS_OF_KAFKA | SETTINGS) as broker,
        RawClient(broker.bootstrap_servers) as client,
        RawClient("{}:{}".format(*controller_listener(client))) as controller,
    ):
        yield Server(client, controller, furnished(client))


@contextmanager
def kafka_server(folder: Path) -> Iterator[Server]:
    with (
        Broker(folder, free_port(), SETTINGS) as broker,
        RawClient(broker.address) as client,
        RawClient(f"127.0.0.1:{broker.port + 1}") as controller,
    ):
        yield Server(client, controller, furnished(client))


@pytest.fixture(scope="module")
def ours_for_requests() -> Iterator[Server]:
    with our_server() as server:
        yield server


@pytest.fixture(scope="module")
def ours_for_conversations() -> Iterator[Server]:
    with our_server() as server:
        yield server


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    with kafka_server(folder) as kafka, our_server() as ours:
        yield Pair(kafka, ours)


@pytest.fixture(scope="module")
def pair_for_requests(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("kafka")) as both:
        yield both


@pytest.fixture(scope="module")
def pair_for_conversations(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("kafka")) as both:
        yield both


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return Comparison(set(), set())


# -- with recorded responses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", REQUESTS, ids=lambda each: each.name)
def test_responses_to_requests_match_the_recording(ours_for_requests: Server, series: Series) -> None:
    check_recorded(series, ours_for_requests)


@pytest.mark.parametrize("series", RECORDED, ids=lambda each: each.name)
def test_responses_in_conversations_match_the_recording(ours_for_conversations: Server, series: Series) -> None:
    check_recorded(series, ours_for_conversations)


def check_recorded(series: Series, ours: Server) -> None:
    found = disagreements(series.name, load(series.name), series.conduct(ours), set())
    assert not found, "\n".join(found)


def test_every_recording_is_used() -> None:
    assert recorded_series() == {each.name for each in (*REQUESTS, *CONVERSATIONS)}


def test_unknown_api_versions_are_answered_with_unsupported_version() -> None:
    """Without such a response in the recording, the comparison would prove little."""
    codes = [each.response["error_code"] for each in load("future-api-versions") if each.response != "closed"]
    assert UNSUPPORTED_VERSION in codes


# -- with a running Kafka --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.parametrize("series", REQUESTS, ids=lambda each: each.name)
def test_responses_to_requests_match_a_running_kafka(
    pair_for_requests: Pair, series: Series, comparison: Comparison, pytestconfig: pytest.Config
) -> None:
    check_running(series, pair_for_requests, comparison, pytestconfig)


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.parametrize("series", CONVERSATIONS, ids=lambda each: each.name)
def test_responses_in_conversations_match_a_running_kafka(
    pair_for_conversations: Pair, series: Series, comparison: Comparison, pytestconfig: pytest.Config
) -> None:
    check_running(series, pair_for_conversations, comparison, pytestconfig)


def check_running(series: Series, pair: Pair, comparison: Comparison, config: pytest.Config) -> None:
    """Compare our responses with those of a running Kafka, and these with the recorded ones."""
    with ThreadPoolExecutor(2) as both:  # much of it is waiting
        theirs, own = both.map(series.conduct, pair)
    if config.getoption("--record-kafka"):
        save(series.name, theirs)
    found = disagreements(series.name, theirs, own, comparison.seen)
    found += changes(series.name, load(series.name), theirs)
    assert not found, "\n".join(found)
    comparison.series.add(series.name)


@pytest.mark.long
@pytest.mark.compat
def test_every_known_difference_is_found(comparison: Comparison) -> None:
    if comparison.series != {each.name for each in (*REQUESTS, *CONVERSATIONS)}:
        pytest.skip("needs all responses to agree first")
    assert [known for known in KNOWN_DIFFERENCES if known not in comparison.seen] == []


def test_every_known_difference_is_in_the_documentation() -> None:
    text = COMPATIBILITY.read_text()
    sections = set(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    missing = {known.section for known in KNOWN_DIFFERENCES} - sections
    assert not missing
