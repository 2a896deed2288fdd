"""Which of the records that were read belong to aborted transactions: a share group that reads only what was committed
must not see them. (Consumers of other groups are told of the transactions and look themselves.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tailrace.record.control import ABORT, control_of
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.transaction_index import AbortedTxn


def aborted_ranges(
    data: bytes, found: Sequence[ShallowBatch], aborted: Iterable[AbortedTxn]
) -> Iterator[tuple[int, int]]:
    """First and last offset of each batch of an aborted transaction."""
    to_come = sorted(aborted, key=lambda txn: txn.first_offset)
    open_ones: set[int] = set()
    for batch in found:
        if not batch.has_producer_id:
            continue
        while to_come and to_come[0].first_offset <= batch.last_offset:
            open_ones.add(to_come.pop(0).producer_id)
        if batch.is_control:
            control = control_of(data, batch)
            if control is not None and control.type == ABORT:
                open_ones.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_ones:
            yield batch.base_offset, batch.last_offset
