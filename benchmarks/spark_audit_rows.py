"""What `spark_run.py` measures of audits: beside one thread that only reads, beside itself, and in memory.

Every rule is on but those of superseded keys and replicas, which shuffle and have rows of their own. Executors are
started before the clock is. Files are in the page cache: one thread has just read them.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

import lz4.frame
import zstandard
from crc32c import crc32c

import spark_audit_data
from peer_row import Row
from spark_rows import descendants, text_of
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.auditing.audit_report import AuditReport

MB = 1_000_000
SIZE_MB = 1400
QUICK_MB = 60
LARGE_GB = 20
TABLE = "table"
ONE_EXECUTOR = "local-cluster[1,1,1024]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2, "spark.ui.enabled": "false"}
BROKER_SETTINGS = {"log.retention.ms": -1, "log.initial.task.delay.ms": 3_600_000, "log.cleaner.enable": "false"}
LEAST_SHARE = 0.5
LEAST_SPEEDUP = 1.7
MOST_MEMORY = 1.25

_HEAD = Struct(">8xi4xbI")
_HEADER_BYTES = 61
_ATTRIBUTES_AT = 21
_BUFFER_BYTES = 2 << 20


def audits(
    folder: Path, size_mb: int, large_gb: float, rounds: int, warm_ups: int, say: Callable[[str], None]
) -> list[Row]:
    """`size_mb` of each topic, before compression; `large_gb` of the one that tells what memory an audit takes."""
    log_dir = folder / "audited"
    with Broker(BROKER_SETTINGS, data_dir=log_dir) as broker:
        for name, codec in spark_audit_data.CODECS.items():
            spark_audit_data.fill(broker, name, codec, size_mb * MB)
        spark_audit_data.fill_table(broker, TABLE, size_mb * MB // 4)
    spark_audit_data.call_cleaned(log_dir, TABLE)
    say(f"{size_mb} MB in each of {', '.join(spark_audit_data.CODECS)}, a quarter of it in a table")
    run = _Run(log_dir, rounds, warm_ups, say)
    rows = [
        *run.beside_one_thread(),
        *run.with_two_executors(),
        *run.with_shuffles(folder / "replica"),
        *run.in_memory(large_gb),
    ]
    shutil.rmtree(log_dir)
    return rows


class _Run:
    def __init__(self, log_dir: Path, rounds: int, warm_ups: int, say: Callable[[str], None]) -> None:
        self._log_dir = log_dir
        self._rounds = rounds
        self._warm_ups = warm_ups
        self._say = say

    def beside_one_thread(self) -> list[Row]:
        rows = []
        with self._session(ONE_EXECUTOR) as spark:
            for name, codec in spark_audit_data.CODECS.items():
                what = f"audit, {name}" if codec else "audit, plain"
                row = Row(f"audit {name}", f"{what}, beside one thread that reads it", "MB/s", LEAST_SHARE, True)
                size = sum(path.stat().st_size for path in self._files(name)) / MB
                for number in range(-self._warm_ups, self._rounds):
                    alone = _timed(lambda: [read_all(path, codec) for path in self._files(name)])  # noqa: B023
                    took = _timed(lambda: self._audit(spark, topics=[name]))  # noqa: B023
                    if number >= 0:
                        row.rounds.append((size / took, size / alone))
                self._say(f"{row.name}: {row.middle(0):,.0f} of {row.middle(1):,.0f} MB/s")
                rows.append(row)
        return rows

    def with_two_executors(self) -> list[Row]:
        """Everything there is, by one and by two, in MB/s."""
        size = sum(path.stat().st_size for path in self._files("*")) / MB
        rates: dict[str, list[float]] = {}
        for master in (ONE_EXECUTOR, TWO_EXECUTORS):
            with self._session(master) as spark:
                took = [_timed(lambda: self._audit(spark)) for _ in range(self._warm_ups + self._rounds)]
                rates[master] = [size / each for each in took[self._warm_ups :]]
        row = Row("audit executors", "audit by two executors, beside one", "MB/s", LEAST_SPEEDUP, True)
        row.rounds += list(zip(rates[TWO_EXECUTORS], rates[ONE_EXECUTOR], strict=True))
        self._say(f"{row.name}: {row.middle(0):,.0f} and {row.middle(1):,.0f} MB/s")
        return [row]

    def with_shuffles(self, replica: Path) -> list[Row]:
        """Both beside the step that reads everything, in MB/s of one log directory."""
        keys = Row("audit keys", "superseded keys of a table, beside reading it", "MB/s", 0, True)
        replicas = Row("audit replicas", "two replicas compared, beside reading them", "MB/s", 0, True)
        spark_audit_data.second_replica(self._log_dir, replica)
        with self._session(ONE_EXECUTOR) as spark:
            for number in range(-self._warm_ups, self._rounds):
                for row, report, step in (
                    (keys, self._audit(spark, topics=[TABLE], superseded=True), "superseded"),
                    (replicas, self._audit(spark, replica, topics=["lz4"], replicas=True), "replicas"),
                ):
                    if number >= 0:
                        took = report.step_seconds
                        row.rounds.append((report.bytes / MB / took[step], report.bytes / MB / took["read"]))
        shutil.rmtree(replica)
        for row in (keys, replicas):
            self._say(f"{row.name}: {row.middle(0):,.0f} and {row.middle(1):,.0f} MB/s")
        return [keys, replicas]

    def in_memory(self, large_gb: float) -> list[Row]:
        """Driver and Python workers of two executors together, at their greatest."""
        row = Row("audit memory", f"memory of an audit of {large_gb:g} GB, beside 1 GB", "MB", MOST_MEMORY, False)
        peaks = []
        for size in (1000 * MB, int(large_gb * 1000) * MB):
            size = spark_audit_data.enlarge(self._log_dir, "none", size)
            with self._session(TWO_EXECUTORS) as spark, _greatest_memory() as peak:
                took = _timed(lambda: self._audit(spark, topics=["none"]))
            peaks.append(peak() / MB)
            self._say(f"{size / MB:,.0f} MB: {took:.1f} s, {peaks[-1]:,.0f} MB of memory")
        row.rounds.append((peaks[1], peaks[0]))
        return [row]

    def _audit(self, spark: SparkSession, *more: Path, **options: Any) -> AuditReport:
        from tailrace.spark import audit

        options = {"superseded": False, "replicas": False} | options
        report = audit(str(self._log_dir), *map(str, more), session=spark, **options)
        if not report.is_clean:
            raise RuntimeError(f"the audit found {report.by_rule}: {report.findings[0].words}")
        return report

    def _files(self, topic: str) -> list[Path]:
        return sorted(self._log_dir.glob(f"{topic}-*/*.log"))

    @contextmanager
    def _session(self, master: str) -> Iterator[SparkSession]:
        """One with executors, which have loaded what they need."""
        from tailrace.spark import session

        spark = session("bench-audit", master, SETTINGS, progress=False)
        try:
            self._audit(spark, topics=["zstd"])
            yield spark
        finally:
            spark.stop()


def read_all(path: Path, codec: int) -> int:
    """Read, CRC-check and, with a codec, decompress every batch, in this thread; returns how many there are."""
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    unzstd = zstandard.ZstdDecompressor().decompress
    held = batches = 0
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer[held:]):
            view, at = buffer[: held + read], 0
            while len(view) - at >= _HEADER_BYTES:
                length, magic, crc = _HEAD.unpack_from(view, at)
                end = at + 12 + length
                if end > len(view):
                    break
                if magic != 2 or crc32c(view[at + _ATTRIBUTES_AT : end]) != crc:
                    raise RuntimeError(f"{path}: a batch has a wrong CRC")
                if codec == spark_audit_data.CODECS["lz4"]:
                    lz4.frame.decompress(view[at + _HEADER_BYTES : end])
                elif codec == spark_audit_data.CODECS["zstd"]:
                    unzstd(view[at + _HEADER_BYTES : end], max_output_size=1 << 20)
                at = end
                batches += 1
            held = len(view) - at
            buffer[:held] = view[at:]
    return batches


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


@contextmanager
def _greatest_memory() -> Iterator[Callable[[], int]]:
    """Of this process and the Python processes below it together, in bytes, by looking now and then."""
    greatest, is_over = 0, threading.Event()

    def look() -> None:
        nonlocal greatest
        while not is_over.wait(0.05):
            below = [pid for pid, name in descendants(os.getpid()).items() if name != "java"]
            greatest = max(greatest, sum(_resident(pid) for pid in (os.getpid(), *below)))

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield lambda: greatest
    finally:
        is_over.set()
        watching.join()


def _resident(pid: int) -> int:
    """Without files that it has mapped. What a worker shares with the one it was forked from counts for both."""
    lines = text_of(Path(f"/proc/{pid}/status")).splitlines()
    kb = [int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
    return 1024 * sum(kb)
