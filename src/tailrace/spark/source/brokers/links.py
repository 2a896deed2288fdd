"""Connections to brokers that outlive a task: a Python worker of Spark runs many, one after the other.

A link belongs to who borrowed it. It comes back when its work is done, whatever became of it: what is still under way
is given up first, and who borrows it next finds connections that a broker has closed meanwhile closed here too. After
an error that nobody understood it is closed instead.

A fork takes no link along: parent and child would talk on the same sockets.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.fetcher import Fetcher
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.client_settings import ClientSettings
from tailrace.spark.options.source import SourceOptions

MAX_IDLE: Final = 8


class Purpose(NamedTuple):
    """Links with the same purpose are as good as each other."""

    brokers: str
    client: ClientSettings
    isolation: int
    timeout_s: float


class Link:
    """A cluster, and who fetches from it into memory that is used again."""

    def __init__(self, purpose: Purpose) -> None:
        client = purpose.client
        self.purpose = purpose
        self.process_id = os.getpid()
        self.cluster = Cluster(purpose.brokers, client_id=client.client_id, timeout_s=purpose.timeout_s)
        self.fetcher = Fetcher(
            self.cluster,
            isolation=purpose.isolation,
            max_wait_ms=client.fetch_max_wait_ms,
            max_bytes=client.fetch_max_bytes,
            partition_max_bytes=client.max_partition_fetch_bytes,
            reuses_memory=True,
        )

    def rest(self) -> None:
        """Nobody waits for anything any more."""
        self.fetcher.abandon()

    def wake(self) -> None:
        self.cluster.close_lost()
        self.fetcher.close_lost()

    def close(self) -> None:
        self.fetcher.close()
        self.cluster.close()


class LinkPool:
    """Any thread may borrow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Link] = []

    @property
    def is_empty(self) -> bool:
        return not self._idle

    def borrow(self, purpose: Purpose) -> Link:
        with self._lock:
            found = next((link for link in reversed(self._idle) if link.purpose == purpose), None)
            if found is not None:
                self._idle.remove(found)
        if found is None:
            return Link(purpose)
        found.wake()
        return found

    def give_back(self, link: Link) -> None:
        if link.process_id != os.getpid():  # borrowed before a fork: the sockets are the parent's
            link.close()
            return
        link.rest()
        with self._lock:
            self._idle.append(link)
            oldest = self._idle.pop(0) if len(self._idle) > MAX_IDLE else None
        if oldest is not None:
            oldest.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def start_anew(self) -> None:
        """In the child of a fork, which may have come in the middle of anything."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()  # ours only: the parent has its own descriptors


POOL: Final = LinkPool()
os.register_at_fork(after_in_child=POOL.start_anew)
atexit.register(POOL.close)


@contextmanager
def link_for(options: SourceOptions, timeout_s: float | None = None) -> Iterator[Link]:
    """Borrowed for as long as the block lasts. `timeout_s` is for single operations, where the client's is longer."""
    link = POOL.borrow(purpose_of(options, timeout_s))
    try:
        yield link
    except (TailraceError, GeneratorExit):
        POOL.give_back(link)
        raise
    except BaseException:
        link.close()
        raise
    else:
        POOL.give_back(link)


def purpose_of(options: SourceOptions, timeout_s: float | None = None) -> Purpose:
    if options.brokers is None:
        raise PipelineError("no brokers are named")
    client = options.client
    bound_s = client.timeout_s if timeout_s is None else min(timeout_s, client.timeout_s)
    return Purpose(options.brokers, client, options.isolation, bound_s)
