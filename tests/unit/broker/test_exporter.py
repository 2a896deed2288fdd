"""/metrics, /healthz and /readyz of a node whose thread is the test's."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from tailrace.broker import exporter as exporter_module
from tailrace.broker.exporter import Exporter, politely
from tailrace.broker.process_metrics import ProcessMetrics
from tailrace.env.real import RealClock, ThreadJobs
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics, Sample
from tailrace.metrics.prometheus import CONTENT_TYPE


class Node:
    """As much of one as an exporter needs."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.jobs = ThreadJobs(RealClock(), 1)
        self.why_not: str | Exception | None = None
        process = ProcessMetrics(threading.get_ident())
        self.exporter = Exporter("127.0.0.1", 0, self.metrics, self.jobs.later, self.why_not_ready, process)

    def why_not_ready(self) -> str | None:
        if isinstance(self.why_not, Exception):
            raise self.why_not
        return self.why_not

    def get(self, path: str, *, is_stuck: bool = False) -> tuple[int, str, str]:
        """Status, kind and text, asked for on another thread while this one is the node's."""
        answers: list[tuple[int, str, str]] = []

        def ask() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.exporter.port, timeout=30)
            connection.request("GET", path)
            response = connection.getresponse()
            answers.append((response.status, response.headers["Content-Type"], response.read().decode()))
            connection.close()
            self.jobs.later("answered", 0, lambda: None)

        client = threading.Thread(target=ask)
        client.start()
        if not is_stuck:
            self.jobs.run_until(lambda: bool(answers))
        client.join()
        return answers[0]


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.exporter.close()
    made.jobs.close()


def test_metrics(node: Node) -> None:
    node.metrics.add(lambda: [Gauge("server", "KafkaServer", "BrokerState", 3)])
    status, kind, text = node.get("/metrics")
    assert (status, kind) == (200, CONTENT_TYPE)
    names = {line.split()[0]: line.split()[1] for line in text.splitlines() if not line.startswith("#")}
    assert names["kafka_server_kafkaserver_brokerstate"] == "3"
    assert 0 <= float(names["kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"]) <= 1
    assert float(names["process_resident_memory_bytes"]) > 1e6
    assert float(names["process_cpu_seconds_total"]) > 0
    assert 0 < float(names["process_open_fds"]) <= float(names["process_max_fds"])
    assert float(names["process_start_time_seconds"]) > 1.6e9
    declared = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(declared) == len(set(declared))


def test_sources_are_read_on_the_nodes_thread_only(node: Node) -> None:
    readers: set[int] = set()

    def source() -> Iterator[Sample]:
        for number in range(3000):
            readers.add(threading.get_ident())
            yield Gauge("log", "Log", "Size", number, (("topic", str(number)),))

    node.metrics.add(source)
    text = node.get("/metrics")[2]
    assert text.count("kafka_log_log_size{") == 3000
    assert readers == {threading.get_ident()}


def test_a_source_that_fails_costs_the_page_and_nothing_else(node: Node) -> None:
    def broken() -> Iterator[Sample]:
        raise KeyError("no")
        yield

    node.metrics.add(broken)
    assert node.get("/metrics")[0] == 500
    node.metrics.remove(broken)
    assert node.get("/metrics")[0] == 200


def test_health_and_readiness(node: Node) -> None:
    assert node.get("/healthz")[::2] == (200, "alive\n")
    assert node.get("/readyz")[::2] == (200, "ready\n")
    node.why_not = "the broker is fenced"
    assert node.get("/readyz")[::2] == (503, "the broker is fenced\n")
    assert node.get("/healthz")[0] == 200
    node.why_not = KeyError("no")
    assert node.get("/readyz")[0] == 500


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_node_that_is_stuck_is_told(node: Node, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_module, "LONGEST_PROBE_S", 0.02)
    monkeypatch.setattr(exporter_module, "LONGEST_READING_S", 0.02)
    status, _, text = node.get(path, is_stuck=True)
    assert status == 503
    assert "0.02 s" in text


def test_politely_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    pauses: list[int] = []

    def look() -> int:
        nonlocal now_ns
        now_ns += 50_000
        return now_ns

    monkeypatch.setattr(exporter_module, "perf_counter_ns", look)
    monkeypatch.setattr(exporter_module, "sleep", lambda _: pauses.append(now_ns))
    assert list(politely(range(50))) == list(range(50))
    assert [at_ns // 1000 for at_ns in pauses] == list(range(300, 3001, 300)), "a fifth of a millisecond and one look"
