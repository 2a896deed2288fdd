"""Log lines about requests of the quorum that are refused: by this node, or by another one. Each says what to do.

A node that is refused asks again and again, so lines of one kind follow each other at growing intervals.
"""

from __future__ import annotations

import logging
from typing import Final

from tailrace.config.voters import Address
from tailrace.env import Clock
from tailrace.model.error_names import error_name
from tailrace.model.line_limit import LineLimit
from tailrace.protocol.message import Request
from tailrace.raft.consensus.messages import Response
from tailrace.raft.wire import RefusedRequestError

_NO_CONTROLLER: Final = (
    "it may be no controller listener, check controller.quorum.bootstrap.servers and controller.quorum.voters"
)
_SETTINGS: Final = {
    3: _NO_CONTROLLER,  # UNKNOWN_TOPIC_OR_PARTITION: brokers serve no metadata log
    42: _NO_CONTROLLER,  # INVALID_REQUEST
    94: "the nodes have different voters, check controller.quorum.voters",  # INCONSISTENT_VOTER_SET
    100: _NO_CONTROLLER,  # UNKNOWN_TOPIC_ID
    104: "it belongs to another cluster, check controller.quorum.bootstrap.servers and log.dirs",
}
"""By error code, what is wrong with the settings. Other errors belong to elections and pass."""

_log = logging.getLogger(__name__)


class RefusalLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = LineLimit()

    def refused_here(self, request: Request, error: RefusedRequestError) -> None:
        kind = type(request).__name__
        if self._lines.is_due(kind, self._clock.monotonic_ms()):
            _log.warning("request of another node is refused request=%s: %s", kind, error)

    def invalid_response(self, address: Address, error: Exception) -> None:
        if self._lines.is_due("response", self._clock.monotonic_ms()):
            _log.warning("response of another node is refused address=%s: %s", address, error)

    def refused_there(self, address: Address, response: Response) -> None:
        """Nothing is logged unless the response says that a setting is wrong."""
        code = int(getattr(response, "error", 0))
        if code in _SETTINGS and self._lines.is_due(code, self._clock.monotonic_ms()):
            _log.warning(
                "node refuses requests of the quorum address=%s error=%s: %s",
                address,
                error_name(code),
                _SETTINGS[code],
            )
