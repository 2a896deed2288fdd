"""Headers of batches as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.record import kernels
from tailrace.record.batch import HEADER_BYTES, MAGIC_V2
from tailrace.record.kernels import HEADER_COLUMNS
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.auditing.task.block import Block, Marker, Numbers

HEADERS: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", ">i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""As they stand in a file; see `record.batch`."""


def headers_at(buffer: memoryview, starts: Numbers) -> npt.NDArray[np.void]:
    """The 61 bytes at each of `starts`, which leave room for them, as rows of HEADERS."""
    room = len(buffer) - HEADER_BYTES + 1
    everywhere = np.ndarray((max(room, 0),), HEADERS, buffer, strides=(1,))
    return everywhere[starts]


def block_of_run(buffer: memoryview, rows: memoryview, count: int, file_position: int) -> Block:
    """The first `count` batches of a run that `kernels.walk_run` has found; the buffer begins at `file_position`."""
    columns = np.empty((len(HEADER_COLUMNS), count), np.int64)
    kernels.columns_run(buffer, rows, count, columns.reshape(-1))
    column = dict(zip(HEADER_COLUMNS, columns, strict=True))
    return _block(column["start"] + file_position, np.full(count, MAGIC_V2, np.int64), column)


def block_of_batches(batches: Sequence[ShallowBatch], file_position: int) -> Block:
    """Of any magic; their positions count from `file_position`."""
    rows = np.array(batches, np.int64).reshape(len(batches), len(ShallowBatch._fields))
    column = {name: np.ascontiguousarray(rows[:, place]) for place, name in enumerate(ShallowBatch._fields)}
    return _block(column["position"] + file_position, column["magic"], column)


def _block(position: Numbers, magic: Numbers, column: Mapping[str, Numbers]) -> Block:
    return Block(
        position=position,
        magic=magic,
        size=column["size"],
        base_offset=column["base_offset"],
        last_offset=column["last_offset"],
        leader_epoch=column["leader_epoch"],
        attributes=column["attributes"],
        base_timestamp=column["base_timestamp"],
        max_timestamp=column["max_timestamp"],
        producer_id=column["producer_id"],
        producer_epoch=column["producer_epoch"],
        base_sequence=column["base_sequence"],
        record_count=column["record_count"],
        crc=column["crc"],
    )


def joined(blocks: Sequence[Block]) -> Block:
    """One block of several that follow each other, with the markers of all."""
    if len(blocks) == 1:
        return blocks[0]
    markers: list[Marker] = []
    rows = 0
    for block in blocks:
        markers += [each._replace(row=each.row + rows) for each in block.markers]
        rows += len(block)
    return Block(
        position=np.concatenate([block.position for block in blocks]),
        size=np.concatenate([block.size for block in blocks]),
        magic=np.concatenate([block.magic for block in blocks]),
        base_offset=np.concatenate([block.base_offset for block in blocks]),
        last_offset=np.concatenate([block.last_offset for block in blocks]),
        leader_epoch=np.concatenate([block.leader_epoch for block in blocks]),
        attributes=np.concatenate([block.attributes for block in blocks]),
        base_timestamp=np.concatenate([block.base_timestamp for block in blocks]),
        max_timestamp=np.concatenate([block.max_timestamp for block in blocks]),
        producer_id=np.concatenate([block.producer_id for block in blocks]),
        producer_epoch=np.concatenate([block.producer_epoch for block in blocks]),
        base_sequence=np.concatenate([block.base_sequence for block in blocks]),
        record_count=np.concatenate([block.record_count for block in blocks]),
        crc=np.concatenate([block.crc for block in blocks]),
        markers=markers,
    )


def part(block: Block, first: int, behind: int) -> Block:
    """The batches from number `first` to the one before `behind`, with their markers."""
    if first == 0 and behind == len(block):
        return block
    chosen = slice(first, behind)
    return Block(
        position=block.position[chosen],
        size=block.size[chosen],
        magic=block.magic[chosen],
        base_offset=block.base_offset[chosen],
        last_offset=block.last_offset[chosen],
        leader_epoch=block.leader_epoch[chosen],
        attributes=block.attributes[chosen],
        base_timestamp=block.base_timestamp[chosen],
        max_timestamp=block.max_timestamp[chosen],
        producer_id=block.producer_id[chosen],
        producer_epoch=block.producer_epoch[chosen],
        base_sequence=block.base_sequence[chosen],
        record_count=block.record_count[chosen],
        crc=block.crc[chosen],
        markers=[each._replace(row=each.row - first) for each in block.markers if first <= each.row < behind],
    )
