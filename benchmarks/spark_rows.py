"""What `spark_run.py` measures. Each function gives rows of the table, which `peer_row.Row` tells.

Sides take turns within a round, so that a machine that is slow for a while is slow for both. The broker runs on the
same cores as Spark. CPU seconds are of Spark's JVM, its Python workers and the broker, from /proc.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spark_data
import spark_table_rows
from peer_row import Row
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_UPS = 2
KEPT = 0.01
SEGMENTS = 100
SINK_SHARE = 0.2
TIMEOUT_S = 600
MOST_READ = 0.03
SINK_TOPIC = "sink"


@dataclass
class Bench:
    spark: SparkSession
    broker: Broker
    folder: Path
    rows: int
    rounds: int
    warm_ups: int
    say: Callable[[str], None]
    topics: dict[int, str] = field(default_factory=dict)
    """By the number of segments."""
    topic_bytes: int = 0
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def parquet(self) -> str:
        return str(self.folder / "rows.parquet")

    def prepare(self, *, with_segments: bool) -> None:
        """The topics and, of the same rows, the Parquet files."""
        for segments in (1, SEGMENTS) if with_segments else (1,):
            self.topics[segments] = topic = f"rows-in-{segments}"
            self.topic_bytes = spark_data.fill(self.broker, topic, self.rows, segments=segments)
            self.say(f"{self.rows:,} rows, {self.topic_bytes / 1e6:,.0f} MB, {segments} segments a partition")
        self.broker.stop()  # writes its checkpoints, which a reader of files goes by
        self.broker.start()
        self.from_files().write.option("compression", "none").parquet(self.parquet)
        self.say("the same rows in Parquet")

    def from_files(self, segments: int = 1, **more: str) -> DataFrame:
        return self._read(path=str(self.broker.data_dir), subscribe=self.topics[segments], **more)

    def from_brokers(self, **more: str) -> DataFrame:
        return self._read(brokers=self.servers, subscribe=self.topics[1], **more)

    def from_parquet(self) -> DataFrame:
        return self.spark.read.parquet(self.parquet)

    def _read(self, **more: str) -> DataFrame:
        from tailrace.spark import read

        return read(session=self.spark, **more)

    def timed(self, work: Callable[[], object]) -> tuple[float, dict[str, float]]:
        """Seconds, and the CPU seconds of those who worked."""
        before, start = self.cpu_s(), time.monotonic()
        work()
        took = time.monotonic() - start
        after = self.cpu_s()
        return took, {who: round(after[who] - before[who], 2) for who in after}

    def cpu_s(self) -> dict[str, float]:
        found = {"jvm": 0.0, "python": 0.0, "broker": 0.0}
        for pid, name in descendants(os.getpid()).items():
            who = "broker" if pid == self.broker.pid else "jvm" if name == "java" else "python"
            found[who] += cpu_s_of(pid)
        return found

    def alternate(
        self,
        sides: dict[str, Callable[[], object]],
        before: Mapping[str, Callable[[], object]] | None = None,
        between: Callable[[], object] | None = None,
    ) -> list[dict[str, tuple[float, dict[str, float]]]]:
        """Of each round that counts, what each side took. `before` is done for sides that need it, `between` after each
        round: neither is counted."""
        found = []
        for number in range(-self.warm_ups, self.rounds):
            one = {}
            for name, work in sides.items():
                (before or {}).get(name, int)()
                one[name] = self.timed(work)
            if between is not None:
                between()
            shown = ", ".join(f"{name} {took:.2f} s" for name, (took, _) in one.items())
            self.say(f"{f'round {number + 1}' if number >= 0 else 'warm-up'}: {shown}")
            if number >= 0:
                found.append(one)
        return found


# ---- reading ------------------------------------------------------------------------------------------------------


def reads(bench: Bench) -> list[Row]:
    rounds = bench.alternate(
        {
            "Parquet": lambda: to_nowhere(bench.from_parquet()),
            "files": lambda: to_nowhere(bench.from_files()),
            "brokers": lambda: to_nowhere(bench.from_brokers()),
        }
    )
    files = Row("files", "read from files", "M rows/s", 0.35, True)
    brokers = Row("brokers", "read from brokers", "M rows/s", 0.2, True)
    return [beside(row, rounds, row.key, "Parquet", bench.rows) for row in (files, brokers)]


def segments(bench: Bench) -> list[Row]:
    """Many segments beside one, from files: what a record costs must not depend on it."""
    rounds = bench.alternate(
        {
            "few": lambda: to_nowhere(bench.from_files(1)),
            "many": lambda: to_nowhere(bench.from_files(SEGMENTS)),
        }
    )
    row = Row("segments", f"{SEGMENTS} segments a partition beside 1", "M rows/s", 0.9, True, spread_counts=True)
    return [beside(row, rounds, "many", "few", bench.rows)]


def to_nowhere(frame: DataFrame) -> None:
    """Every column of every row, and nothing is kept."""
    frame.write.format("noop").mode("overwrite").save()


def beside(row: Row, rounds: list[dict[str, Any]], ours: str, theirs: str, count: int) -> Row:
    for each in rounds:
        row.rounds.append((count / each[ours][0] / 1e6, count / each[theirs][0] / 1e6))
        row.details.append({"cpu_s": each[ours][1], "beside_cpu_s": each[theirs][1]})
    return row


# ---- filters ------------------------------------------------------------------------------------------------------


def filters(bench: Bench) -> list[Row]:
    """How much is read of a topic where one row in a hundred is wanted, from the middle of each partition.

    Of rows behind a range of time nobody knows without reading that none belongs to it; so a filter has to be told how
    much out of order they are. `startingTimestamp` and `endingTimestamp` go by the first row of their time instead.
    """
    of_partition = bench.rows // spark_data.PARTITIONS
    wanted = int(of_partition * KEPT) // spark_data.PER_MS * spark_data.PER_MS
    first = of_partition // 2 // spark_data.PER_MS * spark_data.PER_MS
    first_ms = spark_data.T0 + first // spark_data.PER_MS
    behind_ms = first_ms + wanted // spark_data.PER_MS
    by_offset = f"offset >= {first} AND offset < {first + wanted}"
    by_time = f"timestamp >= timestamp_millis({first_ms}) AND timestamp < timestamp_millis({behind_ms})"
    between = {"startingTimestamp": str(first_ms), "endingTimestamp": str(behind_ms)}
    rows = []
    for source, frame in (("files", bench.from_files), ("brokers", bench.from_brokers)):
        whole, _ = bytes_for(bench, source, frame())
        if not 0.9 < whole / bench.topic_bytes < 1.2:
            raise RuntimeError(f"/proc tells of {whole:,} bytes read from {source}, of {bench.topic_bytes:,}")
        for what, wanted_frame in {
            "a filter of 1 % of the offsets": frame(filterPushdown="true").where(by_offset),
            "a filter of 1 % of the time, order promised": frame(filterPushdown="true", timestampDisorder="0s").where(
                by_time
            ),
            "timestamps of 1 % of the time": frame(**between),
        }.items():
            row = Row(f"{what} {source}", f"bytes read from {source} for {what}", "MB", MOST_READ, False)
            for _ in range(bench.rounds):
                read, found = bytes_for(bench, source, wanted_frame)
                if abs(found - wanted * spark_data.PARTITIONS) > spark_data.PER_MS * spark_data.PARTITIONS:
                    raise RuntimeError(f"{row.name}: {found} rows, not {wanted * spark_data.PARTITIONS}")
                row.rounds.append((max(read, 1) / 1e6, bench.topic_bytes / 1e6))
            bench.say(f"{row.name}: {row.middle(0):.2f} of {row.middle(1):.0f} MB")
            rows.append(row)
    return rows


def bytes_for(bench: Bench, source: str, frame: DataFrame) -> tuple[int, int]:
    """Bytes that were read, and rows that came. Of files the workers tell what was handed to them by the kernel."""
    counted = frame.selectExpr("length(value) AS size")
    if source == "brokers":
        before = io_of(bench.broker.pid or 0)["wchar"]
        found = counted.count()
        return io_of(bench.broker.pid or 0)["wchar"] - before, found
    counted.count()  # workers are there, and have loaded what they need
    with reading_traced(bench) as read:
        found = counted.count()
    return read(), found


@contextmanager
def reading_traced(bench: Bench) -> Iterator[Callable[[], int]]:
    """Bytes that Spark's Python workers, which stay between queries, read meanwhile."""
    before = worker_bytes()
    after: dict[int, int] = {}
    yield lambda: sum(value - before.get(pid, 0) for pid, value in after.items())
    after |= worker_bytes()


def worker_bytes() -> dict[int, int]:
    names = descendants(os.getpid())
    return {pid: io_of(pid)["rchar"] for pid, name in names.items() if name != "java"}


# ---- sinks --------------------------------------------------------------------------------------------------------


def sinks(bench: Bench) -> list[Row]:
    """The same stream of keys and values into Parquet files and into a topic, both ways of delivery."""
    wanted = int(bench.rows * SINK_SHARE)
    source = str(bench.folder / "sink-rows.parquet")
    bench.from_parquet().select("key", "value").limit(wanted).repartition(2).write.parquet(source)
    rounds = bench.alternate(
        {
            "Parquet": lambda: into_parquet(bench, source),
            "at least once": lambda: into_topic(bench, source),
            "exactly once": lambda: into_topic(bench, source, delivery="exactly-once", sinkId="bench"),
        }
    )
    rows = [
        Row("at-least-once", "stream into a topic, at least once", "M rows/s", 0, True),
        Row("exactly-once", "stream into a topic, exactly once", "M rows/s", 0, True),
    ]
    return [beside(row, rounds, row.key.replace("-", " "), "Parquet", wanted) for row in rows]


def into_parquet(bench: Bench, source: str) -> None:
    folder = bench.folder / f"out-{next(bench.numbers)}"
    written(bench, source, "parquet", path=str(folder / "rows"), compression="none", folder=folder)


def into_topic(bench: Bench, source: str, **options: str) -> None:
    folder = bench.folder / f"out-{next(bench.numbers)}"
    topic = {"kafka.bootstrap.servers": bench.servers, "topic": SINK_TOPIC}
    written(bench, source, "tailrace", folder=folder, **topic, **options)


def written(bench: Bench, source: str, kind: str, *, folder: Path, **options: str) -> None:
    frame = bench.spark.readStream.schema("key binary, value binary").parquet(source)
    query = (
        frame.writeStream.format(kind)
        .options(**options, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(TIMEOUT_S):
        query.stop()
        raise RuntimeError(f"the stream into {kind} did not end within {TIMEOUT_S} s")
    shutil.rmtree(folder, ignore_errors=True)


# ---- processes ----------------------------------------------------------------------------------------------------


def descendants(root: int) -> dict[int, str]:
    """Processes below this one, with the names of their programs."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = text_of(entry / "stat")
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if rest:
                parents[int(entry.name)] = (int(rest.split()[1]), name)
    found: dict[int, str] = {}
    waiting = [root]
    while waiting:
        above = waiting.pop()
        for pid, (parent, name) in parents.items():
            if parent == above:
                found[pid] = name
                waiting.append(pid)
    return found


def cpu_s_of(pid: int) -> float:
    """Its own, and that of children that ended."""
    rest = text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, rest[11:15])) / os.sysconf("SC_CLK_TCK") if rest else 0.0


def io_of(pid: int) -> dict[str, int]:
    lines = text_of(Path(f"/proc/{pid}/io")).splitlines()
    return {"rchar": 0, "wchar": 0} | {key: int(value) for key, value in (line.split(": ") for line in lines)}


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


MEASUREMENTS: dict[str, Callable[[Bench], list[Row]]] = {
    "reads": reads,
    "filters": filters,
    "segments": segments,
    "sinks": sinks,
    "appends": spark_table_rows.appends,
    "upserts": spark_table_rows.upserts,
}
