"""Pieces of a topic on a scripted broker: batches of ten records up to offset 100, and answers that are unusual."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from support.brokers.scripted import Log, ScriptedBroker, topic_id
from support.spark.pieces import options_for
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.record.batch import set_base_offset
from tailrace.record.builder import BatchBuilder
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.ranges import OffsetRange

T0 = 1_700_000_000_000
TP = TopicPartition("t", 0)
NOT_LEADER_OR_FOLLOWER = 6
TOPIC_AUTHORIZATION_FAILED = 29


def batch_of(first: int, count: int = 10) -> bytes:
    builder = BatchBuilder()
    for offset in range(first, first + count):
        builder.append(T0 + offset, None, b"v%d" % offset)
    data = bytearray(builder.build())
    set_base_offset(data, 0, first)
    return bytes(data)


def values(*spans: tuple[int, int]) -> list[tuple[int, bytes]]:
    return [(offset, b"v%d" % offset) for start, end in spans for offset in range(start, end)]


def quick(broker: ScriptedBroker, **others: object) -> SourceOptions:
    return options_for(broker.address, **{"poll_timeout_ms": 10_000, "request_timeout_ms": 5_000, **others})


def piece(start: int, end: int, topic: str | None = "t") -> OffsetRange:
    return OffsetRange(TP, start, end, None if topic is None else str(TopicId(topic_id(topic))))


def policy(broker: ScriptedBroker, text: str | None) -> None:
    """What the broker says of the topic's clean-up; None: that nobody may know."""

    def answer(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        configs = [] if text is None else [DescribeConfigsResourceResult(name="cleanup.policy", value=text)]
        code = TOPIC_AUTHORIZATION_FAILED if text is None else 0
        return DescribeConfigsResponse(results=[DescribeConfigsResult(error_code=code, configs=configs)])

    broker.answers[DescribeConfigsRequest] = answer


def first_times(broker: ScriptedBroker, count: int, answer: Callable[[FetchRequest], object]) -> None:
    """The first fetches are answered so, later ones as usual."""
    numbers = itertools.count()
    broker.answers[FetchRequest] = lambda request: answer(request) if next(numbers) < count else broker.fetch(request)


def offset_of(request: FetchRequest) -> int:
    return request.topics[0].partitions[0].fetch_offset


def one_at_a_time(broker: ScriptedBroker, log: Log) -> None:
    """Each answer has one batch, and half of the next."""

    def answer(request: FetchRequest) -> FetchResponse:
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        whole = bytes(data.records or b"")
        size = len(batch_of(0)) if whole else 0
        data.records = whole[: size + size // 2]
        return response

    broker.answers[FetchRequest] = answer
