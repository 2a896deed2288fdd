"""The loop that drives a broker: sockets that are ready, jobs that are done, deadlines that have come.

One thread runs it, and that thread owns everything behind it. It is a plain epoll loop and not asyncio or uvloop: the
node is synchronous, and sendfile, receive buffers and back-pressure need to be said exactly (decision 0009).

What a callback raises ends the loop: callbacks deal with what can go wrong in them.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from typing import Final, Protocol

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
GONE: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR

LONGEST_WAIT_MS: Final = 1000
EVENTS_AT_A_TIME: Final = 256


class Driven(Protocol):
    """Has something to do at certain times, by the monotonic clock."""

    def due_ms(self) -> int | None: ...

    def run_due(self, now_ms: int) -> None: ...


class Reactor:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._soon: list[Callable[[], None]] = []
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_woken = False
        self._is_stopped = False
        self.now_ms = time.monotonic_ns() // 1_000_000
        """Monotonic, of this round."""
        self.waited_ns = 0
        """Time spent without anything to do, since the start."""
        self.add(self._wake_fd, READABLE, self._woken)

    def add(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """`callback` gets the events whenever some have come; GONE is always among them."""
        self._epoll.register(fd, events | select.EPOLLRDHUP)
        self._callbacks[fd] = callback

    def change(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events | select.EPOLLRDHUP)

    def remove(self, fd: int) -> None:
        """Before the descriptor is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` at the end of this round, or of the next one if none runs now."""
        self._soon.append(action)

    def wake(self) -> None:
        """From any thread, or a signal's handler: begin a new round now."""
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EBADF):  # it is awake already, or over
                raise

    def _woken(self, events: int) -> None:
        os.eventfd_read(self._wake_fd)
        self._is_woken = True

    def stop(self) -> None:
        self._is_stopped = True
        self.wake()

    def run(self, driven: Driven) -> None:
        """Until `stop`.

        While sockets keep it busy, `driven` is asked at most once a millisecond: that is how exact its times are, and
        whoever completes a job wakes the loop.
        """
        poll, callbacks, clock = self._epoll.poll, self._callbacks, time.monotonic_ns
        asked_ms = -1
        while not self._is_stopped:
            events = poll(0, EVENTS_AT_A_TIME)
            if not events:
                before = clock()
                events = poll(self._wait_s(driven, before // 1_000_000), EVENTS_AT_A_TIME)
                self.waited_ns += clock() - before
            now_ms = self.now_ms = clock() // 1_000_000
            for fd, happened in events:
                callback = callbacks.get(fd)
                if callback is not None:  # an earlier callback of the round may have removed it
                    callback(happened)
            if self._is_woken or now_ms != asked_ms or not events:
                self._is_woken = False
                asked_ms = now_ms
                driven.run_due(now_ms)
            while self._soon:
                actions, self._soon = self._soon, []
                for action in actions:
                    action()

    def _wait_s(self, driven: Driven, now_ms: int) -> float:
        if self._soon:
            return 0
        due_ms = driven.due_ms()
        if due_ms is None:
            return LONGEST_WAIT_MS / 1000
        return min(max(due_ms - now_ms, 0), LONGEST_WAIT_MS) / 1000

    def close(self) -> None:
        self._epoll.close()
        os.close(self._wake_fd)
