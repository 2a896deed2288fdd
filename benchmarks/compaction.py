"""Compaction of 1 GB in two logs by the cleaner: its speed, its memory, and what appends to another log feel of it.

The input is one and the same in every round: uncompressed records of 100 bytes with keys of 16 bytes, of which one in
ten is distinct, in batches of 16 KB and segments of 64 MB. A round works on hard links of it, made before the clock
starts; compaction never writes into a segment that stands in a log. Ours goes through a LogManager and its cleaner on
threads, from the call that wakes the cleaner to when it tells that the last log is clean.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median

from crc32c import crc32c

from kafka_peer import KafkaPeer, why_unavailable
from log_broker import LogBroker
from rows import ROUNDS, Row, ratio_row
from tailrace.config.log import LogConfig
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import CRC_AT, HEADER_BYTES, BatchHeader, crc_of
from tailrace.record.builder import BatchBuilder
from tailrace.record.kernels import KEY_START, ROW
from tailrace.record.shallow import next_batch
from tailrace.record.walk import walk_records
from tailrace.storage.compaction.log_compaction import CompactionStats
from tailrace.storage.unified_log import UnifiedLog

TOPIC = "input"
LOGS = 2
THREADS = 2
STALL_THREADS = 1  # the default of `log.cleaner.threads`; the other core is the main thread's
LOG_BYTES = 512 << 20
SEGMENT_BYTES = 64 << 20
DEDUPE_BUFFER_BYTES = 128 << 20
KEY_BYTES = 16
VALUE_BYTES = 74
RECORDS_PER_BATCH = 160
RECORDS_PER_KEY = 10
COPY_BUFFER_BYTES = 1 << 20
APPEND_BYTES = 4096
QUIET_APPENDS = 60_000
TOPIC_CONFIGS = {TOPIC: LogConfig(cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES)}


class Cleaning:
    """A broker with its cleaner, which sleeps: nothing can be cleaned below the high watermark until `start`."""

    def __init__(self, directory: Path, threads: int) -> None:
        settings = {
            "log.segment.bytes": str(SEGMENT_BYTES),
            "log.cleaner.threads": str(threads),
            "log.cleaner.dedupe.buffer.size": str(DEDUPE_BUFFER_BYTES),
        }
        self.broker = LogBroker(directory, threads + 1, settings)  # one more for whatever is synced
        self.broker.start(TOPIC_CONFIGS)
        self.stats: list[CompactionStats] = []

    def start(self) -> None:
        for log in self.broker.logs().values():
            log.update_high_watermark(log.log_end_offset)
        cleaner = self.broker.manager.cleaner
        assert cleaner is not None
        cleaner.on_cleaned.add(lambda partition, stats: self.stats.append(stats))
        cleaner.awake()

    @property
    def is_done(self) -> bool:
        return len(self.stats) == LOGS

    def run(self) -> None:
        self.start()
        self.broker.jobs.run_until(lambda: self.is_done)

    def end(self) -> None:
        for stats in self.stats:
            assert 0.09 < stats.records_written / stats.records_read < 0.11
        self.broker.stop()


class Input:
    """A data directory with the logs that every round compacts, shut down cleanly."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "compaction-input"
        filling = Cleaning(self.directory, 1)
        for n in range(LOGS):
            _fill(filling.broker.create(TopicPartition(TOPIC, n)), random.Random(n))
        filling.end()
        self.logs = [self.directory / f"{TOPIC}-{n}" for n in range(LOGS)]
        self.total_bytes = sum(path.stat().st_size for path in self.directory.glob("*/*.log"))
        os.sync()

    @contextmanager
    def linked(self) -> Iterator[Path]:
        """The directory for one round; removed, and the disk at rest, when it has ended."""
        directory = self.directory.with_name("compaction-round")
        shutil.copytree(self.directory, directory, copy_function=link)
        os.sync()
        yield directory
        shutil.rmtree(directory)
        os.sync()


def link(source: str, target: str) -> None:
    """Of a segment, but for the active one, which is empty; of all else, a copy."""
    is_closed_segment = source.endswith(".log") and os.path.getsize(source)
    (os.link if is_closed_segment else shutil.copyfile)(source, target)


input_in = cache(Input)


def _fill(log: UnifiedLog, dice: random.Random) -> None:
    """In batches of which only the keys differ."""
    builder = BatchBuilder()
    now_ms = time.time_ns() // 1_000_000 - 3_600_000
    for n in range(RECORDS_PER_BATCH):
        builder.append(now_ms + n // 10, bytes(KEY_BYTES), dice.randbytes(VALUE_BYTES))
    data = builder.build()
    rows = walk_records(data, HEADER_BYTES, len(data), BatchHeader.at(data))
    places = [slice(start, start + KEY_BYTES) for start in rows[KEY_START::ROW]]
    count = LOG_BYTES // len(data)
    keys = [dice.randbytes(KEY_BYTES) for _ in range(count * RECORDS_PER_BATCH // RECORDS_PER_KEY)]
    for _ in range(count):
        for place, key in zip(places, dice.choices(keys, k=RECORDS_PER_BATCH), strict=True):
            data[place] = key
        data[:8] = bytes(8)
        data[CRC_AT : CRC_AT + 4] = crc_of(data, 0, len(data)).to_bytes(4, "big")
        (result,) = log.append_as_leader([data], 0)
        assert result.error is None
    log.roll()


def compacted(made: Input) -> float:
    """Seconds for both logs."""
    with made.linked() as directory:
        cleaning = Cleaning(directory, THREADS)
        gc.collect()
        started = time.perf_counter()
        cleaning.run()
        took = time.perf_counter() - started
        cleaning.end()
    return took


def copied(made: Input) -> float:
    """Seconds for the same files read, every batch's CRC checked, and written, in one plain loop."""
    with made.linked() as directory:
        gc.collect()
        started = time.perf_counter()
        for path in sorted(directory.glob("*/*.log")):
            _copy(path, path.with_suffix(".copy"))
        return time.perf_counter() - started


def _copy(source: Path, target: Path) -> None:
    read_from = os.open(source, os.O_RDONLY)
    write_to = os.open(target, os.O_WRONLY | os.O_CREAT)
    chunk = memoryview(bytearray(COPY_BUFFER_BYTES))
    size, start = os.fstat(read_from).st_size, 0
    while start < size:
        filled = os.preadv(read_from, [chunk], start)
        at = 0
        while (batch := next_batch(chunk, at, filled)) is not None:
            assert crc32c(chunk[at + 21 : at + batch.size]) == batch.crc
            at += batch.size
        os.pwrite(write_to, chunk[:at], start)
        start += at
    os.close(read_from)
    os.close(write_to)


def speed_row(folder: Path) -> Row:
    made = input_in(folder)
    return ratio_row(
        "compact 1 GB, two threads / copy and CRC, one",
        ours=lambda: compacted(made),
        bare=lambda: copied(made),
        work=made.total_bytes / 1e6,
        unit="MB/s",
        mark=0.4,
    )


def kafka_row(folder: Path) -> Row:
    """Beside Kafka's cleaner, which idles while ours works; its first round, as ours, warms up and does not count."""
    name = "compact 1 GB, two threads / Kafka 4.3.1, two"
    reason = why_unavailable()
    if reason is not None:
        return Row(name, "", "", "", f"skipped: {reason}", holds=True)
    made = input_in(folder)
    settings = {
        "log.cleaner.threads": str(THREADS),
        "log.cleaner.dedupe.buffer.size": str(DEDUPE_BUFFER_BYTES),
        "log.segment.bytes": str(SEGMENT_BYTES),
    }
    topics = [f"round-{n}" for n in range(1 + ROUNDS)]
    with KafkaPeer(folder / "kafka", settings) as kafka:
        kafka.adopt(topics, made.logs, link)
        left = iter(topics)
        return ratio_row(
            name,
            ours=lambda: compacted(made),
            bare=lambda: kafka.cleaned(next(left)),
            work=made.total_bytes / 1e6,
            unit="MB/s",
            mark=None,
        )


def memory_row(folder: Path) -> Row:
    """The peak of a process of its own, from before its logs are open; the offset maps are part of what grows."""
    with input_in(folder).linked() as directory:
        told = subprocess.run(
            [sys.executable, __file__, str(directory)],
            check=True,
            capture_output=True,
            text=True,
        )
    grown, bound = int(told.stdout) / 1e6, (DEDUPE_BUFFER_BYTES / 1e6) + 100
    return Row(
        "peak memory grown while 1 GB is compacted",
        f"{grown:.0f} MB",
        f"≤ {bound:.0f} MB",
        "",
        f"{grown:.0f} MB",
        grown <= bound,
        {"grown_mb": grown},
    )


def _grown_bytes(directory: Path) -> int:
    before = _peak_bytes()
    cleaning = Cleaning(directory, THREADS)
    cleaning.run()
    cleaning.end()
    return _peak_bytes() - before


def _peak_bytes() -> int:
    """Not `ru_maxrss`: a process begins with its parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def stall_row(folder: Path) -> Row:
    """Single appends on the main thread, with and without 1 GB being compacted beside them."""
    made = input_in(folder)
    rounds = [(appends_of(made, is_compacting=True), appends_of(made, is_compacting=False)) for _ in range(1 + ROUNDS)][
        1:
    ]
    beside, alone = ([each[side] for each in rounds] for side in (0, 1))
    ratios = sorted(one.p99_ms / other.p99_ms for one, other in rounds)
    middle = median(ratios)
    longest_ms, longest_alone_ms = (max(each.longest_ms for each in side) for side in (beside, alone))
    return Row(
        f"append beside compaction (log.cleaner.threads={STALL_THREADS}, the default) / alone: p99 · longest",
        _shown(beside),
        "≤ 2 · + 10 ms",
        _shown(alone),
        f"{middle:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) · {longest_ms - longest_alone_ms:+.1f} ms",
        middle <= 2 and longest_ms <= longest_alone_ms + 10,
        {"beside": [vars(each) for each in beside], "alone": [vars(each) for each in alone], "ratios": ratios},
    )


class Appends:
    def __init__(self, took_ns: list[int], seconds: float) -> None:
        took_ns.sort()
        self.count = len(took_ns)
        self.seconds = seconds
        self.p50_ms = took_ns[self.count // 2] / 1e6
        self.p99_ms = took_ns[self.count * 99 // 100] / 1e6
        self.longest_ms = took_ns[-1] / 1e6


def _shown(rounds: list[Appends]) -> str:
    return f"{1000 * median(each.p99_ms for each in rounds):.0f} µs · {max(each.longest_ms for each in rounds):.1f} ms"


def appends_of(made: Input, *, is_compacting: bool) -> Appends:
    """Each from its call to its return and the completions of jobs behind it: what a request in the loop would wait."""
    with made.linked() as directory:
        cleaning = Cleaning(directory, STALL_THREADS)
        log = cleaning.broker.create(TopicPartition("appended", 0))
        step = cleaning.broker.jobs.step
        builder = BatchBuilder()
        now_ms = time.time_ns() // 1_000_000
        for n in range(APPEND_BYTES // 100):
            builder.append(now_ms, b"%016d" % n, random.randbytes(VALUE_BYTES))
        data = builder.build()
        gc.collect()
        gc.disable()
        took_ns: list[int] = []
        begun = time.perf_counter()
        if is_compacting:
            cleaning.start()
        while not (cleaning.is_done if is_compacting else len(took_ns) >= QUIET_APPENDS):
            data[:8] = bytes(8)
            started = time.perf_counter_ns()
            log.append_as_leader([data], 0)
            step()
            took_ns.append(time.perf_counter_ns() - started)
        seconds = time.perf_counter() - begun
        gc.enable()
        cleaning.end()
    return Appends(took_ns, seconds)


ROWS: dict[str, Callable[[Path], Row]] = {
    "compact": speed_row,
    "compact-kafka": kafka_row,
    "compact-memory": memory_row,
    "compact-stalls": stall_row,
}


if __name__ == "__main__":  # the process of `memory_row`
    print(_grown_bytes(Path(sys.argv[1])))
