"""Ids for idempotent producers, out of blocks that the controller gives to each broker.

Ids are never given twice: a block belongs to this broker alone, and what a killed broker had left of one is lost. The
next block is asked for when nine tenths of one are used, so that as a rule nobody waits.

Who may call. Handlers, on the node's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.model.errors import CoordinatorLoadInProgressError, TailraceError
from tailrace.protocol.message import Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

_VERSION: Final = 0
_NO_EPOCH: Final = -1
_PREFETCH_DIVISOR: Final = 10  # the next block is asked for when so many-th of this one is left

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

    def take(self, done: Done, failed: Failed) -> None:
        """An id that no producer has had, now or when the controller has answered; retriable errors only."""
        if self._used == self._block.length and self._next is not None:
            self._block, self._used, self._next = self._next, 0, None
        if self._used == self._block.length:
            self._waiting.append((done, failed))
            self._ask()
            return
        producer_id = self._block.first + self._used
        self._used += 1
        left = self._block.length - self._used
        if left <= self._block.length // _PREFETCH_DIVISOR and self._next is None:
            self._ask()
        done(producer_id)

    def _ask(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        node = self._node
        broker = node.image.brokers.get(node.node_id)
        request = AllocateProducerIdsRequest(
            broker_id=node.node_id, broker_epoch=_NO_EPOCH if broker is None else broker.epoch
        )
        node.controller.send(request, _VERSION, self._answered)

    def _answered(self, response: Response) -> None:
        self._is_asking = False
        waiting, self._waiting = self._waiting, deque()
        if (
            isinstance(response, AllocateProducerIdsResponse)
            and not response.error_code
            and response.producer_id_len > 0
        ):
            self._next = _Block(response.producer_id_start, response.producer_id_len)
            for done, failed in waiting:
                self.take(done, failed)
            return
        _log.warning("the controller gave no producer ids: %s", response)
        for _, failed in waiting:
            failed(CoordinatorLoadInProgressError("the controller has given this broker no producer ids yet"))
