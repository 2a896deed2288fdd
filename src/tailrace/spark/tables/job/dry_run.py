"""What a run would do, found out without doing any of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.tables.job.layout import grown, new_columns
from tailrace.spark.tables.job.places import Stores
from tailrace.spark.tables.job.planning import At, Limits, losses, next_batch
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.tables import Found, TableSet
from tailrace.spark.tables.job.topic import Sight, Topic
from tailrace.spark.tables.job.upkeep import groups_to_compact, retained
from tailrace.spark.tables.store import Offsets, Removed

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class DryRun:
    topic: str
    table: str
    format: str
    mode: str
    creates: tuple[str, ...]
    """Names of the tables that would be made."""
    columns: pa.Schema
    """Of the table, as it would be."""
    new_columns: tuple[str, ...]
    """Of a table that is there: those it would get before its first batch."""
    partition_by: tuple[str, ...]
    start: Offsets
    end: Offsets
    batches: int
    """How many it would take, if nothing more came."""
    compactions: Mapping[str, int] = field(default_factory=dict)
    """Table → its small files that would be compacted now."""
    removed: Removed = field(default_factory=Removed)
    """What retention would take away now."""

    @property
    def records(self) -> int:
        return sum(end - self.start.get(each, end) for each, end in self.end.items())


def dry_run_of(settings: TableSettings, stores: Stores, topic: Topic) -> DryRun:
    """Raises whatever a run would raise before its first batch."""
    tables = TableSet(settings, stores, topic)
    found = tables.find()
    sight = topic.look()
    if found.main is None:
        start: Offsets = topic.start()
        plan = settings.values.plan(None, lambda count: topic.sample(start, count))
        about = tables.new_about()
        columns = tables.new_columns(plan, about)
        added: tuple[str, ...] = ()
    else:
        start, about = found.main.offsets, found.main.about
        plan = settings.values.plan(list(found.main.schema), None)
        wider = grown(found.main.schema, plan.fields)
        columns, added = wider or found.main.schema, new_columns(found.main.schema, wider)
    tables.check_hidden(found)
    at = _at(found, start)
    policy = LossPolicy(settings.source.fail_on_data_loss)
    for each in losses(settings.topic, at, sight.bounds):
        policy.lost(*each)
    there = {stores.main: found.main, stores.dead: found.dead, stores.hidden: found.hidden}
    missing = [store for store, snapshot in there.items() if store is not None and snapshot is None]
    for store in missing:
        store.check_place()
    end, batches = _to_the_end(settings, at, sight)
    return DryRun(
        topic=settings.topic,
        table=stores.main.name,
        format=settings.format,
        mode=settings.mode,
        creates=tuple(store.name for store in missing),
        columns=columns,
        new_columns=added,
        partition_by=about.partition_by,
        start={each: start.get(each, bounds.start) for each, bounds in sight.bounds.items()},
        end=end,
        batches=batches,
        compactions=_compactions(settings, stores, found) if settings.upkeep else {},
        removed=_removed(settings, stores, found),
    )


def _at(found: Found, start: Offsets) -> At:
    dead = start if found.dead is None else found.dead.offsets
    return At(start, dead, None if found.hidden is None else found.hidden.offsets)


def _to_the_end(settings: TableSettings, at: At, sight: Sight) -> tuple[Offsets, int]:
    batches = 0
    while (batch := next_batch(settings.topic, at, sight, Limits(settings.max_offsets), sight.ends())) is not None:
        at = At(batch.end, at.dead, at.hidden)
        batches += 1
    return dict(at.main), batches


def _compactions(settings: TableSettings, stores: Stores, found: Found) -> dict[str, int]:
    counted: dict[str, int] = {}
    for store, snapshot in ((stores.main, found.main), (stores.dead, found.dead), (stores.hidden, found.hidden)):
        if store is not None and snapshot is not None:
            groups = groups_to_compact(snapshot.files(), settings.target_bytes)
            counted[store.name] = sum(map(len, groups))
    return {name: count for name, count in counted.items() if count}


def _removed(settings: TableSettings, stores: Stores, found: Found) -> Removed:
    if found.main is None or not settings.upkeep:
        return Removed()
    return retained(stores, settings.retain_ms, int(time.time() * 1000), dry_run=True)
