"""Below the cleaner's point, compaction has left one record of each key and none without a key.

The cleaner notes the offset up to which it has cleaned. Below that a key has at most one record: the newest one there,
be it a tombstone; whether that one's delete horizon has passed matters to the next clean only. What is not judged:

    records at or above the point, also as what makes others old
    records of aborted transactions, which are nobody's newest
    a log whose point lies behind its last segment's beginning, where the cleaner never is: the log was cut since, and
    the cleaner begins anew

Keys go to Spark's shuffle as digests of 16 bytes, with the first bytes of the key for the words of a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.rules import KEYLESS_RECORD, SUPERSEDED_KEY
from tailrace.spark.auditing.shuffles.naming import SHOWN_KEY_BYTES, file_of, shown_key
from tailrace.spark.auditing.shuffles.records import rows_of, stretches
from tailrace.spark.tables.tasks.jobs import watched
from tailrace.spark.tables.tasks.reading import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_FINDINGS: Final = 100
"""Of one folder; how many more there are is said."""
Told = Callable[[int, int], None]
"""Called with tasks done and tasks."""


def find_superseded(
    spark: SparkSession, folders: Sequence[Folder], report: Report, *, told: Told | None = None
) -> None:
    """One finding for each key that has older records, at the oldest of them; one for all records without a key."""
    ends = {place: _judged_end(folder) for place, folder in enumerate(folders)}
    parts = [
        part
        for place, folder in enumerate(folders)
        if folder.log_start < ends[place]
        for part in stretches(place, folder, folder.log_start, ends[place])
    ]
    if not parts:
        return
    tell = None if told is None else lambda tally: told(tally.tasks_done, tally.tasks)
    with watched(spark.sparkContext, Tally("superseded", 0, len(parts), 0), tell):
        found = _superseded(rows_of(spark, parts, has_values=False)).collect()
    for row in sorted(found, key=lambda row: (row.place, row.number)):
        folder, below = folders[row.place], f"below the cleaner's point {ends[row.place]}"
        if row.digest is None:
            more = f", as {row.records - 1} behind it do" if row.records > 1 else ""
            words = f"a record without a key stands {below}{more}"
            report(_finding(folder, row.oldest, KEYLESS_RECORD, words))
            continue
        key = shown_key(bytes(row.key))
        words = f"key {key} has {row.records} records {below}: this one, and the newest at offset {row.newest}"
        report(_finding(folder, row.oldest, SUPERSEDED_KEY, words))
        if row.number == MOST_FINDINGS < row.keys:
            words = f"and {row.keys - MOST_FINDINGS} more keys with older records {below}"
            report(Finding(folder.path, str(folder.partition), None, SUPERSEDED_KEY, words))


def _judged_end(folder: Folder) -> int:
    """Up to where each key has one record; 0 where nothing is known of it."""
    if not folder.segments or folder.cleaned_to > folder.segments[-1].base_offset:
        return 0
    return folder.cleaned_to if folder.judged_to is None else min(folder.cleaned_to, folder.judged_to)


def _superseded(rows: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by_key = (
        rows.where(~f.col("is_hole"))
        .select(
            "place",
            "offset",
            f.unhex(f.md5("key")).alias("digest"),
            f.substring("key", 1, SHOWN_KEY_BYTES + 1).alias("key"),
        )
        .groupBy("place", "digest")
        .agg(
            f.min("offset").alias("oldest"),
            f.max("offset").alias("newest"),
            f.count("*").alias("records"),
            f.min_by("key", "offset").alias("key"),
        )
        .where(f.col("digest").isNull() | (f.col("oldest") < f.col("newest")))
    )
    has_key = f.col("digest").isNotNull()
    of_folder = Window.partitionBy("place", has_key)
    return by_key.select(
        "*",
        f.row_number().over(of_folder.orderBy("oldest")).alias("number"),
        f.count("*").over(of_folder).alias("keys"),
    ).where(f.col("number") <= MOST_FINDINGS)


def _finding(folder: Folder, offset: int, rule: str, words: str) -> Finding:
    return Finding(file_of(folder, offset), str(folder.partition), offset, rule, words)
