"""What the log manager asks of compaction, so that the two never work on one partition at the same time.

Truncation, deletion, moves and retention come first: whoever does one of them aborts or pauses cleaning before, and
resumes it after. Pauses count: so many resumes are needed. All calls are made on the owner's thread, and when one of
them has returned no cleaning of the partition changes a file any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tailrace.model.ids import TopicPartition


class Cleaning(Protocol):
    def abort(self, partition: TopicPartition) -> None:
        """End a cleaning of the partition; it may be cleaned again."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """End cleanings of the partitions and begin none before `resume`."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def truncating(self, directory: str, partition: TopicPartition, clean_end: int) -> Callable[[], None] | None:
        """The log is about to be cut: what is clean ends at `clean_end` at the latest.

        Returns what makes that durable, on any thread, together with all that was lowered in the directory before.
        """

    def removed(self, directory: str, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are gone from the data directory, and their entries from its checkpoint."""

    def moved(self, partition: TopicPartition, source: str, target: str) -> None:
        """The partition's log is in the data directory `target` now."""

    def directory_failed(self, directory: str) -> None: ...


class NoCleaning:
    """For a broker without a cleaner."""

    def abort(self, partition: TopicPartition) -> None:
        pass

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def truncating(self, directory: str, partition: TopicPartition, clean_end: int) -> None:
        return None

    def removed(self, directory: str, partitions: Iterable[TopicPartition]) -> None:
        pass

    def moved(self, partition: TopicPartition, source: str, target: str) -> None:
        pass

    def directory_failed(self, directory: str) -> None:
        pass
