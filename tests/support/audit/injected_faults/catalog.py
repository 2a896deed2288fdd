"""Faults to be found by an audit: each is planted in a small log directory of its own, and says what must be found.

A fault is a function that damages a `Case` and returns the finding that an audit must give: rule, file, offset. Files
that a fault is not about are made to agree with it, so that it is the only one; where one fault breaks two rules, the
other one is named in `also`. `plant_all` makes all of them beside each other, ready for one audit.

    segment_bytes       frames, CRCs, headers, records, ends of files
    batch_order         offsets and leader epochs
    indexes             indexes and snapshots
    producers           sequences, epochs, transactions
    checkpoints         checkpoints, metadata, replicas, compaction
    unreadable_files    what cannot be read, and formats of the future
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from support.audit.logs import Log, LogDirectory, Partition, busy
from support.logs.verification import edit_header
from tailrace.record.shallow import ShallowBatch


@dataclass(frozen=True)
class Expected:
    rule: str
    file: str
    """Below the case's folder."""
    offset: int | None
    also: frozenset[str] = frozenset()
    """Rules that the same fault may break as well."""


class Case:
    """A log directory with one partition, and a second one with a replica of it where a fault asks for it."""

    def __init__(self, root: Path, name: str, log: Log, node: int) -> None:
        self.root = root / name
        self.name = f"{name}-0"
        self._log = log
        self._node = node
        self.directory = LogDirectory(self.root / "one", node=node)
        self.partition = self.directory.put(self.name, log)

    def replica(self, log: Log | None = None) -> tuple[LogDirectory, Partition]:
        """On another broker."""
        directory = LogDirectory(self.root / "two", node=self._node + 1)
        return directory, directory.put(self.name, log or self._log)

    def expects(self, rule: str, file: Path, offset: int | None = None, also: Iterable[str] = ()) -> Expected:
        return Expected(rule, str(file.relative_to(self.root)), offset, frozenset(also))

    def at(self, rule: str, segment: int, place: int, also: Iterable[str] = ()) -> Expected:
        """A finding about a batch, by where it stands now."""
        return self.expects(rule, self.log(segment), self.batch(segment, place).base_offset, also)

    def log(self, segment: int) -> Path:
        return self.partition.file(segment)

    def batch(self, segment: int, place: int) -> ShallowBatch:
        return self.partition.batch(segment, place)

    def header(self, segment: int, place: int, **fields: int) -> None:
        """Another header, with the right CRC."""
        edit_header(self.log(segment), self.batch(segment, place).position, **fields)

    def flip(self, segment: int, place: int, byte: int, bit: int = 0) -> None:
        """A bit of a batch."""
        flip(self.log(segment), self.batch(segment, place).position + byte, bit)

    def forget_snapshots(self) -> None:
        """A log without snapshots is as good as one with them."""
        for file in self.partition.folder.glob("*.snapshot"):
            file.unlink()


Plant = Callable[[Case], Expected]


@dataclass(frozen=True)
class Fault:
    name: str
    base: Callable[[], Log]
    plant: Plant


CATALOGUE: list[Fault] = []


def fault(base: Callable[[], Log] = busy) -> Callable[[Plant], Plant]:
    """Enters a function into the catalogue; `base` is the log that it damages."""

    def enter(plant: Plant) -> Plant:
        CATALOGUE.append(Fault(plant.__name__.replace("_", "-"), base, plant))
        return plant

    return enter


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def garbage(size: int) -> bytes:
    """No batch, and nothing like one."""
    return bytes(random.Random(size).choices(range(200, 256), k=size))


def all_faults() -> list[Fault]:
    for part in ("segment_bytes", "batch_order", "indexes", "producers", "checkpoints", "unreadable_files"):
        import_module(f"support.audit.injected_faults.{part}")
    return CATALOGUE


def plant(fault: Fault, root: Path, node: int = 1) -> tuple[Case, Expected]:
    case = Case(root, fault.name, fault.base(), node)
    return case, fault.plant(case)


def plant_all(root: Path) -> dict[str, tuple[Case, Expected]]:
    """Every fault in a log directory of its own, all of one cluster."""
    return {fault.name: plant(fault, root, 2 * number + 1) for number, fault in enumerate(all_faults())}
