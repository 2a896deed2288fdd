"""Pieces of partitions, read from brokers as a task of Spark reads them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.client.cluster import Cluster
from tailrace.model.ids import TopicId
from tailrace.spark.options.client_settings import ClientSettings
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.brokers.reader import read_brokers
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.decoding import ROWS_PER_BATCH, Decoder
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import ALL_TIMES, OffsetRange, TimeRange

OFFSET_AND_VALUE = Columns(("offset", "value"))


def options_for(
    brokers: str, topic: str = "t", *, fetch_bytes: int | None = None, request_timeout_ms: int = 10_000, **others: Any
) -> SourceOptions:
    given = {} if fetch_bytes is None else {"max_partition_fetch_bytes": fetch_bytes}
    client = ClientSettings(request_timeout_ms=request_timeout_ms, **given)
    return SourceOptions(**{"subscription": Topics((topic,)), "brokers": brokers, "client": client, **others})


class Losses(LossPolicy):
    """Goes on, and remembers."""

    def __init__(self) -> None:
        super().__init__(fails=False)
        self.told: list[tuple[int, int, str]] = []

    def lost(self, partition: Any, start: int, end: int, why: str) -> None:
        super().lost(partition, start, end, why)
        self.told.append((start, end, why))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(start, end) for start, end, _ in self.told]


def batches_of(
    options: SourceOptions,
    piece: OffsetRange,
    loss: LossPolicy | None = None,
    times: TimeRange = ALL_TIMES,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> Iterator[Any]:
    decoder = Decoder(OFFSET_AND_VALUE, piece, times=times, rows_per_batch=rows_per_batch)
    yield from read_brokers(options, piece, decoder, LossPolicy() if loss is None else loss)
    yield from decoder.rest()


def rows_of(
    options: SourceOptions, piece: OffsetRange, loss: LossPolicy | None = None, times: TimeRange = ALL_TIMES
) -> list[tuple[int, bytes]]:
    """(offset, value), in the order they came."""
    rows: list[tuple[int, bytes]] = []
    for batch in batches_of(options, piece, loss, times):
        columns = batch.to_pydict()
        rows += zip(columns["offset"], columns["value"], strict=True)
    return rows


def id_of(cluster: Cluster, topic: str) -> str:
    cluster.forget(topic)
    return str(TopicId(cluster.topic(topic).id))
