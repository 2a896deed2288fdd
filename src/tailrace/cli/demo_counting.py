"""The demo's orders counted by Spark as well, and put into a table, in a process of its own: the stream does not wait.

That process is `demo_counting_query`; it says in lines of JSON how far it is, and ends when its standard input does.
Two lines may come there before: one asks it to read the topic no more, the other for an audit of what the demo wrote.
All that it leaves is in one directory, which goes with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from tailrace.cli.demo_facts import (
    NO_TABLE,
    NOT_AUDITED,
    NOT_COUNTED,
    Audited,
    Auditing,
    Counted,
    Counting,
    Sales,
    Tabled,
    Tabling,
)
from tailrace.model.ids import TopicPartition

QUERY: Final = "tailrace.cli.demo_counting_query"
NEEDED: Final = ("pyspark", "pyarrow")
ENDS_WITHIN_S: Final = 10.0
READ_BYTES: Final = 65_536


class Counter(Protocol):
    def now(self) -> Counted: ...

    def table(self) -> Tabled:
        """As of the last `now`."""
        ...

    def audited(self) -> Audited:
        """As of the last `now`."""
        ...

    def halt(self) -> None:
        """Ask it to read the topic no more: `audited` is ready then."""

    def audit(self, directory: str, page: str) -> None:
        """Ask for an audit of a log directory, with a page about it."""

    def close(self) -> None: ...


def counter(bootstrap: str, ends: Mapping[TopicPartition, int], *, is_wanted: bool) -> Counter:
    """Of what comes behind `ends`."""
    if not is_wanted:
        return NoCounter(NOT_COUNTED)
    if any(find_spec(name) is None for name in NEEDED):
        return NoCounter(Counted(Counting.MISSING))
    return SparkCounter(bootstrap, ends)


class NoCounter:
    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def now(self) -> Counted:
        return self._counted

    def table(self) -> Tabled:
        return NO_TABLE

    def audited(self) -> Audited:
        return NOT_AUDITED

    def halt(self) -> None:
        pass

    def audit(self, directory: str, page: str) -> None:
        pass

    def close(self) -> None:
        pass


class SparkCounter:
    def __init__(self, bootstrap: str, ends: Mapping[TopicPartition, int], query: str = QUERY) -> None:
        offsets: dict[str, dict[str, int]] = {}
        for partition, end in ends.items():
            offsets.setdefault(partition.topic, {})[str(partition.partition)] = end
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-demo-spark-"))
        self._unread = b""
        self._now = Counted(Counting.STARTING)
        self._table = Tabled(Tabling.STARTING)
        self._audited = NOT_AUDITED
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", query, bootstrap, json.dumps(offsets), str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the demo alone
            )
        assert self._process.stdout is not None
        self._said = self._process.stdout.fileno()
        os.set_blocking(self._said, False)

    @property
    def _errors(self) -> Path:
        return self._folder / "stderr"

    def now(self) -> Counted:
        """What has been said so far; never waits."""
        while self._now.state is not Counting.FAILED:
            try:
                piece = os.read(self._said, READ_BYTES)
            except BlockingIOError:
                break
            if not piece:
                self._now = self._now._replace(state=Counting.FAILED, trouble=self._last_words())
                if self._table.state in (Tabling.STARTING, Tabling.FILLING):
                    self._table = self._table._replace(state=Tabling.FAILED, trouble=self._now.trouble)
                if self._audited.state in (Auditing.READY, Auditing.RUNNING):
                    self._audited = Audited(Auditing.FAILED, trouble=self._now.trouble)
                break
            *lines, self._unread = (self._unread + piece).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        return self._now

    def table(self) -> Tabled:
        return self._table

    def audited(self) -> Audited:
        return self._audited

    def halt(self) -> None:
        self._ask({"halt": True})

    def audit(self, directory: str, page: str) -> None:
        self._ask({"audit": directory, "page": page})

    def _ask(self, what: dict[str, Any]) -> None:
        """Whoever is gone says so by the end of what it says."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(what).encode() + b"\n")

    def _take(self, content: dict[str, Any]) -> None:
        audited = content.pop("audit", None)
        if audited is not None:
            self._audited = Audited(**{**audited, "state": Auditing(audited["state"])})
            return
        table = content.pop("table", None)
        if table is None:
            self._now = Counted(**{**content, "state": Counting(content["state"])})
            return
        sales = tuple(Sales(*each) for each in table.get("sales", ()))
        self._table = Tabled(**{**table, "state": Tabling(table["state"]), "sales": sales})

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        # One that is only starting has nothing to put in order.
        patience_s = 0.0 if self._now.state is Counting.STARTING else ENDS_WITHIN_S
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "its process ended")
