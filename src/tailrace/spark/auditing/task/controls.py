"""Control batches of a block. Where transactions are small every second batch is one, so markers as every broker writes
them are read all at once; whatever looks otherwise is decoded one by one.

A marker is one record without compression:

    61  length 16 as zigzag      1 byte   0x20
    62  attributes               1 byte   unused
    63  timestamp, offset delta  2 bytes  0, 0
    65  key length 4             1 byte   0x08
    66  version, type            int16 each
    70  value length 6           1 byte   0x0C
    71  version                  int16
    73  coordinator epoch        int32
    77  header count             1 byte   0

Its batch is transactional; those of a quorum's own records are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.model.errors import TailraceError
from tailrace.record.batch import CODEC_MASK, TRANSACTIONAL_BIT
from tailrace.record.control import ABORT, COMMIT, KRAFT_VOTERS, read_control
from tailrace.record.reader import records_of
from tailrace.record.shallow import next_batch
from tailrace.spark.auditing.rules import BAD_CONTROL, BAD_HEADER, UNKNOWN_FORMAT
from tailrace.spark.auditing.task.block import Block, Marker, Numbers
from tailrace.spark.auditing.task.faults import Fault

MOST_CONTROL_BYTES: Final = 1 << 20
_MARKER_BYTES: Final = 78
_MARKERS: Final = np.dtype(
    {
        "names": [
            "length",
            "deltas",
            "key_length",
            "key_version",
            "type",
            "value_length",
            "version",
            "epoch",
            "headers",
        ],
        "formats": ["u1", ">i2", "u1", ">i2", ">i2", "u1", ">i2", ">i4", "u1"],
        "offsets": [61, 63, 65, 66, 68, 70, 71, 73, 77],
        "itemsize": _MARKER_BYTES,
    }
)


def check_controls(view: memoryview, starts: Numbers, block: Block, of: Numbers) -> Iterator[Fault]:
    """The control batches with the numbers in `of`; those that end transactions become markers of the block."""
    is_usual = np.zeros(len(of), bool)
    sized = np.flatnonzero(block.size[of] == _MARKER_BYTES)
    if len(sized):
        everywhere = np.ndarray((len(view) - _MARKER_BYTES + 1,), _MARKERS, view, strides=(1,))
        found = everywhere[starts[of[sized]]]
        usual = _usual(block, of[sized], found)
        is_usual[sized[usual]] = True
        rows, types, epochs = of[sized[usual]].tolist(), found["type"][usual].tolist(), found["epoch"][usual].tolist()
        block.markers += [
            Marker(row, kind == COMMIT, epoch) for row, kind, epoch in zip(rows, types, epochs, strict=True)
        ]
    if not is_usual.all():
        for row in of[~is_usual].tolist():
            fault = _read(view, int(starts[row]), block, row)
            if fault is not None:
                yield fault
        block.markers.sort()


def _usual(block: Block, rows: Numbers, found: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    is_shaped = (
        (found["length"] == 0x20)
        & (found["deltas"] == 0)
        & (found["key_length"] == 0x08)
        & (found["key_version"] >= 0)
        & ((found["type"] == 0) | (found["type"] == COMMIT))
        & (found["value_length"] == 0x0C)
        & (found["version"] >= 0)
        & (found["headers"] == 0)
    )
    is_single = (block.record_count[rows] == 1) & (block.base_offset[rows] == block.last_offset[rows])
    is_plain = block.attributes[rows] & (CODEC_MASK | TRANSACTIONAL_BIT) == TRANSACTIONAL_BIT
    usual: npt.NDArray[np.bool_] = is_shaped & is_single & is_plain & _has_its_time(block, rows)
    return usual


def _has_its_time(block: Block, rows: Numbers) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = block.base_timestamp[rows] == block.max_timestamp[rows]
    return same


def _read(view: memoryview, start: int, block: Block, row: int) -> Fault | None:
    size, next_offset = int(block.size[row]), int(block.last_offset[row]) + 1
    if size > MOST_CONTROL_BYTES:
        return Fault(row, BAD_CONTROL, f"a control batch of {size} bytes", next_offset)
    batch = next_batch(view, start, start + size)
    assert batch is not None, "the batch is whole"
    try:
        marker = None
        newest = None
        previous = batch.base_offset - 1
        for record in records_of(view, batch, MOST_CONTROL_BYTES):
            control = read_control(record)
            if not previous < record.offset <= batch.last_offset:
                words = f"a control record has offset {record.offset} behind {previous}"
                return Fault(row, BAD_CONTROL, words, next_offset)
            previous = record.offset
            newest = record.timestamp if newest is None else max(newest, record.timestamp)
            if not ABORT <= control.type <= KRAFT_VOTERS:
                return Fault(row, UNKNOWN_FORMAT, f"a control record of type {control.type}", next_offset)
            if control.coordinator_epoch is not None:
                marker = Marker(row, control.type == COMMIT, control.coordinator_epoch)
    except TailraceError as error:
        return Fault(row, BAD_CONTROL, f"a control batch cannot be read: {error}", next_offset)
    if newest is not None and newest != batch.max_timestamp:  # compaction may leave a batch without records
        words = f"states the greatest timestamp {batch.max_timestamp}, but its records have {newest}"
        return Fault(row, BAD_HEADER, words, next_offset)
    if marker is not None:
        if not int(block.attributes[row]) & TRANSACTIONAL_BIT:
            return Fault(row, BAD_HEADER, "ends a transaction and is not transactional", next_offset)
        block.markers.append(marker)
    return None
