"""Many samples without an object each.

The interpreter's collector runs when many objects were made and kept, and then looks at every object there is: with
thousands of partitions that stops the broker for a tenth of a second and more. So a reading keeps the numbers and
texts themselves, which the collector does not count, and makes rows of them again when they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.metrics.metrics import Sample
from tailrace.metrics.row import Columns, Row


class Samples:
    __slots__ = ("_atoms",)

    def __init__(self) -> None:
        self._atoms: list[Any] = []  # for a row: its columns, its labels, its values; anything else as it is

    def add(self, sample: Sample) -> None:
        atoms = self._atoms
        if type(sample) is Row:
            columns, labels, values = sample
            atoms.append(columns)
            atoms += labels
            atoms += values
        else:
            atoms.append(sample)

    @property
    def mark(self) -> int:
        """Where it ends now; for `cut`."""
        return len(self._atoms)

    def cut(self, mark: int) -> None:
        """Take back what was added since."""
        del self._atoms[mark:]

    def __iter__(self) -> Iterator[Sample]:
        atoms = self._atoms
        place = 0
        while place < len(atoms):
            atom = atoms[place]
            place += 1
            if type(atom) is Columns:
                values_at = place + len(atom.tags)
                end = values_at + len(atom.names)
                yield Row(atom, tuple(atoms[place:values_at]), tuple(atoms[values_at:end]))
                place = end
            else:
                yield atom
