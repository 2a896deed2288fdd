"""How fast a broker's logs are open again: after a crash on two threads beside one, and many of them beside few.

Everything goes through a LogManager whose jobs run on threads. What is on disk is made once; no round changes it for
the next one. Files are in the page cache.
"""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from log_broker import LogBroker, raise_it
from rows import Row, ratio_row
from storage import FROM_ZERO, batch_of_size, open_log, stamp, timed
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import BatchHeader
from tailrace.storage.unified_log import UnifiedLog

LOGS = 2
LOG_BYTES = 512 << 20
BATCH_BYTES = 16 << 10
FEW, MANY = 1_000, 10_000
FEW_TIMES = 3  # in a round: a second is soon disturbed
PARTITIONS_PER_TOPIC = 100


def broker_on(directory: Path, threads: int) -> LogBroker:
    settings = {"num.recovery.threads.per.data.dir": str(threads), "log.cleaner.enable": "false"}
    return LogBroker(directory, threads, settings)


def end_offsets(broker: LogBroker) -> dict[TopicPartition, int]:
    return {partition: log.log_end_offset for partition, log in broker.logs().items()}


def fill(directory: Path) -> int:
    """A log of LOG_BYTES that nobody closes; returns where it ends."""
    log = open_log(directory)
    buffers = [batch_of_size(BATCH_BYTES) for _ in range(64)]
    first_ms = BatchHeader.at(buffers[0]).base_timestamp - LOG_BYTES // BATCH_BYTES
    batches = 0
    while log.local.active.size < LOG_BYTES:
        buffer = buffers[batches % len(buffers)]
        stamp(buffer, first_ms + batches)
        (result,) = log.append_as_leader([buffer], 0)
        assert result.error is None
        batches += 1
    log.abandon()
    return log.log_end_offset


def recovery_row(folder: Path) -> Row:
    directory = folder / "recover"
    directory.mkdir()
    ends = {TopicPartition("recover", n): fill(directory / f"recover-{n}") for n in range(LOGS)}
    os.sync()
    total_mb = sum(path.stat().st_size for path in directory.glob("*/*.log")) / 1e6

    def on(threads: int) -> Callable[[], float]:
        def round_() -> float:
            broker = broker_on(directory, threads)
            took = timed(broker.start)
            assert end_offsets(broker) == ends
            broker.die()
            return took

        return round_

    row = ratio_row(
        "recover 1 GB on two threads / on one", ours=on(2), bare=on(1), work=total_mb, unit="MB/s", mark=1.5
    )
    shutil.rmtree(directory)
    return row


def make_partitions(directory: Path, count: int) -> None:
    """Each with one batch, closed cleanly."""
    broker = broker_on(directory, 2)
    broker.start()
    batch = batch_of_size(1024)
    left = count

    def made(log: UnifiedLog) -> None:
        nonlocal left
        batch[:8] = FROM_ZERO
        log.append_as_leader([batch], 0)
        left -= 1

    for n in range(count):
        partition = TopicPartition(f"topic-{n // PARTITIONS_PER_TOPIC}", n % PARTITIONS_PER_TOPIC)
        broker.manager.create(partition, None, made, raise_it, is_new=True)
    broker.jobs.run_until(lambda: not left)
    broker.stop()


def partitions_row(folder: Path) -> Row:
    """The time for one partition must be the same however many there are, with the garbage collector at work."""

    def among(count: int, times: int) -> Callable[[], float]:
        directory = folder / f"partitions-{count}"
        make_partitions(directory, count)

        def load() -> float:
            gc.collect()
            broker = broker_on(directory, 2)
            started = time.perf_counter()
            broker.start()
            took = time.perf_counter() - started
            assert list(end_offsets(broker).values()) == [1] * count
            broker.stop()
            return took

        def round_() -> float:
            return sum(load() for _ in range(times)) / (times * count)

        return round_

    row = ratio_row(
        f"load {MANY:,} partitions / {FEW:,}, per partition",
        ours=among(MANY, 1),
        bare=among(FEW, FEW_TIMES),
        work=1,
        unit="/s",
        mark=0.83,
    )
    for count in (MANY, FEW):
        shutil.rmtree(folder / f"partitions-{count}")
    return row


ROWS: dict[str, Callable[[Path], Row]] = {
    "recover-threads": recovery_row,
    "load-partitions": partitions_row,
}
