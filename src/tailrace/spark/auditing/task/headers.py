"""Header fields that no writer makes, though the CRC over them is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.spark.auditing.rules import BAD_HEADER
from tailrace.spark.auditing.task.block import Block
from tailrace.spark.auditing.task.faults import Fault


def check_headers(block: Block) -> Iterator[Fault]:
    """Of batches of magic 2."""
    producer_id, attributes = block.producer_id, block.attributes
    least = np.minimum(np.minimum(producer_id, block.producer_epoch), block.base_sequence)
    is_owned = producer_id >= 0
    without_epoch = is_owned & (block.producer_epoch < 0)
    without_producer = ~is_owned & (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) == TRANSACTIONAL_BIT)
    is_numbered = (attributes & CONTROL_BIT != 0) & (block.base_sequence >= 0)  # brokers give their own no sequence
    odd = (least < -1) | (block.leader_epoch < -1) | without_epoch | without_producer | is_numbered
    if not odd.any():
        return
    for row in np.flatnonzero(odd).tolist():
        if block.leader_epoch[row] < -1:
            words = f"has leader epoch {int(block.leader_epoch[row])}"
        elif without_producer[row]:
            words = "is transactional and has no producer id"
        elif is_numbered[row]:
            words = f"is a control batch and has sequence {int(block.base_sequence[row])}"
        else:
            words = (
                f"has producer id {int(producer_id[row])}, producer epoch {int(block.producer_epoch[row])} "
                f"and sequence {int(block.base_sequence[row])}"
            )
        yield Fault(row, BAD_HEADER, words, int(block.last_offset[row]) + 1)
