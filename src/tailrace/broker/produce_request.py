"""A produce request on its way through the broker: what it asks for, partition by partition, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.model.errors import RequestTimedOutError, TailraceError
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.produce_shape import ProduceShape
from tailrace.storage.append import AppendResult

if TYPE_CHECKING:
    from tailrace.replication.partition import Partition


class Share:
    """One partition's part of a request, and what has become of it."""

    __slots__ = ("error", "index", "partition", "records", "result", "topic_place")

    def __init__(self, topic_place: int, index: int, records: memoryview | None) -> None:
        self.topic_place = topic_place
        self.index = index
        self.records = records
        self.partition: Partition | None = None
        self.result: AppendResult | None = None
        self.error: TailraceError | None = None


class Produce:
    """One request. `shape` where it is like others of its connection, else the names and ids of its `topics`: the
    request itself would hold on to its buffer, which belongs to others as soon as everything is appended."""

    __slots__ = ("acks", "correlation_id", "header", "shape", "shares", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self,
        correlation_id: int,
        acks: int,
        timeout_ms: int,
        shares: list[Share],
        header: RequestHeader,
        shape: ProduceShape | None = None,
        topics: Sequence[tuple[str, bytes]] = (),
        transactional_id: str | None = None,
    ) -> None:
        self.correlation_id = correlation_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.shares = shares
        self.header = header
        self.shape = shape
        self.topics = topics
        self.transactional_id = transactional_id

    @property
    def version(self) -> int:
        return self.header.request_api_version

    @property
    def error(self) -> TailraceError | None:
        """The first one."""
        return next((share.error for share in self.shares if share.error is not None), None)

    def is_settled(self) -> bool:
        """Every share is acknowledged by its partition, or has an error."""
        for share in self.shares:
            if share.error is None:
                assert share.partition is not None
                assert share.result is not None
                is_done, share.error = share.partition.acknowledgement(share.result.last_offset, self.acks)
                if not is_done:
                    return False
        return True

    def time_out(self) -> None:
        """Each share that a replica has not acknowledged by now fails. The timeout is not for flushes of the leader's
        log, as in Kafka, where an append has ended only after its flush: a share that waits for one goes on waiting."""
        for share in self.shares:
            if share.error is None:
                assert share.partition is not None
                assert share.result is not None
                last_offset = share.result.last_offset
                is_done, share.error = share.partition.acknowledgement(last_offset, self.acks)
                if not is_done and not share.partition.awaits_only_flush(last_offset, self.acks):
                    share.error = RequestTimedOutError(f"not acknowledged within {self.timeout_ms} ms")
