"""Where compaction has been, replicas hold different batches, and still the same newest value of each key.

For any offset that no replica was cleaned beyond, the newest record below it of a key is in every replica: cleaners
only take what is older. One exception: a tombstone goes when its delete horizon has passed, on each replica in its own
time. So a key without a record is a key whose newest record is a tombstone.

Digests of keys and values go through Spark's shuffle, never the values themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.spark.auditing.shuffles.naming import SHOWN_KEY_BYTES
from tailrace.spark.auditing.shuffles.records import Stretch, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_KEYS: Final = 100
"""Of one partition."""
_MOST_REPLICAS_BITS: Final = 10


class Newest(NamedTuple):
    """What one replica has of a key."""

    replica: int
    offset: int
    is_tombstone: bool
    value_digest: str | None


class KeyDifference(NamedTuple):
    group: int
    key: bytes
    """Its beginning."""
    newest: tuple[Newest, ...]
    """Of those replicas that have the key at all."""
    keys: int
    """How many keys of the partition differ."""

    @property
    def offset(self) -> int:
        return max(each.offset for each in self.newest)


def place_of(group: int, replica: int) -> int:
    return group << _MOST_REPLICAS_BITS | replica


def compare_keys(
    spark: SparkSession, replicas: dict[int, int], parts: Sequence[Stretch]
) -> tuple[list[KeyDifference], dict[tuple[int, int], list[tuple[int, int]]]]:
    """Keys whose newest values differ, and where replicas have holes: (group, replica) → [first, behind).

    `replicas`: how many each group has. Places of `parts` are made by `place_of`.
    """
    found = list(_differences(spark, replicas, parts))
    if not found:
        return [], {}
    groups = {each.group for each in found}
    again = [part for part in parts if part.place >> _MOST_REPLICAS_BITS in groups]
    return found, _holes(rows_of(spark, again, has_values=False))


def _differences(spark: SparkSession, replicas: dict[int, int], parts: Sequence[Stretch]) -> Iterator[KeyDifference]:
    sizes = spark.createDataFrame(list(replicas.items()), "group int, replicas int")
    for row in _unequal(rows_of(spark, parts, has_values=True), sizes).collect():
        newest = tuple(Newest(each.replica, each.offset, each.value is None, each.value) for each in row.newest)
        yield KeyDifference(row.group, bytes(row.key), newest, row.keys)


def _unequal(rows: DataFrame, sizes: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    seen = rows.where(~f.col("is_hole") & f.col("key").isNotNull()).select(
        f.shiftright("place", _MOST_REPLICAS_BITS).alias("group"),
        f.col("place").bitwiseAND((1 << _MOST_REPLICAS_BITS) - 1).alias("replica"),
        f.unhex(f.md5("key")).alias("digest"),
        f.substring("key", 1, SHOWN_KEY_BYTES + 1).alias("key"),
        f.struct("offset", f.md5("value").alias("value")).alias("record"),
    )
    by_replica = seen.groupBy("group", "digest", "replica").agg(
        f.max("record").alias("record"), f.min("key").alias("key")
    )
    by_key = (
        by_replica.groupBy("group", "digest")
        .agg(
            f.min("key").alias("key"),
            f.collect_list(f.struct("replica", "record.offset", "record.value")).alias("newest"),
            f.count("record.value").alias("live"),
            f.count_distinct("record.value").alias("values"),
        )
        .join(f.broadcast(sizes), "group")
        .where((f.col("values") > 1) | ((f.col("values") == 1) & (f.col("live") < f.col("replicas"))))
    )
    of_group = Window.partitionBy("group")
    return by_key.select(
        "group",
        "key",
        "newest",
        f.row_number().over(of_group.orderBy("digest")).alias("number"),
        f.count("*").over(of_group).alias("keys"),
    ).where(f.col("number") <= MOST_KEYS)


def _holes(rows: DataFrame) -> dict[tuple[int, int], list[tuple[int, int]]]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in rows.where("is_hole").select("place", "offset", "behind").collect():
        replica = (row.place >> _MOST_REPLICAS_BITS, row.place & ((1 << _MOST_REPLICAS_BITS) - 1))
        found.setdefault(replica, []).append((row.offset, row.behind))
    return found
