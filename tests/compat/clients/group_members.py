"""The members of a group that a test starts, kills and lets leave, and what they tell of themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Producer
from kafkajs_driver import modules

from support.coordinators.group_history import KILLED, LEAVES, Event, faults, owned

HERE = Path(__file__).parent
PATIENCE_S = 60


class Kind(NamedTuple):
    """A library, and how it is set up."""

    library: str
    settings: Mapping[str, str] = {}


class Member:
    def __init__(self, name: str, kind: Kind, address: str, group: str, topic: str) -> None:
        self.name = name
        self.events: list[Event] = []
        if kind.library == "kafkajs":
            command = ["node", str(HERE / "group_member.js"), address, group, topic]
            environment = {**os.environ, "NODE_PATH": str(modules())}
        else:
            settings = json.dumps(dict(kind.settings))
            command = [sys.executable, str(HERE / "group_member.py"), kind.library, address, group, topic, settings]
            environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("}\n"):  # the last one of a process that was killed may be cut
                told = json.loads(line)
                partitions = tuple(told.get("partitions", ()))
                self.events.append(Event(told["at"], self.name, told["kind"], partitions, told.get("offset", -1)))

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Without a word."""
        self._process.send_signal(signal.SIGKILL)
        self._end()
        self.events.append(Event(time.monotonic_ns(), self.name, KILLED))

    def leave(self) -> None:
        self.ask_to_leave()
        assert self._end() == 0, f"{self.name} could not leave"
        assert any(each.kind == LEAVES for each in self.events)

    def ask_to_leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _end(self) -> int:
        code = self._process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return code

    def end(self) -> None:
        """In whatever state it is."""
        if not self.has_ended:
            self._process.kill()
        self._end()


class Members:
    """Of one group and topic. Leaving the `with` block ends those that still run."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self._place = (address, group, topic)
        self.started: list[Member] = []

    def __enter__(self) -> Members:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for member in self.started:
            member.end()

    def join(self, kind: Kind) -> Member:
        member = Member(f"{kind.library}-{len(self.started)}", kind, *self._place)
        self.started.append(member)
        return member

    def leave(self, present: list[Member]) -> None:
        """All of them, at the same time."""
        for member in present:
            member.ask_to_leave()
        for member in present:
            member.leave()

    def history(self) -> list[Event]:
        return [event for member in self.started for event in list(member.events)]

    def wait_until_owners_are(self, members: list[Member], partitions: int) -> None:
        """Each of them owns something, and together they own everything."""
        names = {member.name for member in members}

        def is_so() -> bool:
            found = {name: mine for name, mine in owned(self.history()).items() if mine}
            return found.keys() == names and set().union(*found.values()) == set(range(partitions))

        self._wait(is_so, members)

    def wait_until_handled(self, counts: Mapping[int, int], members: list[Member]) -> None:
        """Every partition up to its last record."""
        last = {(partition, count - 1) for partition, count in counts.items() if count}
        self._wait(lambda: last <= {(*event.partitions, event.offset) for event in self.history()}, members)

    def _wait(self, is_reached: Callable[[], bool], members: list[Member]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_reached():
            for member in members:
                assert not member.has_ended, f"{member.name} ended by itself"
            assert time.monotonic() < deadline, f"{owned(self.history())} after {PATIENCE_S} s"
            time.sleep(0.05)

    def faults(self, counts: Mapping[int, int]) -> list[str]:
        return faults(self.history(), counts)


class Feeder:
    """Writes to every partition in turn, all the while, until it is stopped."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.counts = dict.fromkeys(range(partitions), 0)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1})
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        while not self._is_stopped.wait(0.02):
            partition = min(self.counts, key=lambda each: self.counts[each])
            self._producer.produce(self._topic, b"%d" % self.counts[partition], partition=partition)
            self._producer.poll(0)
            self.counts[partition] += 1

    def stop(self) -> dict[int, int]:
        """How many records each partition has now."""
        self._is_stopped.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0
        return self.counts
