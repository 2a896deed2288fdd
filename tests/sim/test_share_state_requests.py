"""What brokers ask the share coordinator, on a whole broker in the simulator."""

from __future__ import annotations

from typing import Any

from support.brokers.simulated import SimBroker
from tailrace.protocol.messages import delete_share_group_state as deleting
from tailrace.protocol.messages import initialize_share_group_state as initializing
from tailrace.protocol.messages import read_share_group_state as reading
from tailrace.protocol.messages import read_share_group_state_summary as summing
from tailrace.protocol.messages import write_share_group_state as writing
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest


class Asker:
    def __init__(self) -> None:
        self.broker = SimBroker(share_coordinator_state_topic_num_partitions="3").start()
        self.client = self.broker.client()
        self.topic_id: bytes = self.client.create_topic("t", 2).topic_id

    def find(self) -> None:
        key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
        self.client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        self.broker.run()

    def initialize(self, *partitions: int) -> list[int]:
        parts = [initializing.PartitionData(partition=each, state_epoch=1, start_offset=5) for each in partitions]
        data = initializing.InitializeStateData(topic_id=self.topic_id, partitions=parts)
        return _codes(self.client.ask(initializing.InitializeShareGroupStateRequest(group_id="g", topics=[data]), 0))

    def write(self, first: int, last: int) -> list[int]:
        batch = writing.StateBatch(first_offset=first, last_offset=last, delivery_state=2, delivery_count=1)
        part = writing.PartitionData(
            partition=0, state_epoch=1, start_offset=5, delivery_complete_count=last - first + 1, state_batches=[batch]
        )
        data = writing.WriteStateData(topic_id=self.topic_id, partitions=[part])
        return _codes(self.client.ask(writing.WriteShareGroupStateRequest(group_id="g", topics=[data]), 1))

    def read(self) -> Any:
        data = reading.ReadStateData(topic_id=self.topic_id, partitions=[reading.PartitionData(partition=0)])
        answer = self.client.ask(reading.ReadShareGroupStateRequest(group_id="g", topics=[data]), 0)
        return answer.results[0].partitions[0]

    def summary(self) -> Any:
        data = summing.ReadStateSummaryData(topic_id=self.topic_id, partitions=[summing.PartitionData(partition=0)])
        answer = self.client.ask(summing.ReadShareGroupStateSummaryRequest(group_id="g", topics=[data]), 1)
        return answer.results[0].partitions[0]

    def delete(self) -> list[int]:
        data = deleting.DeleteStateData(topic_id=self.topic_id, partitions=[deleting.PartitionData(partition=0)])
        return _codes(self.client.ask(deleting.DeleteShareGroupStateRequest(group_id="g", topics=[data]), 0))


def _codes(answer: Any) -> list[int]:
    return [row.error_code for topic in answer.results for row in topic.partitions]


def test_a_broker_without_the_topic_coordinates_nothing() -> None:
    asker = Asker()
    assert asker.initialize(0) == [16]
    asker.find()
    assert asker.initialize(0) == [0]


def test_a_state_is_made_written_read_and_deleted() -> None:
    asker = Asker()
    asker.find()
    assert asker.initialize(0, 1, 2, -1) == [0, 0, 3, 42]  # each by itself
    assert asker.write(5, 8) == [0]
    state = asker.read()
    assert (state.state_epoch, state.start_offset) == (1, 5)
    assert [(each.first_offset, each.last_offset, each.delivery_state) for each in state.state_batches] == [(5, 8, 2)]
    summary = asker.summary()
    assert (summary.start_offset, summary.delivery_complete_count) == (5, 4)
    asker.broker.kill()
    asker.broker.start()
    asker.client = asker.broker.client()
    assert asker.read().state_batches == state.state_batches
    assert asker.delete() == [0]
    assert asker.read().error_code == 42
    assert asker.summary().start_offset == -1


def test_a_request_about_nothing_is_answered_with_nothing() -> None:
    asker = Asker()
    asker.find()
    for request, version in (
        (initializing.InitializeShareGroupStateRequest(group_id="g"), 0),
        (writing.WriteShareGroupStateRequest(group_id="g"), 1),
        (reading.ReadShareGroupStateRequest(group_id="g"), 0),
        (summing.ReadShareGroupStateSummaryRequest(group_id="g"), 1),
        (deleting.DeleteShareGroupStateRequest(group_id="g"), 0),
    ):
        assert asker.client.ask(request, version).results == []
