"""What clients write to the brokers' own topics: nothing. One record there that is none of a coordinator's, and its
state could not be loaded again."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient, produce_request
from support.logs.builders import batch
from tailrace.model.errors import InvalidTopicError
from tailrace.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest


def started() -> tuple[SimBroker, SimClient]:
    broker = SimBroker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1").start()
    client = broker.client()
    for key_type in (0, 1):
        client.ask(FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type), 4)
    return broker, client


def code(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("version", [9, 13])
def test_clients_do_not_write_to_the_coordinators_topics(topic: str, version: int) -> None:
    broker, client = started()
    request = produce_request(topic, bytes(batch()))
    request.topic_data[0].topic_id = broker.node.image.topics[topic].id
    for _ in range(4):  # the later ones take the short way
        assert code(client.ask(request, version)) == InvalidTopicError.code
    log = broker.node.replicas.partition(topic, 0).log
    assert log is not None
    assert log.log_end_offset == 0


def test_without_an_answer_the_connection_is_closed() -> None:
    broker, client = started()
    client.post(produce_request(CONSUMER_OFFSETS, bytes(batch()), acks=0), 9)
    broker.run()
    log = broker.node.replicas.partition(CONSUMER_OFFSETS, 0).log
    assert log is not None
    assert log.log_end_offset == 0
