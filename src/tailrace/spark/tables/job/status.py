"""How far a table is behind its topic, for people and as metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tailrace.spark.errors import MissingTopicError
from tailrace.spark.tables.job.places import DEAD_LETTERS_SUFFIX, HIDDEN_SUFFIX, Stores
from tailrace.spark.tables.job.report import TableReport
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.tables import TableSet
from tailrace.spark.tables.job.topic import Sight, Topic
from tailrace.spark.tables.store import Offsets, Snapshot


@dataclass(frozen=True)
class PartitionStatus:
    partition: int
    offset: int
    """The first one that the table does not have."""
    start: int | None
    end: int | None
    """Of the log, for readers of committed records; None where the partition is gone."""

    @property
    def behind(self) -> int | None:
        """None where the partition is gone: nobody knows what the table lacks of it."""
        return None if self.end is None else max(self.end - max(self.offset, self.start or 0), 0)


@dataclass(frozen=True)
class TableStatus:
    topic: str
    table: str
    format: str
    mode: str
    version: int | None
    """None: there is no table yet."""
    made_ms: int | None
    """When its newest commit was made."""
    partitions: tuple[PartitionStatus, ...] = ()
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    dead_letters: int = 0
    companions: dict[str, Offsets] = field(default_factory=dict)
    """Suffix → the offsets of that table beside it."""

    @property
    def behind(self) -> int | None:
        """Offsets, over all partitions that are there; None where the table has some, and all of them are gone."""
        known = [each.behind for each in self.partitions if each.behind is not None]
        return sum(known) if known or not self.partitions else None

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("partitions", "companions")},
            "behind": self.behind,
            "partitions": [{**vars(each), "behind": each.behind} for each in self.partitions],
            "companions": {name: {str(p): o for p, o in of.items()} for name, of in self.companions.items()},
        }


def table_status(settings: TableSettings, stores: Stores, topic: Topic) -> TableStatus:
    """Nothing is made or changed. Where the topic is not there any more, its partitions are told without bounds."""
    try:
        found = TableSet(settings, stores, topic).find()
        sight = topic.look()
    except MissingTopicError:
        main = stores.main.open()
        if main is None:
            raise
        return _status(settings, stores, main, stores.dead.open(), None, Sight(None, {}))
    return _status(settings, stores, found.main, found.dead, found.hidden, sight)


def _status(
    settings: TableSettings,
    stores: Stores,
    main: Snapshot | None,
    dead: Snapshot | None,
    hidden: Snapshot | None,
    sight: Sight,
) -> TableStatus:
    files = [] if main is None else main.files()
    beside = {DEAD_LETTERS_SUFFIX: dead, HIDDEN_SUFFIX: hidden}
    return TableStatus(
        topic=settings.topic,
        table=stores.main.name,
        format=settings.format,
        mode=settings.mode,
        version=None if main is None else main.version,
        made_ms=None if main is None else main.made_ms,
        partitions=tuple(_partitions({} if main is None else main.offsets, sight)),
        rows=sum(each.rows for each in files),
        files=len(files),
        size_bytes=sum(each.size_bytes for each in files),
        dead_letters=0 if dead is None else sum(each.rows for each in dead.files()),
        companions={suffix: dict(each.offsets) for suffix, each in beside.items() if each is not None},
    )


def _partitions(offsets: Offsets, sight: Sight) -> Iterable[PartitionStatus]:
    for each in sorted({*offsets, *sight.bounds}):
        bounds = sight.bounds.get(each)
        first = 0 if bounds is None else bounds.start
        start, end = (None, None) if bounds is None else bounds
        yield PartitionStatus(each, offsets.get(each, first), start, end)


def metrics_text(status: TableStatus, report: TableReport | None = None, now_s: Callable[[], float] = time.time) -> str:
    """In Prometheus' way of writing it. With a report: what a running job did, too."""
    of = f'table="{_escaped(status.table)}",topic="{_escaped(status.topic)}"'
    age_s = None if status.made_ms is None else max(now_s() - status.made_ms / 1000, 0)
    lines: list[str] = []

    def metric(name: str, kind: str, about: str, values: Iterable[tuple[str, float]]) -> None:
        lines.extend([f"# HELP tailrace_table_{name} {about}", f"# TYPE tailrace_table_{name} {kind}"])
        lines.extend(f"tailrace_table_{name}{{{of}{labels}}} {_number(value)}" for labels, value in values)

    each = [(f',partition="{one.partition}"', one) for one in status.partitions]
    metric("offset", "gauge", "The first offset that the table does not have.", [(p, one.offset) for p, one in each])
    behind = [(p, one.behind) for p, one in each if one.behind is not None]
    metric("behind_records", "gauge", "Offsets of the topic that the table lacks.", behind)
    metric("rows", "gauge", "Rows of the table.", [("", status.rows)])
    metric("files", "gauge", "Files of the table.", [("", status.files)])
    metric("bytes", "gauge", "Bytes of these files.", [("", status.size_bytes)])
    metric("dead_letters", "gauge", "Records that have no row.", [("", status.dead_letters)])
    if age_s is not None:
        metric("commit_age_seconds", "gauge", "Since the newest commit.", [("", age_s)])
    if report is not None:
        metric("batches_total", "counter", "Batches of this run.", [("", report.batches)])
        metric("rows_total", "counter", "Rows written by this run.", [("", report.rows)])
        metric("dead_letters_total", "counter", "Dead letters of this run.", [("", report.dead_letters)])
        metric("written_bytes_total", "counter", "Bytes of files written by this run.", [("", report.size_bytes)])
        metric("replans_total", "counter", "Batches begun again because of others.", [("", report.replans)])
        metric("busy_seconds_total", "counter", "Time that this run was at work.", [("", report.busy_seconds)])
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
