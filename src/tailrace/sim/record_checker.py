"""Promises of a single broker to its clients, checked while they are given.

- A record that was acknowledged after its flush is there from then on, unchanged, at its offset, until the end.
- The high watermark is never below an offset that was acknowledged before the fetch was sent.
- Records that were read but not acknowledged may be lost with the power, and with nothing else.
- Offsets have no gaps.
- What arrives was sent while the sending process lived.
"""

from __future__ import annotations

from typing import Any

from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.process import Process
from tailrace.sim.record_client import Acked, Read


class RecordChecker(Checker):
    kinds = frozenset({"acked", "asking", "read", "out-of-range", "power-off"})

    def __init__(self) -> None:
        self.acked_records = 0
        self.read_records = 0
        self._acked: dict[str, dict[int, bytes]] = {}
        self._acked_end: dict[str, int] = {}
        self._seen: dict[str, dict[int, bytes]] = {}
        self._floors: dict[str, tuple[Any, dict[str, int]]] = {}

    def on_event(self, event: Event) -> None:
        match event.kind:
            case "acked":
                self._on_acked(event.data)
            case "asking":
                self._floors[event.machine] = event.data, dict(self._acked_end)
            case "read" | "out-of-range":
                self._on_read(event.machine, event.data)
            case _:
                # What was read and not acknowledged was perhaps never flushed.
                self._seen.pop(event.machine, None)

    def acked_end(self, broker: str) -> int:
        """The offset after the last one that was acknowledged."""
        return self._acked_end.get(broker, 0)

    def _on_acked(self, acked: Acked) -> None:
        known = self._acked.setdefault(acked.broker, {})
        seen = self._seen.setdefault(acked.broker, {})
        for offset, value in enumerate(acked.values, acked.base_offset):
            before = known.setdefault(offset, value)
            if before != value:
                raise Violation(f"{acked.broker} acknowledged {_shown(before)} and {_shown(value)} at offset {offset}")
            if seen.get(offset, value) != value:
                returned = _shown(seen[offset])
                raise Violation(f"{acked.broker} returned {returned} at offset {offset}, acknowledged {_shown(value)}")
        self.acked_records += len(acked.values)
        end = acked.base_offset + len(acked.values)
        self._acked_end[acked.broker] = max(self.acked_end(acked.broker), end)

    def _on_read(self, client: str, read: Read) -> None:
        request, floors = self._floors[client]
        floor = floors.get(read.broker, 0) if request == read.request else 0
        if read.high_watermark == -1:
            if read.offset <= floor:
                raise Violation(f"{read.broker} has no offset {read.offset}, and acknowledged up to {floor}")
            return
        if read.high_watermark < floor:
            raise Violation(
                f"{read.broker} has the high watermark {read.high_watermark} after it acknowledged up to {floor}"
            )
        known = self._acked.get(read.broker, {})
        seen = self._seen.setdefault(read.broker, {})
        for expected, (offset, value) in enumerate(read.records, read.offset):
            if offset != expected:
                raise Violation(f"{read.broker} returned offset {offset} where {expected} was expected")
            before = known.get(offset) or seen.setdefault(offset, value)
            if before != value:
                raise Violation(
                    f"{read.broker} returned {_shown(value)} at offset {offset}, and before {_shown(before)}"
                )
        self.read_records += len(read.records)


class LivingSenders(Checker):
    kinds = frozenset({"message"})

    def on_event(self, event: Event) -> None:
        sender: Process = event.data
        if sender.ended_us is not None and event.sent_us > sender.ended_us:
            raise Violation(f"{event.machine} got what {event.peer} sent after the end of its process: {event.text}")


def _shown(value: bytes) -> str:
    return value[:40].decode("utf-8", "replace")
