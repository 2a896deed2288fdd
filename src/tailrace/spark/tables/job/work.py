"""What a job has done by others: the tasks of a batch, on Spark.

A job of Spark fails when an executor goes too often, or the machine is short of something. It is started again some
times: what the failed one wrote nobody names. What we raise on purpose is the same the next time, and raised at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.interrupted import interrupts_raised
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables.job.letters import letters_from
from tailrace.spark.tables.store import DataFile, FileTarget, Offsets, Snapshot
from tailrace.spark.tables.tasks import (
    AppendDone,
    Bucketed,
    Reading,
    Told,
    UpsertDone,
    run_append,
    run_compact,
    run_upsert,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")

TRIES: Final = 3
PAUSE_S: Final = 2.0
_SHOWN: Final = 2_000

_log: Final = logging.getLogger("tailrace.spark")


class Work(Protocol):
    @property
    def cores(self) -> int: ...

    def letters_from(self, dead: Snapshot, start: Offsets) -> Mapping[int, pa.Array]: ...

    def append(
        self, reading: Reading, target: FileTarget, pieces: Sequence[OffsetRange], told: Told | None
    ) -> AppendDone: ...

    def upsert(
        self,
        reading: Reading,
        main: Bucketed,
        hidden: Bucketed,
        buckets: int,
        pieces: Sequence[OffsetRange],
        told: Told | None,
    ) -> UpsertDone: ...

    def compact(
        self, target: FileTarget, groups: Sequence[Sequence[DataFile]], codec: str, target_bytes: int, told: Told | None
    ) -> list[DataFile]: ...


class SparkWork:
    def __init__(self, spark: SparkSession, pause: Callable[[float], None] = time.sleep) -> None:
        self._spark = spark
        self._pause = pause

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def letters_from(self, dead: Snapshot, start: Offsets) -> Mapping[int, pa.Array]:
        return letters_from(dead, start)

    def append(
        self, reading: Reading, target: FileTarget, pieces: Sequence[OffsetRange], told: Told | None
    ) -> AppendDone:
        return self._tried("an append", lambda: run_append(self._spark, reading, target, pieces, told))

    def upsert(
        self,
        reading: Reading,
        main: Bucketed,
        hidden: Bucketed,
        buckets: int,
        pieces: Sequence[OffsetRange],
        told: Told | None,
    ) -> UpsertDone:
        return self._tried("an upsert", lambda: run_upsert(self._spark, reading, main, hidden, buckets, pieces, told))

    def compact(
        self, target: FileTarget, groups: Sequence[Sequence[DataFile]], codec: str, target_bytes: int, told: Told | None
    ) -> list[DataFile]:
        return self._tried(
            "a compaction",
            lambda: run_compact(self._spark, target, groups, told, codec=codec, target_bytes=target_bytes),
        )

    def _tried(self, what: str, run: Callable[[], T]) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                with interrupts_raised():
                    return run()
            except TailraceError:
                raise
            except Exception as error:  # Spark's own kinds, of which there are many
                if tries >= TRIES or self._spark.sparkContext._jsc is None:
                    raise PipelineError(f"{what} failed {tries} times: {str(error)[:_SHOWN]}") from error
                _log.warning("%s failed, and is tried again: %s", what, str(error)[:_SHOWN])
            self._pause(PAUSE_S * tries)
