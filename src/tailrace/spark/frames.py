"""Topics as DataFrames, in a call each. Everything here can also be said with `spark.read.format("tailrace")`.

Options keep the names that Spark's Kafka source and sink have (docs/spark.md lists them). Those that are no Python
names, as `kafka.client.id`, go in by `options`:

    orders = read("orders", brokers="localhost:9092", startingOffsets="earliest")
    history = read("orders", path="/var/lib/kafka", options={"kafka.isolation.level": "read_committed"})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader

from tailrace.spark.data_source import NAME
from tailrace.spark.errors import OptionError
from tailrace.spark.spark_session import session as default_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Option = str | int | float | bool

PUSHDOWN_SETTING: Final = "spark.sql.python.filterPushdown.enabled"


def read(
    topic: str | Iterable[str] | None = None,
    *,
    brokers: str | None = None,
    path: str | None = None,
    pattern: str | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, Option] | None = None,
    **more: Option,
) -> DataFrame:
    """The records of topics, from `brokers` or straight from the files of a log directory at `path`.

    With `filterPushdown=True`, filters on offset, partition, topic and timestamp are applied before anything is read,
    where the session allows it (those of `tailrace.spark.session` do). It is for a frame that one query uses once:
    Spark up to 4.3.0 keeps what it planned for the last filter, and reads just that for all other uses of the frame.
    Later ones do not, and there filters are pushed without asking.
    """
    spark = session or default_session()
    given = _source_options(topic, brokers, path, pattern, options, more)
    is_allowed = str(spark.conf.get(PUSHDOWN_SETTING, "false")).lower() == "true"
    if is_allowed and _keeps_scans_apart() and not _named(given, "filterPushdown"):
        given["filterPushdown"] = "true"
    return spark.read.format(NAME).options(**given).load()


def read_stream(
    topic: str | Iterable[str] | None = None,
    *,
    brokers: str | None = None,
    path: str | None = None,
    pattern: str | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, Option] | None = None,
    **more: Option,
) -> DataFrame:
    """The same as a stream, which goes on as records come."""
    spark = session or default_session()
    return spark.readStream.format(NAME).options(**_source_options(topic, brokers, path, pattern, options, more)).load()


def write(
    frame: DataFrame,
    topic: str | None = None,
    *,
    brokers: str,
    options: Mapping[str, Option] | None = None,
    **more: Option,
) -> None:
    """Append rows to a topic, or to that in their column `topic`. Returns when brokers have acknowledged all of them.

    A task that Spark repeats may write its rows again; with `transactional=True` all are visible, once, or none.
    """
    frame.write.format(NAME).options(**_sink_options(topic, brokers, options, more)).mode("append").save()


def write_stream(
    frame: DataFrame,
    topic: str | None = None,
    *,
    brokers: str,
    checkpoint: str | None = None,
    sink_id: str | None = None,
    options: Mapping[str, Option] | None = None,
    **more: Option,
) -> DataStreamWriter:
    """What writes a stream to a topic, once it is started: `write_stream(…).start()`.

    With a `sink_id` each row is there exactly once for readers of committed records, whatever dies meanwhile. The id
    belongs to the query for good: nothing else may write under it.
    """
    given = _sink_options(topic, brokers, options, more)
    if sink_id is not None:
        _put(given, "sinkId", sink_id)
        _put(given, "delivery", "exactly-once")
    if checkpoint is not None:
        _put(given, "checkpointLocation", checkpoint)
    return frame.writeStream.format(NAME).options(**given)


def _source_options(
    topic: str | Iterable[str] | None,
    brokers: str | None,
    path: str | None,
    pattern: str | None,
    options: Mapping[str, Option] | None,
    more: Mapping[str, Option],
) -> dict[str, str]:
    given = _texts(options, more)
    if topic is not None and pattern is not None:
        raise OptionError("give topics or a pattern, not both")
    if topic is not None:
        _put(given, "subscribe", topic if isinstance(topic, str) else ",".join(topic))
    if pattern is not None:
        _put(given, "subscribePattern", pattern)
    if brokers is not None:
        _put(given, "kafka.bootstrap.servers", brokers)
    if path is not None:
        _put(given, "path", path)
    return given


def _sink_options(
    topic: str | None, brokers: str, options: Mapping[str, Option] | None, more: Mapping[str, Option]
) -> dict[str, str]:
    given = _texts(options, more)
    _put(given, "kafka.bootstrap.servers", brokers)
    if topic is not None:
        _put(given, "topic", topic)
    return given


def _keeps_scans_apart() -> bool:
    """Whether each use of a frame has a plan of its own. Spark has that since it hands limits to Python sources."""
    return hasattr(DataSourceReader, "pushLimit")


def _put(given: dict[str, str], name: str, value: str) -> None:
    """OptionError where the same was said otherwise."""
    for other in _named(given, name):
        if given[other] != value:
            raise OptionError(f"option {other} contradicts an argument of the call: leave one of them out")
        del given[other]
    given[name] = value


def _named(given: Mapping[str, str], name: str) -> list[str]:
    """Names of options are the same in any case."""
    return [each for each in given if each.lower() == name.lower()]


def _texts(options: Mapping[str, Option] | None, more: Mapping[str, Option]) -> dict[str, str]:
    """As Spark takes them: True is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in {**(options or {}), **more}.items()
    }
