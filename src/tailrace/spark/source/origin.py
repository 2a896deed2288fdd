"""Where topics are looked up on the driver: brokers or log directories, behind one interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Protocol

from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Subscription
from tailrace.spark.source.ranges import Bounds


class Origin(Protocol):
    def partitions(self, subscription: Subscription) -> dict[TopicPartition, str | None]:
        """What there is of it now, with topic ids. PipelineError names topics that are asked for and not there."""

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]: ...

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after the time; None where there is none."""

    def behind_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """An offset at or soon behind the first record at or after the time; None where there is none, or none near.

        Markers of transactions are no such records: they have the broker's clock, whatever time producers write of.
        """

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """What a query has done, for the tools that watch groups."""

    def close(self) -> None: ...


class OpenOrigin:
    """The origin that `options` name, for as long as the block lasts."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __enter__(self) -> Origin:
        self._origin = open_origin(self._options)
        return self._origin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._origin.close()


def open_origin(options: SourceOptions) -> Origin:
    if options.path is not None:
        from tailrace.spark.source.files import DirectoryOrigin

        return DirectoryOrigin(options)
    from tailrace.spark.source.brokers import BrokerOrigin

    return BrokerOrigin(options)
