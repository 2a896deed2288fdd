"""Which broker coordinates a group or a transactional id, found and kept until it turns out wrong.

`ask` is how everything that speaks to a coordinator tries again: after errors that pass, with growing pauses, and with
the coordinator looked up anew where the one we asked is none any more, or cannot be reached.

One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.errors import (
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    ConnectionLostError,
    NoAnswerError,
    error_of,
)
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1

_NOUNS: Final = {GROUP: "group", TRANSACTION: "transactional id"}

T = TypeVar("T")


class Coordinators:
    """Of one kind: of groups, or of transactional ids."""

    def __init__(self, cluster: Cluster, kind: int) -> None:
        self._cluster = cluster
        self._kind = kind
        self._known: dict[str, int] = {}

    def of(self, key: str) -> int:
        """The node that coordinates `key`."""
        return self.of_all([key])[key]

    def of_all(self, keys: Iterable[str]) -> dict[str, int]:
        """One request for those that are not known yet; all of them, or the error of one."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._known]
        if missing:
            self._cluster.retry(f"looking for the coordinator of {missing[0]}", lambda: self._find(missing))
        return {key: self._known[key] for key in wanted}

    def by_node(self, keys: Iterable[str]) -> Mapping[int, list[str]]:
        """The keys by the node that coordinates them."""
        nodes: dict[int, list[str]] = {}
        for key, node_id in self.of_all(keys).items():
            nodes.setdefault(node_id, []).append(key)
        return nodes

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    def ask(self, doing: str, key: str, attempt: Callable[[int], T], *, timeout_s: float | None = None) -> T:
        """What `attempt` gives, called with the coordinator's node until no error that passes is left."""

        def once() -> T:
            try:
                return attempt(self.of(key))
            except TailraceError as error:
                if error.code in (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE) or isinstance(error, _NOBODY_THERE):
                    self.forget(key)
                raise

        return self._cluster.retry(doing, once, timeout_s=timeout_s)

    def _find(self, keys: list[str]) -> None:
        request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=keys)
        response: FindCoordinatorResponse = self._cluster.call(request)
        trouble: TailraceError | None = None
        for each in response.coordinators:
            if each.error_code == NONE:
                self._known[each.key] = each.node_id
            else:
                message = each.error_message or f"there is no coordinator of {_NOUNS[self._kind]} {each.key} now"
                trouble = trouble or error_of(each.error_code, message)
        silent = [key for key in keys if key not in self._known]
        if trouble is None and silent:
            trouble = ConnectionLostError(f"the broker says nothing about {_NOUNS[self._kind]} {silent[0]}")
        if trouble is not None:
            raise trouble


_NOBODY_THERE: Final = (ConnectionLostError, NoAnswerError)
