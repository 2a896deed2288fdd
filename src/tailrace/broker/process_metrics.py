"""The broker's process: CPU, memory, descriptors, and how much of its time the node's thread is idle.

The names beginning with `process_` are Prometheus' own for every process (the JMX exporter has them too). Idleness
is that of the node's thread by its CPU clock, which costs the node nothing: what is not spent on a CPU counts as
idle, waiting for a disk or for the interpreter included. It stands for Kafka's idle share of network threads and of
request handlers: the node's thread does the work of both.

Who may call: one thread at a time, any.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Sample

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_MEAN_OVER_S: Final = 60.0


class ProcessMetrics:
    """Made on the node's thread, or with its `threading.get_ident()`."""

    def __init__(self, thread_id: int) -> None:
        self._cpu_clock = time.pthread_getcpuclockid(thread_id)
        self._last = (time.monotonic(), time.clock_gettime(self._cpu_clock))
        self._idle = 1.0
        self._started_at_s = _started_at_s()

    def read(self) -> Iterator[Sample]:
        idle = self._recent_idle_share()
        yield Gauge("server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", idle)
        yield Gauge("network", "SocketServer", "NetworkProcessorAvgIdlePercent", idle)
        with suppress(OSError, ValueError):
            done = dict(line.split(": ") for line in _text_of("/proc/self/io").splitlines())
            yield Gauge("server", "KafkaServer", "linux-disk-read-bytes", int(done["read_bytes"]))
            yield Gauge("server", "KafkaServer", "linux-disk-write-bytes", int(done["write_bytes"]))

    def _recent_idle_share(self) -> float:
        """A mean in which what is older weighs less, by e in a minute, however often it is read."""
        now, cpu = time.monotonic(), time.clock_gettime(self._cpu_clock)
        passed, used = now - self._last[0], cpu - self._last[1]
        if passed > 0:
            self._last = (now, cpu)
            share = min(max(1 - used / passed, 0.0), 1.0)
            self._idle = share + (self._idle - share) * math.exp(-passed / _MEAN_OVER_S)
        return self._idle

    def text(self) -> Iterator[bytes]:
        """What is not Kafka's, for Prometheus."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield _lines("process_cpu_seconds_total", "counter", usage.ru_utime + usage.ru_stime)
        yield _lines("process_start_time_seconds", "gauge", self._started_at_s)
        with suppress(OSError, ValueError):
            size, resident = (int(pages) * _PAGE_BYTES for pages in _text_of("/proc/self/statm").split()[:2])
            yield _lines("process_virtual_memory_bytes", "gauge", size)
            yield _lines("process_resident_memory_bytes", "gauge", resident)
        with suppress(OSError):
            yield _lines("process_open_fds", "gauge", len(os.listdir("/proc/self/fd")))
        yield _lines("process_max_fds", "gauge", resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _text_of(path: str) -> str:
    """Without pathlib, which takes half a megabyte that a broker does not need otherwise."""
    with open(path) as file:
        return file.read()


def _lines(name: str, kind: str, value: float) -> bytes:
    return f"# TYPE {name} {kind}\n{name} {value}\n".encode()


def _started_at_s() -> float:
    """Seconds since 1970; of now where /proc does not tell."""
    with suppress(OSError, ValueError, IndexError):
        after_name = _text_of("/proc/self/stat").rpartition(")")[2].split()
        ticks = int(after_name[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS_PER_S
    return time.time()
