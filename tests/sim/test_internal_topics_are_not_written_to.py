"""Only coordinators write to their topics: what a client put there they would believe when they load."""

from __future__ import annotations

import pytest

from support.brokers.simulated import SimBroker
from support.logs.builders import batch, in_transaction
from tailrace.model.errors import InvalidTopicError
from tailrace.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@pytest.mark.spec("CO-07")
@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("transactional_id", [None, "mine"])
def test_a_client_cannot_write_there(topic: str, version: int, transactional_id: str | None) -> None:
    broker = SimBroker().start()
    client = broker.client()
    for key_type in (0, 1):
        client.ask(FindCoordinatorRequest(key="any", key_type=key_type), 3)
    records = bytes(batch() if transactional_id is None else in_transaction(7, 0))
    data = TopicProduceData(
        name=topic,
        topic_id=broker.node.image.topics[topic].id,
        partition_data=[PartitionProduceData(index=0, records=records)],
    )
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data])
    for _ in range(2):  # the second looks like the first, and may go another way
        (answer,) = client.ask(request, version).responses[0].partition_responses
        assert answer.error_code == InvalidTopicError.code
    log = broker.node.replicas.partition(topic, 0).log
    assert log is not None
    assert log.log_end_offset == 0
