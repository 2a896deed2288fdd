"""What a piece knows of producers at its two edges: numbers only, small, and good for JSON.

A task does not know what a producer did before its piece. It therefore judges nothing until its own batches have told
it all of a producer's state, and hands over the steps up to there. The driver plays them on the state in which the
pieces before left the producer (`job.stitching_producers`), by the very rules that the task uses
(`task.producer_judging`). So the findings are the same however a log is cut into pieces.

    steps                       tail
    TXN_DATA, COMMIT            the state at the end of the piece; None: the one that the steps lead to
    └ judged by the driver └ judged by the task

A *break* is a place where batches are damaged or missing: behind it nothing is known of any producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NONE: Final = -1
"""There is none: no batch, no open transaction, no marker so far."""
UNKNOWN: Final = -2
"""Nobody can know: taken away by retention, compaction or damage."""

# Kinds of steps
DATA: Final = 0
TXN_DATA: Final = 1
ABORT: Final = 2
COMMIT: Final = 3


class ProducerStep(NamedTuple):
    """A marker, or batches of data that follow each other with nothing to judge between them."""

    kind: int
    position: int
    offset: int
    """Base offset of the first batch."""
    last_offset: int
    """Of the last batch."""
    offset_delta: int
    """Last minus base offset of the last batch."""
    epoch: int
    first_sequence: int
    """NONE where there is none, as in markers."""
    last_sequence: int
    timestamp: int
    """Greatest one of the first batch."""
    last_timestamp: int
    """Greatest one of the last batch."""
    coordinator_epoch: int = NONE
    indexed_from: int = UNKNOWN
    """Of an abort marker: where its transaction began by the transaction index. NONE: the index does not name it."""
    whole_from: int = 0
    """From this offset on none is missing before the step; 0 where the piece has no gap before it."""


class ProducerState(NamedTuple):
    """A producer as of some offset. None, within a task only: as it was before the piece."""

    offset: int
    """Of the last batch or marker."""
    epoch: int | None
    sequence: int | None
    """The last one; NONE: the next batch has to begin with 0."""
    sequence_offset: int
    """Last offset of the batch of `sequence`; where that is NONE, of the marker that raised the epoch."""
    offset_delta: int
    timestamp: int
    coordinator_epoch: int | None
    ended_ms: int
    """When the last marker was written, by the clock of a broker; NONE or UNKNOWN without one that is known."""
    transaction: int | None
    """First offset of the open one."""
    is_begin_known: bool
    """Whether `transaction` is where it really began."""
    kind: int
    """Of the last step."""
    excused_epoch: int | None
    """The epoch fell with the last step: this one may go on, with any sequence."""
    excused_sequence: int | None
    """The sequence fell with the last step: the one behind this may go on."""

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction >= 0


class ProducerSeam(NamedTuple):
    """One producer in a stretch."""

    steps: tuple[ProducerStep, ...]
    tail: ProducerState | None


@dataclass(frozen=True)
class ProducerStretch:
    """All producers in a piece, or in the part of it up to the offset of a producer snapshot."""

    end_offset: int | None = None
    """Of the snapshot; None for the end of the piece."""
    has_break: bool = False
    """Of producers that are not in `producers` nothing is known from here on."""
    producers: Mapping[int, ProducerSeam] = field(default_factory=dict)
    whole_from: int = 0
    """From this offset on none is missing up to its end; 0 where it has no gap."""
