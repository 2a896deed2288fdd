"""A member of a share group on a simulated machine: it joins, reads, and says what became of what it read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from support.brokers.simulated import SimBroker, SimClient
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages import share_acknowledge as acknowledging
from tailrace.protocol.messages import share_fetch as fetching
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches

LATEST = 2
_NOT_YET = (14, 15, 16)
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

Got = tuple[int, int, int]
"""Partition, offset, delivery count."""


class ShareReader:
    def __init__(self, broker: SimBroker, member: str, group: str = "g", topics: Sequence[str] = ("t",)) -> None:
        self.broker = broker
        self.member = member
        self.group = group
        self.topics = list(topics)
        self.client: SimClient = broker.client()
        self.epoch = 0
        self.session_epoch = 0
        self.assigned: set[tuple[bytes, int]] = set()
        self._session: set[tuple[bytes, int]] = set()
        self.acknowledgement_codes: list[int] = []

    # The group

    def beat(self, epoch: int | None = None) -> Any:
        epoch = self.epoch if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if epoch == 0 else None,
        )
        answer = self.client.ask(request, 1)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    (each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions
                }
        return answer

    def join(self) -> ShareReader:
        """Until it has something to read."""
        self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 6)
        for _ in range(20):
            assert self.beat().error_code in (0, *_NOT_YET)
            if self.assigned:
                return self
            self.broker.pass_time(1000)
        raise AssertionError("nothing is assigned")

    def leave(self) -> None:
        self.close_session()
        assert self.beat(-1).error_code == 0

    # Records

    def request(
        self, acknowledgements: dict[tuple[bytes, int], list[tuple[int, int, list[int]]]] | None = None, **fields: Any
    ) -> fetching.ShareFetchRequest:
        """The next of the session."""
        said = acknowledgements or {}
        added = self.assigned - self._session
        topics: dict[bytes, list[Any]] = {}
        for topic_id, index in sorted(added | said.keys()):
            batch_rows = [
                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in said.get((topic_id, index), [])
            ]
            row = fetching.FetchPartition(partition_index=index, acknowledgement_batches=batch_rows)
            topics.setdefault(topic_id, []).append(row)
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self._session - self.assigned):
            forgotten.setdefault(topic_id, []).append(index)
        fields = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        return fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            topics=[fetching.FetchTopic(topic_id=each, partitions=rows) for each, rows in topics.items()],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=each, partitions=indexes) for each, indexes in forgotten.items()
            ],
            **fields,
        )

    def poll(self, acknowledgements: Any = None, **fields: Any) -> list[Got]:
        """What was given; the answer must come at once."""
        request = self.request(acknowledgements, **fields)
        return self.taken(self.client.ask(request, LATEST))

    def taken(self, answer: Any) -> list[Got]:
        if answer.error_code:
            raise AnsweredError(answer.error_code)
        self._session = set(self.assigned)
        self.session_epoch += 1
        got: list[Got] = []
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code:
                    raise AnsweredError(row.error_code)
                self.acknowledgement_codes.append(row.acknowledge_error_code)
                got += _records(row)
        return got

    def acknowledge(self, kind: int, got: Iterable[Got], **fields: Any) -> list[int]:
        """In a request of its own; the codes of the partitions."""
        topics: dict[bytes, list[Any]] = {}
        for index, offsets in _by_partition(got).items():
            (topic_id,) = {each for each, partition in self.assigned if partition == index}
            rows = [
                acknowledging.AcknowledgementBatch(first_offset=each, last_offset=each, acknowledge_types=[kind])
                for each in sorted(offsets)
            ]
            part = acknowledging.AcknowledgePartition(partition_index=index, acknowledgement_batches=rows)
            topics.setdefault(topic_id, []).append(part)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            topics=[acknowledging.AcknowledgeTopic(topic_id=each, partitions=rows) for each, rows in topics.items()],
            **fields,
        )
        answer = self.client.ask(request, LATEST)
        if answer.error_code:
            raise AnsweredError(answer.error_code)
        self.session_epoch += 1
        return [row.error_code for topic in answer.responses for row in topic.partitions]

    def close_session(self) -> None:
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=-1
        )
        answer = self.client.ask(request, LATEST)
        assert answer.error_code == 0, answer
        self.session_epoch, self._session = 0, set()

    def vanish(self) -> None:
        """Its connection is gone."""
        self.client.leave()


class AnsweredError(TailraceError):
    """A code that the broker has answered."""

    def __init__(self, code: int) -> None:
        super().__init__(f"answered with {code}")
        self.answered = code


def _records(row: Any) -> list[Got]:
    """Of what was sent, the records that were acquired."""
    data = bytes(row.records or b"")
    there = {record.offset for batch in batches(data) if not batch.is_control for record in records_of(data, batch)}
    return [
        (row.partition_index, offset, each.delivery_count)
        for each in row.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
        if offset in there
    ]


def _by_partition(got: Iterable[Got]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for index, offset, _ in got:
        found.setdefault(index, set()).add(offset)
    return found
