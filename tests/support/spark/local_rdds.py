"""Just as much of Spark's RDDs as the tasks of tables use, in this process: no JVM, the same functions and pickles.

Functions and data go through pickle as they do in Spark, so that what cannot go to an executor fails here too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from pyspark import cloudpickle


class LocalSpark:
    """In the place of a session, and of its context."""

    defaultParallelism = 2  # noqa: N815  # Spark's name

    def __init__(self) -> None:
        self.jobs = 0
        self._properties: dict[str, str | None] = {}
        self.fails_next = 0
        """How many jobs fail from now on, as those of Spark whose executor went."""

    @property
    def sparkContext(self) -> LocalSpark:  # noqa: N802  # Spark's name
        return self

    _jsc = object()

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802
        self._properties[name] = value

    def parallelize(self, items: Iterable[Any], slices: int) -> LocalRdd:
        listed = list(items)
        assert 1 <= slices <= len(listed), "no task is idle"
        bounds = [number * len(listed) // slices for number in range(slices + 1)]
        return LocalRdd(self, lambda: [_carried(listed[a:b]) for a, b in pairwise(bounds)])

    def runJob(  # noqa: N802
        self, rdd: LocalRdd, work: Callable[[Iterable[Any]], Iterable[Any]], partitions: Sequence[int]
    ) -> list[Any]:
        self.jobs += 1
        if self.fails_next:
            self.fails_next -= 1
            raise RuntimeError("an executor went")
        run, parts = _carried(work), rdd.parts()
        return [_carried(found) for number in partitions for found in run(iter(parts[number]))]


class LocalRdd:
    def __init__(self, spark: LocalSpark, compute: Callable[[], list[list[Any]]]) -> None:
        self._spark = spark
        self._compute = compute
        self._parts: list[list[Any]] | None = None

    def parts(self) -> list[list[Any]]:
        """Computed once: a shuffle keeps what it wrote."""
        if self._parts is None:
            self._parts = self._compute()
        return self._parts

    def map(self, work: Callable[[Any], Any]) -> LocalRdd:
        return self.mapPartitions(lambda items: map(work, items))

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> LocalRdd:  # noqa: N802
        run = _carried(work)
        return LocalRdd(self._spark, lambda: [list(run(iter(part))) for part in self.parts()])

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> LocalRdd:  # noqa: N802
        def shuffled() -> list[list[Any]]:
            parts: list[list[Any]] = [[] for _ in range(count)]
            for part in self.parts():
                for key, value in part:
                    parts[place(key) % count].append(_carried((key, value)))
            return parts

        return LocalRdd(self._spark, shuffled)

    def coalesce(self, count: int) -> LocalRdd:
        def together() -> list[list[Any]]:
            parts = self.parts()
            bounds = [number * len(parts) // count for number in range(count + 1)]
            return [[each for part in parts[a:b] for each in part] for a, b in pairwise(bounds)]

        return LocalRdd(self._spark, together)

    def collect(self) -> list[Any]:
        return self._spark.runJob(self, lambda items: items, range(len(self.parts())))


def _carried(thing: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(thing))
