"""Messages of magic 0 and 1, one by one: logs that have them are old, and seldom large."""

from __future__ import annotations

from typing import Final

import numpy as np

from tailrace.model.errors import CorruptMessageError, TailraceError, UnsupportedCompressionError
from tailrace.record.batch import MAGIC_V2
from tailrace.record.legacy import messages_of
from tailrace.record.shallow import UNKNOWN, ShallowBatch, check_integrity, next_batch
from tailrace.spark.auditing.rules import BAD_COMPRESSION, BAD_RECORD
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.columns import block_of_batches
from tailrace.spark.auditing.task.faults import Fault

MOST_PLAIN_BYTES: Final = 64 << 20


class OldMessages:
    """Those at the beginning of a window that begin before `end` of the view, each with the CRC that it states."""

    def __init__(self, view: memoryview, end: int) -> None:
        self._view = view
        self.batches: list[ShallowBatch] = []
        self.faults: list[Fault] = []
        self.plain_bytes: Numbers = np.zeros(0, np.int64)
        plain: list[int] = []
        start = 0
        while start < min(end, len(view)):
            try:
                entry = next_batch(view, start, len(view))
                if entry is None or entry.magic == MAGIC_V2 or entry.last_offset < 0:
                    break
                check_integrity(view, entry)
            except CorruptMessageError:
                break
            plain.append(self._take(entry))
            start = entry.end
        self.plain_bytes = np.array(plain, np.int64)

    def block(self, file_position: int, come_to: int) -> Block:
        """What the view holds stands in the file from `file_position` on; the log has come to offset `come_to`."""
        block = block_of_batches(self.batches, file_position)
        before = np.empty_like(block.last_offset)
        before[0], before[1:] = come_to, block.last_offset[:-1] + 1
        is_wrapped = block.base_offset < 0
        block.base_offset[is_wrapped] = np.minimum(before, block.last_offset)[is_wrapped]
        return block

    def _take(self, entry: ShallowBatch) -> int:
        """The bytes of its keys and values."""
        count = plain_bytes = 0
        previous = -1
        try:
            for message in messages_of(self._view, entry, MOST_PLAIN_BYTES):
                count += 1
                plain_bytes += len(message.key or b"") + len(message.value or b"")
                if message.offset <= previous:
                    raise CorruptMessageError(f"a message of offset {message.offset} stands behind {previous}")
                previous = message.offset
        except TailraceError as error:
            is_packed = entry.codec and (isinstance(error, UnsupportedCompressionError) or "decompress" in str(error))
            rule = BAD_COMPRESSION if is_packed else BAD_RECORD
            self.faults.append(Fault(len(self.batches), rule, str(error), entry.next_offset))
        self.batches.append(entry._replace(record_count=count if entry.record_count == UNKNOWN else 1))
        return plain_bytes
