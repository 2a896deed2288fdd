"""AllocateProducerIds: blocks of ids for the producers of one broker. No id is ever given out twice.

A block counts as given out when its record is written, whether the broker ever hears of it or not.
"""

from __future__ import annotations

from typing import Final

from tailrace.controller.decision import Decision
from tailrace.controller.state import ClusterState
from tailrace.model.errors import UnknownServerError
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


def allocate(state: ClusterState, request: AllocateProducerIdsRequest) -> Decision:
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = max(state.image.next_producer_id, 0)
    if first > _MAX_ID - BLOCK_SIZE:
        raise UnknownServerError(
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision(response, [VersionedRecord(record, 0)])
