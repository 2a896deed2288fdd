"""Sees the batches that a node appends to its metadata log: by the bytes that are written, not by what the node says.

A write may end within a batch, and the next one continues it; after a crash another batch takes its position.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.protocol.message import Record
from tailrace.raft.control_batch import control_records
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.sim.machine import Machine
from tailrace.storage.names import LOG_SUFFIX

METADATA_LOG: Final = "/__cluster_metadata-0/"


class AppendedBatch(NamedTuple):
    machine: str
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    controls: tuple[Record, ...]


class AppendWatch:
    """Reports each batch as an event `append` of the machine, when its last byte is written."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._path = ""
        self._end = -1
        """The position after the last write to the file."""
        self._rest = b""
        """Of the last write: the beginning of a batch."""

    def wrote(self, path: str, data: bytes, position: int) -> None:
        """For `SimDisk.watch_writes`."""
        if METADATA_LOG not in path or not path.endswith(LOG_SUFFIX):
            return
        continues = path == self._path and position == self._end
        rest = self._rest + data if continues else data
        self._path, self._end = path, position + len(data)
        end = 0
        for batch in batches(rest):
            self._appended(rest, batch)
            end = batch.end
        self._rest = rest[end:]

    def _appended(self, data: bytes, batch: ShallowBatch) -> None:
        controls = tuple(record for _, record in control_records(data, batch)) if batch.is_control else ()
        found = AppendedBatch(
            self._machine.name, batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, controls
        )
        text = f"offsets {batch.base_offset} to {batch.last_offset} in epoch {batch.leader_epoch}, crc {batch.crc:08x}"
        self._machine.universe.log.add(self._machine.name, "append", text, data=found)
