"""How far the whole batches of a fetched buffer reach, so that the next fetch can go out before they are decoded."""

from __future__ import annotations

from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import next_batch

_ANY_EPOCH: Final = (1 << 31) - 1
_BATCHES_AT_ONCE: Final = 1024


def next_offset_behind(records: Buffer, offset: int) -> int:
    """The offset behind the last whole batch; `offset` where there is none, or none that can be believed."""
    view, position, found = memoryview(records), 0, offset
    run = BatchRun(_BATCHES_AT_ONCE)
    while True:
        run.walk(view, position, len(view), 0, GREATEST_OFFSET, _ANY_EPOCH)
        if run.count:
            position, found = run.end, max(found, run.next_offset)
            continue
        try:
            odd = next_batch(view, position, len(view))  # of an older magic, say
        except CorruptMessageError:
            return found  # the decoder says what is wrong with it
        if odd is None:
            return found
        position, found = odd.end, max(found, odd.next_offset)
