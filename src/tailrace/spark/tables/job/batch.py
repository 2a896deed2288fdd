"""One batch after the other: planned on loaded tables, done on executors, committed on those same tables.

Commits come in this order: dead letters, hidden rows, the table. Only the last one makes the batch: whoever dies before
it has it done again, by this driver or another. What was committed of it is then skipped (dead letters) or merged again
with the same outcome (hidden rows). A driver that is late is refused at whichever of them somebody else has moved.

Hidden rows are committed with every batch as soon as there are any, changed or not. A late driver could otherwise take
away a row from them that a batch after its own left there, and rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import ChangedMeanwhileError, TableError
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.tables.columns import BUCKET
from tailrace.spark.tables.job.layout import grown
from tailrace.spark.tables.job.planning import (
    Batch,
    Limits,
    Loss,
    fitting,
    furthest,
    losses,
    may_be_too_large,
    next_batch,
    tasks_of,
)
from tailrace.spark.tables.job.report import COMMITTING, READING, Progress, TableReport, Told
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.tables import Tables, TableSet, planned_on
from tailrace.spark.tables.job.topic import Sight, Topic
from tailrace.spark.tables.job.work import Work
from tailrace.spark.tables.store import APPEND, UPSERT, Change, DataFile, Offsets, Snapshot
from tailrace.spark.tables.tasks import AppendDone, Bucketed, Reading, Tally, UpsertDone
from tailrace.spark.tables.values.layout import value_fields
from tailrace.spark.tables.values.plan import Discovered, ValuePlan

SCHEMA: Final = "schema"
MOST_DISCOVERIES: Final = 100
"""Of one batch. Each makes the plan larger, so there is an end to them, but not one that anybody would wait for."""
SAMPLED: Final = 1_000
"""Values, to know how large they are."""


@dataclass(frozen=True)
class Done:
    """A batch that is written and not committed."""

    rows: UpsertDone
    """Of an append: without what it has not."""
    discovered: list[Discovered] = field(default_factory=list)


class Batches:
    """One thread."""

    def __init__(
        self, settings: TableSettings, tables: TableSet, topic: Topic, work: Work, told: Told | None = None
    ) -> None:
        self._settings = settings
        self._set = tables
        self._topic = topic
        self._work = work
        self._told = told
        self._loaded: Tables | None = None
        self._plan: ValuePlan | None = None
        self._lost: set[Loss] = set()
        self._record_bytes: float | None = None
        """Of the records of the last batch, on average, or of some that are to come."""
        self.report = TableReport(settings.topic, tables.stores.main.name, settings.format, settings.mode)

    # For who runs them

    def tables(self) -> Tables:
        """As they were loaded, or left by the last commit. Made where they are not there."""
        if self._loaded is None:
            self._loaded = self._level(self._set.load() or self._create())
            main = self._loaded.main
            start = self.report.start or dict(main.offsets)
            self.report = replace(self.report, start=start, offsets=dict(main.offsets), version=main.version)
        return self._loaded

    def forget(self) -> None:
        """Somebody else has committed."""
        self._loaded = None
        self.report = replace(self.report, replans=self.report.replans + 1)

    def compacted(self, tables: Tables, files: int) -> None:
        self._loaded = tables
        self.report = replace(self.report, compacted=self.report.compacted + files, version=tables.main.version)

    def next(self, limits: Limits, until: Offsets | None = None) -> Batch | None:
        """The batch that was committed; None where there is nothing to do. ChangedMeanwhileError: see `forget`."""
        tables = self.tables()
        sight = self._topic.look()
        self._set.check_topic(tables.main.about, sight.topic_id)
        self._tell_losses(losses(self._topic.name, tables.at(), sight.bounds))
        batch = self._planned(tables, sight, limits, until)
        if batch is None:
            return None
        with self._planned_on(tables):
            tables, done = self._done(tables, batch)
        self._say(COMMITTING, batch, batch.records)
        self._loaded = None  # until all of them are committed
        self._loaded = self._committed(tables, batch, done)
        self._count(batch, done)
        self._topic.tell(self._loaded.main.offsets)
        return batch

    def _planned(self, tables: Tables, sight: Sight, limits: Limits, until: Offsets | None) -> Batch | None:
        batch = next_batch(self._topic.name, tables.at(), sight, limits, until)
        buckets = tables.main.about.buckets
        if batch is None or buckets is None or not may_be_too_large(batch, buckets):
            return batch
        if self._record_bytes is None:
            values = self._topic.sample(batch.start, SAMPLED)
            self._record_bytes = values.nbytes / max(len(values), 1)
        return next_batch(self._topic.name, tables.at(), sight, fitting(limits, buckets, self._record_bytes), until)

    # Making it

    def _create(self) -> Tables:
        self._set.find()  # whether it may be, before anything is read
        start = self._topic.start()
        plan = self._settings.values.plan(None, lambda count: self._topic.sample(start, count))
        self._plan = plan
        made = self._set.create(plan, start)
        self.report = replace(self.report, created=True)
        return made

    def _level(self, tables: Tables) -> Tables:
        """With a plan for these tables, and columns for all that the plan knows. The table gets them first: what the
        others get follows from it."""
        if self._plan is None or not _are_same(value_fields(tables.main.schema), self._plan.fields):
            self._plan = self._settings.values.plan(list(tables.main.schema), None)
        return self._widened(tables, self._plan)

    def _widened(self, tables: Tables, plan: ValuePlan) -> Tables:
        main = _with_columns(tables.main, plan)
        hidden = None if tables.hidden is None else _with_columns(tables.hidden, plan)
        return replace(tables, main=main, hidden=hidden)

    # Doing it

    @contextmanager
    def _planned_on(self, tables: Tables) -> Iterator[None]:
        """What is gone of a table that somebody else has changed meanwhile, and retains for less long than this takes,
        is no fault of the table: ChangedMeanwhileError."""
        try:
            yield
        except ChangedMeanwhileError:
            raise
        except TableError as error:
            stores = self._set.stores
            now = [each.open() for each in (stores.main, stores.dead, stores.hidden) if each is not None]
            if [each and each.version for each in now] == [each.version for each in tables.all()]:
                raise
            raise ChangedMeanwhileError(f"the table at {stores.main.name} was changed meanwhile: {error}") from error

    def _done(self, tables: Tables, batch: Batch) -> tuple[Tables, Done]:
        """Again, with a larger plan, for as long as tasks meet what the plan does not know."""
        for _ in range(MOST_DISCOVERIES):
            self._say(READING, batch, 0)
            assert self._plan is not None
            done = self._once(tables, batch, self._plan)
            if not any(done.discovered):
                return tables, done
            self._plan = self._plan.grown(done.discovered)
            self._loaded = None
            tables = self._widened(tables, self._plan)
            self._loaded = tables
        raise TableError(
            f"a batch was begun {MOST_DISCOVERIES} times, and its values still have unknown fields or schemas"
        )

    def _once(self, tables: Tables, batch: Batch, plan: ValuePlan) -> Done:
        settings = self._settings
        reading = Reading(
            options=settings.source,
            plan=plan,
            key="string" if settings.key == "string" else "bytes",
            dead=tables.dead.target(),
            has_letter=self._work.letters_from(tables.dead, tables.main.offsets),
            codec=settings.codec,
            target_bytes=settings.target_bytes,
        )
        pieces = tasks_of(batch, settings.source, self._work.cores)
        if tables.hidden is None:
            appended = self._work.append(reading, tables.main.target(), pieces, self._telling(batch))
            return Done(_as_upsert(appended), appended.discovered)
        buckets = tables.main.about.buckets
        assert buckets is not None
        main, hidden = _bucketed(tables.main), _bucketed(tables.hidden)
        done = self._work.upsert(reading, main, hidden, buckets, pieces, self._telling(batch))
        return Done(done, done.discovered)

    # Committing it

    def _committed(self, tables: Tables, batch: Batch, done: Done) -> Tables:
        rows, dead, hidden = done.rows, tables.dead, tables.hidden
        if rows.dead_adds:
            facts = {"rows": rows.dead_rows, **_file_facts(rows.dead_adds)}
            dead = dead.commit(Change(APPEND, furthest(dead.offsets, batch.end), rows.dead_adds, facts=facts))
        if hidden is not None and _moves(hidden, rows):
            change = Change(
                UPSERT,
                furthest(hidden.offsets, batch.end),
                rows.hidden_adds,
                rows.hidden_removes,
                facts={**planned_on(tables.main), **_file_facts(rows.hidden_adds)},
            )
            hidden = hidden.commit(change)
        counted = {"rows": rows.rows, "dead_letters": rows.dead_rows, "records": batch.records}
        if hidden is not None:
            counted["deleted"] = rows.deleted
        main = tables.main.commit(
            Change(
                self._settings.mode,
                batch.end,
                rows.adds,
                rows.removes,
                facts={**counted, **_file_facts(rows.adds)},
            )
        )
        return Tables(main, dead, hidden)

    # Telling of it

    def _tell_losses(self, found: Iterable[Loss]) -> None:
        policy = LossPolicy(self._settings.source.fail_on_data_loss)
        for each in found:
            if each not in self._lost:
                policy.lost(*each)
                self._lost.add(each)

    def _count(self, batch: Batch, done: Done) -> None:
        rows, report = done.rows, self.report
        self._record_bytes = rows.read_bytes / max(batch.records, 1)
        files = [*rows.adds, *rows.hidden_adds, *rows.dead_adds]
        assert self._loaded is not None
        self.report = replace(
            report,
            version=self._loaded.main.version,
            batches=report.batches + 1,
            rows=report.rows + rows.rows,
            deleted=report.deleted + rows.deleted,
            dead_letters=report.dead_letters + rows.dead_rows,
            files=report.files + len(files),
            size_bytes=report.size_bytes + sum(each.size_bytes for each in files),
            read_bytes=report.read_bytes + rows.read_bytes,
            # Partitions that came in this run begin where their log does.
            start={**batch.start, **report.start},
            offsets=dict(batch.end),
        )

    def _telling(self, batch: Batch) -> Callable[[Tally], None] | None:
        if self._told is None:
            return None
        return lambda tally: self._say(READING, batch, min(tally.offsets, batch.records))

    def _say(self, doing: str, batch: Batch, records_done: int) -> None:
        if self._told is not None:
            number = self.report.batches + 1
            self._told(Progress(doing, number, records_done, batch.records, batch.left, self.report))


def _are_same(one: Sequence[pa.Field], other: Sequence[pa.Field]) -> bool:
    """In any order."""
    return {each.name: each.type for each in one} == {each.name: each.type for each in other}


def _with_columns(snapshot: Snapshot, plan: ValuePlan) -> Snapshot:
    schema = grown(snapshot.schema, plan.fields)
    if schema is None:
        return snapshot
    return snapshot.commit(Change(SCHEMA, dict(snapshot.offsets), schema=schema))


def _as_upsert(done: AppendDone) -> UpsertDone:
    return UpsertDone(
        adds=done.adds,
        removes=[],
        hidden_adds=[],
        hidden_removes=[],
        dead_adds=done.dead_adds,
        rows=done.rows,
        deleted=0,
        dead_rows=done.dead_rows,
        read_bytes=done.read_bytes,
        discovered=done.discovered,
    )


def _moves(hidden: Snapshot, rows: UpsertDone) -> bool:
    """Whether hidden rows are committed with this batch: see above."""
    return bool(rows.hidden_adds or rows.hidden_removes or hidden.files())


def _bucketed(snapshot: Snapshot) -> Bucketed:
    files: dict[int, list[DataFile]] = {}
    for each in snapshot.files():
        files.setdefault(int(each.partition[BUCKET] or 0), []).append(each)
    return Bucketed(snapshot.target(), files)


def _file_facts(files: Iterable[DataFile]) -> Mapping[str, int]:
    listed = list(files)
    return {"files": len(listed), "bytes": sum(each.size_bytes for each in listed)}
