"""A reply that the state machine holds: joins wait for the other members, syncs for the leader's assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class HeldReply(Generic[R]):
    """Answers once. Several may try: the rebalance, the end of a session, a failed append, the end of the shard."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Callable[[R], None]) -> None:
        self._reply: Callable[[R], None] | None = reply

    def __call__(self, response: R) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply(response)
