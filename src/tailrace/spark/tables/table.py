"""A topic as a table, in a call.

    from tailrace.spark import table

    report = table("orders", brokers="localhost:9092", to="lake/orders", value="json")

makes the table where it is not yet, and brings it up to where the topic ends. The same call again goes on from there.
With `trigger="10s"` it keeps going, in a thread, until somebody stops it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, overload

from tailrace.spark.tables.job.dry_run import DryRun, dry_run_of
from tailrace.spark.tables.job.places import stores_of
from tailrace.spark.tables.job.report import Progress, TableReport, Told
from tailrace.spark.tables.job.settings import DEFAULT_FILE_SIZE, DEFAULT_RETAIN, TableSettings, table_settings
from tailrace.spark.tables.job.status import TableStatus, metrics_text, table_status
from tailrace.spark.tables.job.topic import SourceTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.tables.job.loop import Loop

__all__ = [
    "DryRun",
    "Progress",
    "TableJob",
    "TableReport",
    "TableSettings",
    "TableStatus",
    "check_run",
    "dry_run",
    "metrics_text",
    "run_table",
    "status",
    "table",
    "table_settings",
]


class TableJob:
    """A table that follows its topic, in a thread of its own."""

    def __init__(self, settings: TableSettings, session: SparkSession | None = None, told: Told | None = None) -> None:
        """Runs at once. What is wrong with the settings or the table is raised by `wait` and `stop`."""
        self._settings = settings
        self._stopping = threading.Event()
        self._topic = SourceTopic(settings.topic, settings.source)
        self._loop = _loop(settings, self._topic, session, told, self._stopping)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"table of {settings.topic}", daemon=True)
        self._thread.start()

    @property
    def report(self) -> TableReport:
        """As of now."""
        return self._loop.report()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def status(self) -> TableStatus:
        return status(self._settings)

    def stop(self) -> TableReport:
        """The batch under way is finished first. Raises what the job failed with."""
        self._stopping.set()
        self.wait()
        return self.report

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it ends; False when it still runs after that time. Raises what the job failed with."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _run(self) -> None:
        try:
            with closing(self._topic):
                self._loop.run()
        except BaseException as error:  # raised where somebody waits for it
            self._error = error


@overload
def table(
    topic: str,
    *,
    to: str,
    trigger: None = None,
    brokers: str | None = None,
    path: str | None = None,
    format: str = "delta",
    mode: str = "append",
    value: str = "bytes",
    key: str = "bytes",
    schema: str | None = None,
    registry: str | None = None,
    value_column: str | None = None,
    partition_by: str | Iterable[str] = (),
    buckets: int | None = None,
    retain: str | int = DEFAULT_RETAIN,
    target_file_size: str | int = DEFAULT_FILE_SIZE,
    upkeep: bool = True,
    catalog: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    told: Told | None = None,
) -> TableReport: ...


@overload
def table(
    topic: str,
    *,
    to: str,
    trigger: str | int,
    brokers: str | None = None,
    path: str | None = None,
    format: str = "delta",
    mode: str = "append",
    value: str = "bytes",
    key: str = "bytes",
    schema: str | None = None,
    registry: str | None = None,
    value_column: str | None = None,
    partition_by: str | Iterable[str] = (),
    buckets: int | None = None,
    retain: str | int = DEFAULT_RETAIN,
    target_file_size: str | int = DEFAULT_FILE_SIZE,
    upkeep: bool = True,
    catalog: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    told: Told | None = None,
) -> TableJob: ...


def table(
    topic: str,
    *,
    to: str,
    trigger: str | int | None = None,
    brokers: str | None = None,
    path: str | None = None,
    format: str = "delta",  # noqa: A002  # the word that everybody uses for it
    mode: str = "append",
    value: str = "bytes",
    key: str = "bytes",
    schema: str | None = None,
    registry: str | None = None,
    value_column: str | None = None,
    partition_by: str | Iterable[str] = (),
    buckets: int | None = None,
    retain: str | int = DEFAULT_RETAIN,
    target_file_size: str | int = DEFAULT_FILE_SIZE,
    upkeep: bool = True,
    catalog: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    told: Told | None = None,
) -> TableReport | TableJob:
    """The records of a topic, from `brokers` or the log directory at `path`, in a table at `to`. Exactly once.

    `format` is delta, iceberg or parquet; `mode` is append (a row for each record) or upsert (a row for each key).
    `value` says what values are: bytes, string, json, avro or protobuf; `schema` and `registry` where their columns
    come from. Where a new table begins is said with `options`, as to the source; later, the table itself says it.
    """
    settings = table_settings(
        topic,
        to=to,
        brokers=brokers,
        path=path,
        format=format,
        mode=mode,
        value=value,
        key=key,
        schema=schema,
        registry=registry,
        value_column=value_column,
        partition_by=partition_by,
        buckets=buckets,
        trigger=trigger,
        retain=retain,
        target_file_size=target_file_size,
        upkeep=upkeep,
        catalog=catalog,
        options=options,
    )
    return run_table(settings, session=session, told=told)


def run_table(
    settings: TableSettings, *, session: SparkSession | None = None, told: Told | None = None
) -> TableReport | TableJob:
    """With settings that are checked already: a report, or a job where they have a trigger."""
    if settings.trigger_ms is not None:
        return TableJob(settings, session, told)
    with closing(SourceTopic(settings.topic, settings.source)) as topic:
        return _loop(settings, topic, session, told).once()


def status(settings: TableSettings) -> TableStatus:
    """How far the table is behind. Needs no Spark."""
    with closing(SourceTopic(settings.topic, settings.source)) as topic:
        return table_status(settings, stores_of(settings), topic)


def check_run(settings: TableSettings, found: TableStatus) -> None:
    """Raises what a run would refuse and a status does not: a topic that is gone, a place for a new table where nothing
    can be written. Needs no Spark."""
    with closing(SourceTopic(settings.topic, settings.source)) as topic:
        topic.look()
    if found.version is None:
        stores = stores_of(settings)
        for store in (stores.main, stores.dead, stores.hidden):
            if store is not None:
                store.check_place()


def dry_run(settings: TableSettings) -> DryRun:
    """What a run would do now. Needs no Spark."""
    with closing(SourceTopic(settings.topic, settings.source)) as topic:
        return dry_run_of(settings, stores_of(settings), topic)


def _loop(
    settings: TableSettings,
    topic: SourceTopic,
    session: SparkSession | None,
    told: Told | None,
    stopping: threading.Event | None = None,
) -> Loop:
    from tailrace.spark.spark_session import session as default_session
    from tailrace.spark.tables.job.batch import Batches
    from tailrace.spark.tables.job.loop import Loop
    from tailrace.spark.tables.job.tables import TableSet
    from tailrace.spark.tables.job.upkeep import Upkeep
    from tailrace.spark.tables.job.work import SparkWork

    stores = stores_of(settings)
    work = SparkWork(session or default_session())
    batches = Batches(settings, TableSet(settings, stores, topic), topic, work, told)
    return Loop(settings, topic, batches, Upkeep(settings, stores, batches, work, told), told, stopping=stopping)
