"""`tailrace pipeline table`: runs a table, or tells what is asked about one.

One-shot runs end with what they did. Running ones end by Ctrl-C, after the batch that is under way; a second Ctrl-C
ends at once, as a crash would: the table is as its newest commit left it either way.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.cli.interrupts import Interrupts
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.spark_work import brokers_of, started, told_errors
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.spark.tables.job.report import Progress, TableReport
    from tailrace.spark.tables.job.settings import TableSettings
    from tailrace.spark.tables.job.status import TableStatus

NEEDED: Final = ("pyspark", "pyarrow")
LOOK_EVERY_S: Final = 0.2
MEASURED_EVERY_S: Final = 5.0
UNREAD: Final = "{}"
"""Stands for a schema that is not needed."""


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    check_usage(args)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise CommandError(f"tables need {' and '.join(missing)}, not installed here", "pip install 'tailrace[tables]'")
    settings = settings_of(args)
    with told_errors(args.topic, is_path=args.path is not None):
        if args.files or args.history or args.at or args.status or args.dry_run:
            from tailrace.cli import table_look

            return table_look.run(args, settings)
        return keep(args, settings)


def check_usage(args: argparse.Namespace) -> None:
    """What argparse cannot say."""
    if args.version is not None and not args.files:
        raise CommandError("--version goes with --files", "for rows as they were: read_table(…, version=N) in Python")
    is_asked = args.files or args.history or args.at or args.status or args.dry_run
    if is_asked and args.trigger is not None:
        raise CommandError("--trigger runs the table, and the other option only looks at it", "leave one of them out")
    if args.metrics is not None and is_asked and not args.status:
        raise CommandError("--metrics goes with a run, or with --status", "leave one of them out")


def settings_of(args: argparse.Namespace) -> TableSettings:
    """OptionError for what cannot be. What is not said is that of the table, where there is one."""
    from tailrace.spark.tables.job.settings import table_settings

    catalog = dict(args.catalog)
    kind = args.format or ("iceberg" if catalog else format_there(args.to))
    is_about_versions = args.files or args.history or args.at
    own = {} if is_about_versions else settings_there(args.to, kind, catalog)
    options = {**({"framed": own["framed"]} if "framed" in own else {}), **dict(args.option)}
    if args.starting is not None:
        name, value = args.starting
        options[name] = value
    value = args.value or own.get("value", "bytes")
    # How far a table is can be told without decoding anything.
    schema = args.schema or (UNREAD if args.status and value in ("json", "avro", "protobuf") else None)
    given: dict[str, Any] = {
        "buckets": args.buckets,
        "trigger": None if args.trigger is None else f"{args.trigger}ms",
        "retain": None if args.retain is None else f"{args.retain}ms",
        "target_file_size": args.target_file_size,
        "catalog": catalog or None,
    }
    return table_settings(
        args.topic,
        to=args.to,
        brokers=brokers_of(args),
        path=args.path,
        format=kind,
        mode=args.mode or own.get("mode", "append"),
        value=value,
        key=args.key or own.get("key", "bytes"),
        schema=schema,
        registry=args.registry,
        value_column=args.value_column or own.get("valueColumn") or None,
        partition_by=args.partition_by,
        upkeep=not args.no_upkeep,
        options=options,
        **{name: value for name, value in given.items() if value is not None},
    )


def format_there(place: str) -> str:
    """Of the table at a place, by what each format has beside its data; the usual one where there is none."""
    from tailrace.spark.tables.iceberg.place import CATALOG_FILE
    from tailrace.spark.tables.job.settings import DELTA, ICEBERG, PARQUET
    from tailrace.spark.tables.location import local_folder
    from tailrace.spark.tables.parquet.manifest_folder import FOLDER

    folder = local_folder(place)
    # By functions that never raise: what is wrong with the place is told by who opens the table.
    if os.path.isdir(folder / "_delta_log"):
        return DELTA
    if os.path.isdir(folder / FOLDER):
        return PARQUET
    is_iceberg = os.path.isdir(folder / "metadata") and os.path.isfile(folder.parent / CATALOG_FILE)
    return ICEBERG if is_iceberg else DELTA


def settings_there(place: str, kind: str, catalog: Mapping[str, str]) -> dict[str, str]:
    """With which the table was made; none where there is no table yet."""
    from tailrace.spark.tables.store_at import store_at

    found = store_at(place, kind, catalog or None).open()
    return {} if found is None else {**found.about.settings, "mode": found.about.mode}


class Job(Protocol):
    """As much of `TableJob` as there is to do with it here."""

    @property
    def report(self) -> TableReport: ...

    def wait(self, timeout_s: float | None = None) -> bool: ...

    def stop(self) -> TableReport: ...

    def status(self) -> TableStatus: ...


class Show(Protocol):
    def told(self, progress: Progress) -> None:
        """From any thread; must not raise."""

    def ending(self) -> None: ...

    def end(self, report: TableReport) -> None: ...

    def __enter__(self) -> Show: ...

    def __exit__(self, *_: object) -> None: ...


def keep(args: argparse.Namespace, settings: TableSettings) -> int:
    from tailrace.cli.table_shows import chosen_show
    from tailrace.spark.tables.job.report import TableReport
    from tailrace.spark.tables.table import check_run, run_table, status

    found = status(settings)  # what is wrong with the place, the table or the brokers, before Spark is started
    if args.metrics is not None:
        write_metrics(args.metrics, found)
    check_run(settings, found)
    with chosen_show(settings, as_json=args.json) as show:
        spark = started(f"tailrace table {args.topic}", args)
        outcome = run_table(settings, session=spark, told=show.told)
        if isinstance(outcome, TableReport):
            report = outcome
            if args.metrics is not None:
                write_metrics(args.metrics, status(settings), report)
        else:
            report = follow(outcome, show, args.metrics)
    show.end(report)
    return 0


def follow(
    job: Job,
    show: Show,
    metrics: str | None,
    interrupted: AbstractContextManager[Interrupts] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TableReport:
    """Until it is asked to end, or fails. Spark takes Ctrl-C for itself when it starts: the handler comes after it."""
    due_s = clock()
    with interrupted or Interrupts() as interrupts:
        while not interrupts.asked and not job.wait(LOOK_EVERY_S):
            if metrics is not None and clock() >= due_s:
                measure(job, metrics)
                due_s = clock() + MEASURED_EVERY_S
        show.ending()
        report = job.stop()
        if metrics is not None:
            measure(job, metrics)
        return report


def measure(job: Job, metrics: str) -> None:
    """Who cannot be asked just now is asked the next time: the job itself waits for them too."""
    try:
        status = job.status()
    except TailraceError:
        return
    write_metrics(metrics, status, job.report)


def write_metrics(path: str, status: TableStatus, report: TableReport | None = None) -> None:
    """In one step: whoever collects the file never sees a part of it."""
    from tailrace.spark.tables.job.status import metrics_text

    text = metrics_text(status, report)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "w") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        raise CommandError(f"cannot write the metrics to {path}: {error.strerror}", "--metrics takes a file") from error
