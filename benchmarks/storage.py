"""The storage engine against the least that could be done with the same bytes: rows of `benchmarks/run.py`.

Each row alternates the two sides within one run, five rounds, and compares medians. The bare side is what the name
says and nothing else, in one plain loop over the same buffers and the same disk.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

from rows import Row, ratio_row
from tailrace.config.log import LogConfig
from tailrace.env.real import real_env
from tailrace.record.batch import CRC_AT, BatchHeader, crc_of
from tailrace.record.builder import BatchBuilder
from tailrace.record.check import check_batch
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches, next_batch
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
FROM_ZERO = bytes(8)


def make_batch(records: int, value_bytes: int) -> bytearray:
    builder = BatchBuilder()
    now_ms = time.time_ns() // 1_000_000
    for _ in range(records):
        builder.append(now_ms, random.randbytes(16), random.randbytes(value_bytes))
    return builder.build()


def stamp(buffer: bytearray, timestamp_ms: int) -> None:
    """Give all records of a batch another timestamp, so that the time index grows as in real life."""
    buffer[:8] = FROM_ZERO
    struct.pack_into(">qq", buffer, 27, timestamp_ms, timestamp_ms)
    struct.pack_into(">I", buffer, CRC_AT, crc_of(buffer, 0, len(buffer)))


def batch_of_size(size: int) -> bytearray:
    """Records of about 100 bytes, or one record where the batch is small."""
    return make_batch(1, size - 88) if size <= 1024 else make_batch(size // 96, 70)


def open_log(directory: Path, config: LogConfig | None = None, **options: object) -> UnifiedLog:
    return load(real_env(), str(directory), config or LogConfig(), WarmSet(100), LoadOptions(**options))  # type: ignore[arg-type]


def timed(work: Callable[[], None]) -> float:
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    work()
    took = time.perf_counter() - started
    gc.enable()
    return took


def append_through_log(directory: Path, buffers: list[bytearray], count: int, together: int = 1) -> float:
    log = open_log(directory)
    turns = [buffers[at : at + together] for at in range(0, len(buffers), together)]

    def work() -> None:
        append = log.append_as_leader
        for n in range(count // together):
            sets = turns[n % len(turns)]
            for each in sets:
                each[:8] = FROM_ZERO
            append(sets, 0)

    took = timed(work)
    assert log.log_end_offset == count * BatchHeader.at(buffers[0]).record_count
    log.abandon()
    shutil.rmtree(directory)
    os.sync()
    return took


def append_bare(path: Path, buffers: list[bytearray], count: int) -> float:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    size = len(buffers[0])

    def work() -> None:
        position = 0
        for n in range(count):
            buffer = buffers[n % len(buffers)]
            buffer[:8] = FROM_ZERO
            view = memoryview(buffer)
            header = BatchHeader.at(view)
            assert crc32c(view[21:]) == header.crc
            check_batch(view, 0, header, require_key=False, earliest_ms=MIN_INT64, latest_ms=MAX_INT64)
            os.pwrite(fd, view, position)
            position += size

    took = timed(work)
    os.close(fd)
    path.unlink()
    os.sync()
    return took


def append_row(folder: Path, name: str, size: int, count: int, mark: float, together: int = 1) -> Row:
    buffers = [batch_of_size(size) for _ in range(64)]
    total_mb = sum(len(buffer) for buffer in buffers) / len(buffers) * count / 1e6
    return ratio_row(
        name,
        ours=lambda: append_through_log(folder / "log-0", buffers, count, together),
        bare=lambda: append_bare(folder / "bare", buffers, count),
        work=total_mb,
        unit="MB/s",
        mark=mark,
    )


def read_row(folder: Path) -> Row:
    directory = folder / "read-0"
    log = open_log(directory)
    buffers = [batch_of_size(65536) for _ in range(16)]
    for n in range(4096):
        buffer = buffers[n % 16]
        buffer[:8] = FROM_ZERO
        log.append_as_leader([buffer], 0)
    log.update_high_watermark(log.log_end_offset)
    size = log.local.active.size
    slice_bytes = 1 << 20
    places: list[int] = []
    offset = 0
    while offset < log.log_end_offset:
        places.append(offset)
        data = log.read(offset, slice_bytes).read()
        *_, last = batches(data)
        offset = last.last_offset + 1
    fd = os.open(log.local.active.records.path, os.O_RDONLY)
    starts = [place * (size // len(places)) for place in range(len(places))]

    def ours() -> float:
        def work() -> None:
            for place in places:
                assert len(log.read(place, slice_bytes).read()) > 900_000 or place == places[-1]

        return timed(work)

    def bare() -> float:
        def work() -> None:
            for start in starts:
                assert os.pread(fd, slice_bytes, start)

        return timed(work)

    row = ratio_row(
        "read slices of 1 MB / bare pread", ours=ours, bare=bare, work=len(places) * 1.048, unit="MB/s", mark=0.7
    )
    os.close(fd)
    log.abandon()
    shutil.rmtree(directory)
    return row


def recovery_row(folder: Path) -> Row:
    directory = folder / "recover-0"
    log = open_log(directory)
    buffers = [batch_of_size(16384) for _ in range(64)]
    first_ms = BatchHeader.at(buffers[0]).base_timestamp - 16384
    for n in range(16384):
        buffer = buffers[n % 64]
        stamp(buffer, first_ms + n)
        (result,) = log.append_as_leader([buffer], 0)
        assert result.error is None
    log.abandon()
    os.sync()
    path = next(directory.glob("*.log"))
    total_mb = path.stat().st_size / 1e6

    def ours() -> float:
        recovered: list[UnifiedLog] = []
        took = timed(lambda: recovered.append(open_log(directory)))
        assert recovered[0].log_end_offset == log.log_end_offset
        recovered[0].abandon()
        return took

    def bare() -> float:
        def work() -> None:
            fd = os.open(path, os.O_RDONLY)
            chunk = memoryview(bytearray(1 << 20))
            size, start = os.fstat(fd).st_size, 0
            while start < size:
                filled = os.preadv(fd, [chunk], start)
                at = 0
                while (batch := next_batch(chunk, at, filled)) is not None:
                    assert crc32c(chunk[at + 21 : at + batch.size]) == batch.crc
                    at += batch.size
                start += at
            os.close(fd)

        return timed(work)

    row = ratio_row("recover 16 KB batches / read and CRC", ours=ours, bare=bare, work=total_mb, unit="MB/s", mark=0.5)
    shutil.rmtree(directory)
    return row


def check_row(_: Path) -> Row:
    buffer = batch_of_size(65536)
    header = BatchHeader.at(buffer)
    batch = next(batches(buffer))
    count = header.record_count

    def ours() -> float:
        def work() -> None:
            for _ in range(1000):
                check_batch(buffer, 0, header, require_key=True, earliest_ms=0, latest_ms=MAX_INT64)

        return timed(work) / 1000

    def plain() -> float:
        def work() -> None:
            for _ in range(10):
                assert sum(1 for _ in records_of(buffer, batch)) == count

        return timed(work) / 10

    return ratio_row(
        "check every record / plain Python reader", ours=ours, bare=plain, work=count / 1e6, unit="M rec/s", mark=40
    )


def segments_row(folder: Path) -> Row:
    """One append must cost the same however many segments the log has."""
    buffers = [batch_of_size(1024) for _ in range(64)]

    def append_at(segments: int) -> Callable[[], float]:
        def round_() -> float:
            directory = folder / f"segments-{segments}"
            log = open_log(directory)
            for _ in range(segments - 1):
                buffers[0][:8] = FROM_ZERO
                log.append_as_leader([buffers[0]], 0)
                log.roll()

            def work() -> None:
                append = log.append_as_leader
                for n in range(40_000):
                    buffer = buffers[n % 64]
                    buffer[:8] = FROM_ZERO
                    append([buffer], 0)

            took = timed(work)
            assert len(log.local.segments) == segments
            log.abandon()
            shutil.rmtree(directory)
            os.sync()
            return took

        return round_

    return ratio_row(
        "append at 100 segments / at 1 segment",
        ours=append_at(100),
        bare=append_at(1),
        work=40_000 / 1e3,
        unit="k/s",
        mark=0.9,
        spread_counts=True,
    )


def memory_row(folder: Path) -> Row:
    """Resident memory before and after 2 GB in 64 KB batches, written in steps of 0.5 GB with a sync between."""
    directory = folder / "memory-0"
    log = open_log(directory)
    buffers = [batch_of_size(65536) for _ in range(16)]

    def write(total_bytes: int) -> None:
        written = 0
        while written < total_bytes:
            for buffer in buffers:
                buffer[:8] = FROM_ZERO
                log.append_as_leader([buffer], 0)
                written += len(buffer)

    write(32 << 20)
    gc.collect()
    before = resident_mb()
    for _ in range(4):
        write(512 << 20)
        os.sync()
    gc.collect()
    grown = resident_mb() - before
    log.abandon()
    shutil.rmtree(directory)
    return Row(
        "resident memory grown over 2 GB appended",
        f"{grown:.1f} MB",
        "≤ 20 MB",
        "",
        f"{grown:.1f} MB",
        grown <= 20,
        {"grown_mb": grown},
    )


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


ROWS: dict[str, Callable[[Path], Row]] = {
    "append-64k": lambda folder: append_row(folder, "append 64 KB batches / bare CRC, check, write", 65536, 4000, 0.6),
    "append-1k": lambda folder: append_row(folder, "append 1 KB batches / bare CRC, check, write", 1024, 100_000, 0.3),
    "append-1k-together": lambda folder: append_row(
        folder, "append 1 KB batches, 16 in a call / bare", 1024, 100_000, 0.3, together=16
    ),
    "read-1m": read_row,
    "recover-16k": recovery_row,
    "check": check_row,
    "segments": segments_row,
    "memory": memory_row,
}
