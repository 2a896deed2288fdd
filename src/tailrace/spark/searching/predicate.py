"""Records that meet a condition in SQL. It may name the columns of the source, and two more:

    text       the value as a string
    key_text   the key as a string

What it says of topic, partition, offset and timestamp, joined by AND, narrows what is read at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tailrace.spark.errors import OptionError, PipelineError
from tailrace.spark.searching.found import Found
from tailrace.spark.searching.wish import Wish
from tailrace.spark.source.ranges import ALL_TIMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXT: Final = "text"
KEY_TEXT: Final = "key_text"
_RAISED: Final = re.compile(r"^tailrace\.[\w.]+Error: (.+)$", re.MULTILINE)
_CAUSED: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_EVERY: Final = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp_ms",
    "timestampType",
    "key",
    "value",
    "headers",
)


def matching(frame: DataFrame, wish: Wish, where: str) -> DataFrame:
    """Rows of `frame`, the source's with headers, that meet all of it. OptionError for what is no condition."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    named = frame.withColumns(
        {TEXT: functions.col("value").cast("string"), KEY_TEXT: functions.col("key").cast("string")}
    )
    try:
        chosen = named.where(where)
    except AnalysisException as error:
        raise OptionError(f"where is {where!r}, which Spark does not understand: {first_line(error)}") from error
    for condition in _conditions(wish):
        chosen = chosen.where(condition)
    return chosen.selectExpr(*_EVERY)


def _conditions(wish: Wish) -> list[Column]:
    from pyspark.sql import functions

    conditions = []
    if wish.key is not None:
        conditions.append(functions.col("key") == functions.lit(wish.key))
    if wish.times != ALL_TIMES:
        first, last = (functions.timestamp_millis(functions.lit(each)) for each in wish.times)
        conditions += [functions.col("timestamp") >= first, functions.col("timestamp") <= last]
    return conditions


def best(rows: DataFrame, wish: Wish) -> tuple[list[Found], int]:
    """Those that are kept, and how many there are. The topic is read once.

    PipelineError for what a task met, be it a damaged batch or a value that the condition cannot be asked of.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation, functions

    seen = Observation()
    columns = [functions.col(name) for name in ("timestamp_ms", "partition", "offset")]
    if wish.at_ms is not None:
        columns[0] = functions.abs(columns[0] - functions.lit(wish.at_ms))
    ranked = [each.desc() if wish.newest and wish.at_ms is None else each.asc() for each in columns]
    observed = rows.observe(seen, functions.count(functions.lit(1)).alias("total"))
    try:
        taken = observed.orderBy(*ranked).limit(wish.limit).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(f"the search failed: {reason(error)}") from error
    return wish.kept(found_of(row) for row in taken).found, int(seen.get["total"])


def found_of(row: Any) -> Found:
    return Found(
        row.topic,
        row.partition,
        row.offset,
        row.timestamp_ms,
        row.timestampType,
        None if row.key is None else bytes(row.key),
        None if row.value is None else bytes(row.value),
        tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
    )


def reason(error: Exception) -> str:
    """What we raised in a task, which Spark gives back with two traces around it; else Spark's own words, or those of
    the Java that it does not know, such as the one for regular expressions."""
    text = str(error)
    found: list[str] = _RAISED.findall(text) or _CAUSED.findall(text)
    return found[-1].strip() if found else first_line(error)


def first_line(error: Exception) -> str:
    """Spark's messages have the whole plan behind them."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
