"""Batches that follow each other in a segment, all of them intact, as columns of numbers.

Intact: the frame is whole, the CRC right, header fields possible, every record decoded. Whatever is not is told to
rules as damage. Rules work on columns: a block has hundreds or thousands of batches, and no rule may take microseconds
for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Marker(NamedTuple):
    """A control batch that ends a transaction."""

    row: int
    """Which batch of the block."""
    is_commit: bool
    coordinator_epoch: int


@dataclass
class Block:
    """Columns of int64, one number for each batch. Only valid during the call that gets it."""

    position: Numbers
    size: Numbers
    magic: Numbers
    base_offset: Numbers
    """Of messages older than format v2 that are wrapped: the offset behind the batch before."""
    last_offset: Numbers
    leader_epoch: Numbers
    attributes: Numbers
    base_timestamp: Numbers
    max_timestamp: Numbers
    producer_id: Numbers
    producer_epoch: Numbers
    base_sequence: Numbers
    record_count: Numbers
    crc: Numbers
    markers: list[Marker] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.position)


class PieceRule(Protocol):
    """Sees a piece from its first byte to its last: blocks and damage in the order of positions."""

    def block(self, block: Block) -> None: ...

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        """Bytes [position, behind) are no batch that can be trusted.

        `next_offset`: where offsets go on behind it if the damaged batch can still say so, else None. Nothing that
        needs the batches in between (gaps, sequences, transactions, entries of indexes into it) may be judged across.
        There may be no bytes at all: then offsets are missing before `position`.
        """

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool) -> None:
        """The piece is over at `position`."""
