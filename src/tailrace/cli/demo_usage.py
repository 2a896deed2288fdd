"""What another process takes of this machine, read from /proc; nothing where there is no /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_USER_TICKS, _SYSTEM_TICKS = 11, 12  # fields of /proc/PID/stat behind the name, from 0 on
MEASURED_OVER_S: Final = 1.0


class Usage(NamedTuple):
    memory_bytes: int | None = None
    cores: float | None = None
    """0.5 is half a core."""


class UsageMeter:
    """`of` as often as one likes: how many cores is measured over a second or more."""

    def __init__(self, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock = clock
        self._pid = 0
        self._mark = (0.0, 0.0)
        self._cores: float | None = None

    def of(self, pid: int | None) -> Usage:
        try:
            ticks = (self._proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            pages = int((self._proc / str(pid) / "statm").read_text().split()[1])
            cpu_s = (int(ticks[_USER_TICKS]) + int(ticks[_SYSTEM_TICKS])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return Usage()
        now_s = self._clock()
        if pid != self._pid:
            self._pid, self._mark, self._cores = pid or 0, (now_s, cpu_s), None
        elif now_s - self._mark[0] >= MEASURED_OVER_S:
            self._cores = (cpu_s - self._mark[1]) / (now_s - self._mark[0])
            self._mark = (now_s, cpu_s)
        return Usage(pages * os.sysconf("SC_PAGE_SIZE"), self._cores)
