"""Ids for idempotent producers, from blocks that the active controller allocates to each broker.

Ids are never given twice: a block belongs to this broker alone, and what a killed broker had left of one is lost, as is
a block whose response was lost. The next block is requested when nine tenths of one are used, so that requests rarely
wait.

A request for an id waits if the block is used up, but no longer than MAX_WAIT_MS after the first one that waits: the
controller may be unreachable for a minute. It then fails with COORDINATOR_LOAD_IN_PROGRESS, and the client retries.
Kafka does not wait at all. After an error, the next AllocateProducerIds is sent RETRY_BACKOFF_MS later at the earliest.

Who may call. Handlers, on the node's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.model.error_names import error_name
from tailrace.model.errors import CoordinatorLoadInProgressError, TailraceError
from tailrace.protocol.message import Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

_VERSION: Final = 0
_PREFETCH_DIVISOR: Final = 10
"""The next block is requested when 1/10 of this one is left."""
MAX_WAIT_MS: Final = 2000
MAX_WAITING: Final = 1000
RETRY_BACKOFF_MS: Final = 50

Done = Callable[[int], None]
Failed = Callable[[TailraceError], None]


class _Block(NamedTuple):
    first: int
    length: int


class ProducerIds:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._block = _Block(0, 0)
        self._used = 0
        self._next: _Block | None = None
        self._is_asking = False
        self._waiting: deque[tuple[Done, Failed]] = deque()
        self._retry_ms = 0
        self._wait = 0
        """Number of the timer that counts: earlier ones are void."""

    def take(self, done: Done, failed: Failed) -> None:
        """An id that no producer has had, now or when the controller has responded; retriable errors only."""
        if self._used == self._block.length and self._next is not None:
            self._block, self._used, self._next = self._next, 0, None
        if self._used == self._block.length:
            self._take_later(done, failed)
            return
        producer_id = self._block.first + self._used
        self._used += 1
        left = self._block.length - self._used
        if left <= self._block.length // _PREFETCH_DIVISOR and self._next is None:
            self._ask()
        done(producer_id)

    def _take_later(self, done: Done, failed: Failed) -> None:
        is_failing = not self._is_asking and self._node.env.clock.monotonic_ms() < self._retry_ms
        if is_failing or len(self._waiting) >= MAX_WAITING:
            failed(_no_ids_yet())
            return
        self._waiting.append((done, failed))
        if len(self._waiting) == 1:
            self._wait += 1
            self._node.env.jobs.later("producer-ids", MAX_WAIT_MS, partial(self._give_up, self._wait))
        self._ask()

    def _give_up(self, wait: int) -> None:
        if wait == self._wait:
            self._fail_waiting()

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, failed in waiting:
            failed(_no_ids_yet())

    def _ask(self) -> None:
        if self._is_asking or self._node.env.clock.monotonic_ms() < self._retry_ms:
            return
        self._is_asking = True
        node = self._node
        request = AllocateProducerIdsRequest(broker_id=node.node_id, broker_epoch=node.broker_epoch)
        node.controller.send(request, _VERSION, self._answered)

    def _answered(self, response: Response) -> None:
        self._is_asking = False
        assert isinstance(response, AllocateProducerIdsResponse), "a response has the type that belongs to its request"
        if response.error_code or response.producer_id_len <= 0 or response.producer_id_start < 0:
            _log.warning("no producer ids allocated error=%s", error_name(response.error_code))
            self._retry_ms = self._node.env.clock.monotonic_ms() + RETRY_BACKOFF_MS
            self._fail_waiting()
            return
        self._next = _Block(response.producer_id_start, response.producer_id_len)
        waiting, self._waiting = self._waiting, deque()
        for done, failed in waiting:
            self.take(done, failed)


def _no_ids_yet() -> TailraceError:
    return CoordinatorLoadInProgressError("the active controller has allocated no producer ids to this broker yet")
