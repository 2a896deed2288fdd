"""The batches of a block as steps of their producers, so that one that merely goes on costs nothing for each batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.record.batch import CONTROL_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.producer_judging import EXPIRATION_MS, SEQUENCE_MASK, Judged
from tailrace.spark.auditing.task.producer_seam import ABORT, COMMIT, DATA, NONE, TXN_DATA, UNKNOWN, ProducerStep

_NO_KIND: Final = -1
_KIND_BITS: Final = TRANSACTIONAL_BIT | CONTROL_BIT

Steps = Iterator[tuple[int, int, ProducerStep]]


def steps_of(block: Block, rows: slice, breaks: Numbers, whole_from: Numbers, judged: Judged) -> Steps:
    """(producer id, breaks before, step): the steps of each producer in their order, one producer after the other.

    `breaks`: for each batch of the block how many breaks stand before it. No step goes across one. `whole_from`: for
    each the offset from which on none is missing before it.
    """
    producer_ids = block.producer_id[rows]
    first, last = rows.start, rows.stop - 1
    if not block.markers and (producer_ids == producer_ids[0]).all():
        if producer_ids[0] < 0:
            return
        if breaks[first] == breaks[last] and _is_one_step(block, rows):
            yield int(producer_ids[0]), int(breaks[first]), _one_step(block, first, last, int(whole_from[first]))
            return
    yield from _Table(block, rows, breaks, whole_from).steps(judged)


def _is_one_step(block: Block, rows: slice) -> bool:
    """Whether batches of one producer merely continue each other. Where sequences wrap, `_Table` is asked."""
    timestamps = block.max_timestamp[rows]
    attributes = block.attributes[rows] & _KIND_BITS
    sequences = block.base_sequence[rows]
    if sequences[0] < 0 or attributes[0] & CONTROL_BIT:
        return False
    behind = sequences + block.last_offset[rows]
    behind -= block.base_offset[rows]
    epochs, magics = block.producer_epoch[rows], block.magic[rows]
    return bool(
        (sequences[1:] - behind[:-1] == 1).all()
        and (epochs == epochs[0]).all()
        and (attributes == attributes[0]).all()
        and (magics == MAGIC_V2).all()
        and (timestamps.max() - timestamps.min() < EXPIRATION_MS)
    )


def _one_step(block: Block, first: int, last: int, whole_from: int) -> ProducerStep:
    delta = int(block.last_offset[last] - block.base_offset[last])
    return ProducerStep(
        TXN_DATA if int(block.attributes[first]) & TRANSACTIONAL_BIT else DATA,
        int(block.position[first]),
        int(block.base_offset[first]),
        int(block.last_offset[last]),
        delta,
        int(block.producer_epoch[first]),
        int(block.base_sequence[first]),
        int(block.base_sequence[last] + delta) & SEQUENCE_MASK,
        int(block.max_timestamp[first]),
        int(block.max_timestamp[last]),
        whole_from=whole_from,
    )


class _Table:
    """The batches of producers as columns, those of each producer together."""

    def __init__(self, block: Block, rows: slice, breaks: Numbers, whole_from: Numbers) -> None:
        kinds, coordinator_epochs = _kinds(block)
        chosen = np.flatnonzero((block.producer_id[rows] >= 0) & (kinds[rows] != _NO_KIND))
        chosen += rows.start
        producer_ids = block.producer_id[chosen]
        if len(chosen) and (producer_ids != producer_ids[0]).any():
            chosen = chosen[np.argsort(producer_ids, kind="stable")]
        self._columns = np.array(
            (
                block.producer_id,
                breaks,
                kinds,
                block.position,
                block.base_offset,
                block.last_offset,
                block.producer_epoch,
                block.base_sequence,
                block.max_timestamp,
                coordinator_epochs,
                whole_from,
            )
        )[:, chosen]

    def steps(self, judged: Judged) -> Steps:
        columns = self._columns
        if not columns.shape[1]:
            return
        starts = self._starts(judged)
        ends = np.append(starts[1:], columns.shape[1]) - 1
        firsts, lasts = columns[:, starts].T.tolist(), columns[:, ends].T.tolist()
        for row, last in zip(firsts, lasts, strict=True):
            producer_id, generation, kind, position, offset, _, epoch, first_sequence, timestamp, *rest = row
            last_offset, last_sequence = last[5], last[7]
            delta = last_offset - last[4]
            if kind > TXN_DATA or first_sequence < 0:
                first_sequence = last_sequence = NONE
            else:
                last_sequence = (last_sequence + delta) & SEQUENCE_MASK
            yield (
                producer_id,
                generation,
                ProducerStep(
                    kind,
                    position,
                    offset,
                    last_offset,
                    delta,
                    epoch,
                    first_sequence,
                    last_sequence,
                    timestamp,
                    last[8],
                    rest[0],
                    UNKNOWN,
                    rest[1],
                ),
            )

    def _starts(self, judged: Judged) -> npt.NDArray[np.intp]:
        """Where steps begin: all but the batches that merely continue (`producer_judging.goes_on`)."""
        columns = self._columns
        producer_ids, breaks, kinds, _, base_offsets, last_offsets, epochs, sequences, timestamps, *_ = columns
        begins = np.ones(len(kinds), np.bool_)
        rest = begins[1:]
        rest[:] = kinds[1:] > TXN_DATA
        for column in (producer_ids, breaks, kinds, epochs):
            rest |= column[1:] != column[:-1]
        rest |= (timestamps[:-1] >= 0) & (timestamps[1:] - timestamps[:-1] >= EXPIRATION_MS)
        if judged.judges_sequences:
            behind = (sequences + (last_offsets - base_offsets + 1)) & SEQUENCE_MASK
            rest |= (sequences[1:] < 0) | (sequences[:-1] < 0) | (sequences[1:] != behind[:-1])
        return np.flatnonzero(begins)


def _kinds(block: Block) -> tuple[Numbers, Numbers]:
    """The kind of step that each batch is, and the coordinator epochs of markers."""
    kinds = (block.attributes & TRANSACTIONAL_BIT) // TRANSACTIONAL_BIT
    kinds[((block.attributes & CONTROL_BIT) != 0) | (block.magic != MAGIC_V2)] = _NO_KIND
    coordinator_epochs = np.full(len(kinds), NONE, np.int64)
    for marker in block.markers:
        kinds[marker.row] = COMMIT if marker.is_commit else ABORT
        coordinator_epochs[marker.row] = marker.coordinator_epoch
    return kinds, coordinator_epochs
