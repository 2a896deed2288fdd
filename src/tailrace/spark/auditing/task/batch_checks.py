"""Batches of magic 2 with right CRCs: everything else that must be true of each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from tailrace.env.files import Buffer
from tailrace.record.batch import CONTROL_BIT, BatchHeader
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.controls import check_controls
from tailrace.spark.auditing.task.counting import Counting
from tailrace.spark.auditing.task.faults import Fault
from tailrace.spark.auditing.task.headers import check_headers
from tailrace.spark.auditing.task.record_rows import RecordRows
from tailrace.spark.auditing.task.records import RecordChecks


class BatchChecks:
    """For all blocks of a piece."""

    def __init__(self, counting: Counting) -> None:
        self._records = RecordChecks(RecordRows(counting.sample, counting.sampled_of))

    @property
    def plain_bytes(self) -> Numbers:
        """Of each batch of the block that was checked last: its records without compression."""
        return self._records.plain_bytes

    def check(self, view: memoryview, starts: Numbers, block: Block) -> list[Fault]:
        """What is wrong; markers become part of the block. The batches stand in `view` at `starts`."""
        is_control = block.attributes & CONTROL_BIT != 0
        faults = chain(
            check_headers(block),
            self._records.check(view, starts, block, np.flatnonzero(~is_control)),
            check_controls(view, starts, block, np.flatnonzero(is_control)) if is_control.any() else (),
        )
        return list(faults)

    def in_blocks(self, pieces: Iterable[Buffer], header: BatchHeader) -> Iterator[Fault]:
        """The same of the records of one plain batch, which come in pieces."""
        return self._records.in_blocks(pieces, header, 0)
