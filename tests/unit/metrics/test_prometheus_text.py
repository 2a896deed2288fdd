"""Names, labels and numbers of the text for Prometheus."""

from __future__ import annotations

import pytest

from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.histogram import Histogram
from tailrace.metrics.metrics import Metrics, Sample
from tailrace.metrics.prometheus import LINES_AT_ONCE, Page
from tailrace.metrics.quantiles import RecentQuantiles
from tailrace.metrics.row import Columns, Row


def text(*samples: Sample) -> list[str]:
    page = Page(RecentQuantiles(), 0)
    for sample in samples:
        page.add(sample)
    return b"".join(page.pieces()).decode().splitlines()


@pytest.mark.parametrize(
    ("sample", "name", "kind", "line"),
    [
        (
            Gauge("server", "ReplicaManager", "LeaderCount", 3),
            "kafka_server_replicamanager_leadercount",
            "gauge",
            " 3",
        ),
        (
            Count("server", "BrokerTopicMetrics", "BytesInPerSec", 7, (("topic", "a"),)),
            "kafka_server_brokertopicmetrics_bytesin_total",
            "counter",
            '{topic="a"} 7',
        ),
        (
            Count("server", "socket-server-metrics", "connection-creation-total", 2, (("networkProcessor", "0"),)),
            "kafka_server_socket_server_metrics_connection_creation_total",
            "counter",
            '{networkProcessor="0"} 2',
        ),
        (
            Gauge("log", "LogCleanerManager", "max-dirty-percent", 0.5),
            "kafka_log_logcleanermanager_max_dirty_percent",
            "gauge",
            " 0.5",
        ),
        (
            Gauge("log", "LogManager", "LogDirectoryOffline", 1, (("logDirectory", 'a\\b"c\nd'),)),
            "kafka_log_logmanager_logdirectoryoffline",
            "gauge",
            r'{logDirectory="a\\b\"c\nd"} 1',
        ),
    ],
)
def test_one_sample(sample: Sample, name: str, kind: str, line: str) -> None:
    assert text(sample) == [f"# TYPE {name} {kind}", name + line]


@pytest.mark.parametrize(
    ("value", "written"), [("a\nb", r"a\nb"), ("a\\b", r"a\\b"), ('a"b', r"a\"b"), ("a\\nb", r"a\\nb")]
)
def test_each_special_character_of_a_label_is_escaped(value: str, written: str) -> None:
    gauge = Gauge("log", "LogManager", "LogDirectoryOffline", 1, (("logDirectory", value),))
    assert text(gauge)[1:] == [f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{written}"}} 1']


def test_a_family_stands_together_whatever_the_order() -> None:
    a, b = Gauge("log", "Log", "A", 1, (("topic", "x"),)), Gauge("log", "Log", "B", 2)
    lines = text(a, b, a._replace(tags=(("topic", "y"),)))
    assert lines == [
        "# TYPE kafka_log_log_a gauge",
        'kafka_log_log_a{topic="x"} 1',
        'kafka_log_log_a{topic="y"} 1',
        "# TYPE kafka_log_log_b gauge",
        "kafka_log_log_b 2",
    ]


def test_a_distribution_is_a_summary_in_milliseconds() -> None:
    histogram = Histogram()
    for value_us in (1000, 1000, 1000, 64_000):
        histogram.record(value_us)
    counts = tuple(histogram.counts)
    lines = text(
        Distribution("network", "RequestMetrics", "TotalTimeMs", counts, histogram.total, (("request", "Fetch"),))
    )
    name = "kafka_network_requestmetrics_totaltimems"
    assert lines[0] == f"# TYPE {name} summary"
    values = dict(line.rsplit(" ", 1) for line in lines[1:])
    assert float(values[f'{name}{{request="Fetch",quantile="0.50"}}']) == pytest.approx(1, rel=0.125)
    assert float(values[f'{name}{{request="Fetch",quantile="0.999"}}']) == pytest.approx(64, rel=0.125)
    assert values[f'{name}_sum{{request="Fetch"}}'] == "67"
    assert values[f'{name}_count{{request="Fetch"}}'] == "4"


def test_rows_give_the_same_text_as_their_samples_one_by_one() -> None:
    gauges = Columns("log", "Log", ("Size", "LogEndOffset"), ("topic", "partition"))
    counts = Columns("server", "BrokerTopicMetrics", ("BytesInPerSec", "BytesOutPerSec"), ("topic",), are_counts=True)
    rows = [Row(gauges, ("a", 0), (10, 0)), Row(gauges, ("a", 1), (5, 6)), Row(counts, ("a",), (0, 9))]
    metrics = Metrics()
    metrics.add(lambda: rows)
    one_by_one = list(metrics.read())
    assert len(one_by_one) == 5, "a count that is zero is left out"
    assert text(*rows) == text(*one_by_one)


def test_a_long_page_is_in_pieces() -> None:
    page = Page(RecentQuantiles(), 0)
    columns = Columns("log", "Log", ("Size",), ("topic", "partition"))
    for number in range(3 * LINES_AT_ONCE):
        page.add(Row(columns, ("t", number), (number,)))
    pieces = list(page.pieces())
    assert max(piece.count(b"\n") for piece in pieces) == LINES_AT_ONCE
    assert b"".join(pieces).count(b"\n") == 3 * LINES_AT_ONCE + 1
