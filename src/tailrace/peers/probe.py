"""One attempt to connect, for evidence: whether a process listens on a port now. Nothing is sent."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.config.voters import Address
from tailrace.env import CloseReason, Network
from tailrace.peers.outcome import ProbeOutcome, ProbeResult


class Probe:
    """The listener of the attempt. `done` is called once, unless the probe is closed first."""

    __slots__ = ("_address", "_done", "_stream")

    def __init__(
        self, network: Network, address: Address, timeout_ms: int, done: Callable[[Probe, ProbeResult], None]
    ) -> None:
        self._address = address
        self._done = done
        self._stream = network.connect(address.host, address.port, self, timeout_ms)

    def connected(self) -> None:
        self._stream.close()
        self._end(ProbeOutcome.ACCEPTED, "")

    def received(self, data: memoryview) -> None:
        """Nothing is: the stream is closed as soon as it is connected."""

    def closed(self, reason: CloseReason, detail: str) -> None:
        is_refused = reason is CloseReason.REFUSED
        self._end(ProbeOutcome.REFUSED if is_refused else ProbeOutcome.UNREACHABLE, detail)

    def close(self) -> None:
        self._stream.close()
        self._end(ProbeOutcome.UNREACHABLE, "this node closes its connections")

    def _end(self, outcome: ProbeOutcome, detail: str) -> None:
        self._done(self, ProbeResult(self._address, outcome, detail))
