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
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from support.brokers.threaded import ThreadedBroker
from support.clients.raw_client import NoAnswer, RawClient
from support.conversations.quorum_requests import QUORUM_SETTINGS, quorum_facts
from support.conversations.series import (
    CONVERSATIONS,
    QUORUM,
    REQUESTS,
    SETTINGS,
    SIMULATED,
    Series,
    Server,
    furnished,
    identified,
)
from support.hostile.request_load import controller_listener
from support.kafka.killable import free_ports
from support.kafka.mixed_cluster import ClusterNode, KafkaNode, TailraceNode, mixed_cluster, wait_for
from support.kafka.recordings import changes, disagreements, load, recorded_series, save
from support.requests.case import ServerFacts
from support.requests.known_differences import KNOWN_DIFFERENCES, Known

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import SETTINGS as SETTINGS_OF_KAFKA
    from golden.broker import Broker
    from support.kafka.client import free_port

import tailrace
from tailrace.metadata.broker_registration import BrokerRegistration

pytestmark = pytest.mark.timeout(300)

COMPATIBILITY = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
UNSUPPORTED_VERSION = 35
REPLICATING = "second-broker"
"""The series in which replicas move to and from the server's own broker."""
ALL_SERIES = (*REQUESTS, *QUORUM, *CONVERSATIONS)
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
        yield Server(client, controller, identified(furnished(client), controller))


@contextmanager
def kafka_server(folder: Path) -> Iterator[Server]:
    with (
        Broker(folder, free_port(), SETTINGS) as broker,
        RawClient(broker.address) as client,
        RawClient(f"127.0.0.1:{broker.port + 1}") as controller,
    ):
        yield Server(client, controller, identified(furnished(client), controller))


@pytest.fixture(scope="module")
def ours_for_requests() -> Iterator[Server]:
    with our_server() as server:
        yield server


@pytest.fixture(scope="module")
def ours_that_replicates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The controller decides as for brokers that can replicate, which ours cannot yet: see `SINGLE_REPLICAS`."""
    settings = {name.replace(".", "_"): text for name, text in (SETTINGS_OF_KAFKA | SETTINGS).items()}
    folder = tmp_path_factory.mktemp("replicating")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrokerRegistration, "can_replicate", True)
        broker = ThreadedBroker(folder, **settings)
        try:
            with (
                RawClient(f"127.0.0.1:{broker.port}") as client,
                RawClient(f"127.0.0.1:{broker.controller_port}") as controller,
            ):
                yield Server(client, controller, identified(furnished(client), controller))
        finally:
            broker.close()


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


@contextmanager
def quorum_server(vendor: type[ClusterNode], folder: Path) -> Iterator[Server]:
    """A node whose voters are in its log, with their directory ids. It is alone."""
    with mixed_cluster(folder, free_ports(20)) as cluster:
        node = cluster.add(vendor, 1, "broker,controller", cluster.initial_controllers(1))
        node.settings |= QUORUM_SETTINGS
        node.start()
        with (
            RawClient(f"127.0.0.1:{node.port}") as client,
            RawClient(f"127.0.0.1:{node.port + 1}") as controller,
        ):
            log_dir = str(node.folder / "log")
            wait_for(partial(is_leading, client, controller, log_dir), "the node leads its quorum", 60)
            yield Server(client, controller, ServerFacts(log_dir))


def is_leading(client: RawClient, controller: RawClient, log_dir: str) -> bool:
    try:
        quorum_facts(client, log_dir)
        quorum_facts(controller, log_dir)
    except (OSError, NoAnswer):
        return False
    return True


@pytest.fixture(scope="module")
def ours_for_the_quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with quorum_server(TailraceNode, tmp_path_factory.mktemp("quorum")) as server:
        yield server


@pytest.fixture(scope="module")
def pair_for_the_quorum(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("quorums")
    with quorum_server(KafkaNode, folder / "kafka") as kafka, quorum_server(TailraceNode, folder / "ours") as ours:
        yield Pair(kafka, ours)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return Comparison(set(), set())


# -- with recorded responses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", REQUESTS, ids=lambda each: each.name)
def test_responses_to_requests_match_the_recording(
    ours_for_requests: Server, series: Series, request: pytest.FixtureRequest
) -> None:
    is_replicating = series.name == REPLICATING
    check_recorded(series, request.getfixturevalue("ours_that_replicates") if is_replicating else ours_for_requests)


@pytest.mark.parametrize("series", RECORDED, ids=lambda each: each.name)
def test_responses_in_conversations_match_the_recording(ours_for_conversations: Server, series: Series) -> None:
    check_recorded(series, ours_for_conversations)


@pytest.mark.parametrize("series", QUORUM, ids=lambda each: each.name)
def test_responses_of_the_quorum_match_the_recording(ours_for_the_quorum: Server, series: Series) -> None:
    check_recorded(series, ours_for_the_quorum)


def check_recorded(series: Series, ours: Server) -> None:
    found = disagreements(series.name, load(series.name), series.conduct(ours), set())
    assert not found, "\n".join(found)


def test_every_recording_is_used() -> None:
    assert recorded_series() == {each.name for each in ALL_SERIES}


def test_unknown_api_versions_are_answered_with_unsupported_version() -> None:
    """Without such a response in the recording, the comparison would prove little."""
    codes = [each.response["error_code"] for each in load("future-api-versions") if each.response != "closed"]
    assert UNSUPPORTED_VERSION in codes


# -- with a running Kafka --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.parametrize("series", REQUESTS, ids=lambda each: each.name)
def test_responses_to_requests_match_a_running_kafka(
    pair_for_requests: Pair,
    series: Series,
    comparison: Comparison,
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> None:
    pair = pair_for_requests
    if series.name == REPLICATING:
        pair = pair._replace(ours=request.getfixturevalue("ours_that_replicates"))
    check_running(series, pair, comparison, pytestconfig)


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.parametrize("series", CONVERSATIONS, ids=lambda each: each.name)
def test_responses_in_conversations_match_a_running_kafka(
    pair_for_conversations: Pair, series: Series, comparison: Comparison, pytestconfig: pytest.Config
) -> None:
    check_running(series, pair_for_conversations, comparison, pytestconfig)


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.parametrize("series", QUORUM, ids=lambda each: each.name)
def test_responses_of_the_quorum_match_a_running_kafka(
    pair_for_the_quorum: Pair, series: Series, comparison: Comparison, pytestconfig: pytest.Config
) -> None:
    check_running(series, pair_for_the_quorum, comparison, pytestconfig)


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
    if comparison.series != {each.name for each in ALL_SERIES}:
        pytest.skip("needs all responses to agree first")
    assert [known for known in KNOWN_DIFFERENCES if known not in comparison.seen] == []


def test_every_known_difference_is_in_the_documentation() -> None:
    text = COMPATIBILITY.read_text()
    sections = set(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    missing = {known.section for known in KNOWN_DIFFERENCES} - sections
    assert not missing
