"""The table and those beside it: opened, made, compared with what is wanted.

The table is loaded first and the others after it, always. What a table rests on is committed before it, so whoever
sees the table sees that too; and a commit on a table that has not moved since then tells that nothing was missed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import ChangedMeanwhileError, ForeignTableError, OccupiedTargetError, OptionError, TableError
from tailrace.spark.tables.columns import BUCKET, dead_letter_schema
from tailrace.spark.tables.job.layout import hidden_columns, table_columns
from tailrace.spark.tables.job.places import HIDDEN_SUFFIX, Stores
from tailrace.spark.tables.job.planning import At, is_ahead
from tailrace.spark.tables.job.settings import DEFAULT_BUCKETS, TableSettings
from tailrace.spark.tables.job.topic import Topic
from tailrace.spark.tables.store import APPEND, DEAD_LETTERS, HIDDEN, ROWS, UPSERT, About, Offsets, Snapshot, Store
from tailrace.spark.tables.values.layout import value_fields
from tailrace.spark.tables.values.plan import ValuePlan
from tailrace.spark.tables.values.spec import SCHEMA

PLANNED_ON: Final = "planned_on"
"""A fact of the hidden rows' commits: the offsets of the table that the batch was planned on."""
_TRIES: Final = 20
_FEW: Final = 20
"""Commits of hidden rows that are looked into first: all of them may be tens of thousands."""


@dataclass(frozen=True)
class Tables:
    main: Snapshot
    dead: Snapshot
    hidden: Snapshot | None = None

    def at(self) -> At:
        return At(self.main.offsets, self.dead.offsets, None if self.hidden is None else self.hidden.offsets)

    def all(self) -> list[Snapshot]:
        return [self.main, self.dead, *([] if self.hidden is None else [self.hidden])]


@dataclass(frozen=True)
class Found:
    """What is there. Without the table there is none beside it."""

    main: Snapshot | None
    dead: Snapshot | None
    hidden: Snapshot | None


class TableSet:
    """One thread."""

    def __init__(self, settings: TableSettings, stores: Stores, topic: Topic) -> None:
        self.stores = stores
        self._settings = settings
        self._topic = topic

    # What is there

    def find(self) -> Found:
        """OccupiedTargetError and ForeignTableError where it is something else than these tables; OptionError where the
        schema is missing that they were made with."""
        main = self.stores.main.open()
        if main is not None:
            # First: a topic with a wrong name need not be there to be looked at.
            check_is_of(self.stores.main, main.about, self._settings.topic)
        topic_id = self._topic.look().topic_id
        if main is not None:
            self._check(main.about, topic_id)
        dead = self.stores.dead.open()
        hidden = None if self.stores.hidden is None else self.stores.hidden.open()
        if main is None and (dead is not None or hidden is not None):
            return self._found_beside_nothing()
        for store, beside, role in ((self.stores.dead, dead, DEAD_LETTERS), (self.stores.hidden, hidden, HIDDEN)):
            if store is not None and beside is not None and main is not None:
                self._check_beside(store, beside.about, role, main.about, topic_id)
        return Found(main, dead, hidden)

    def _found_beside_nothing(self) -> Found:
        """The table is made first and goes last: unless it has just come, somebody took it away alone."""
        if self.stores.main.open() is not None:
            return self.find()
        left = [each.name for each in (self.stores.dead, self.stores.hidden) if each is not None]
        raise OccupiedTargetError(
            f"there is no table at {self.stores.main.name}, but something is left of one: {' or '.join(left)}. What "
            "they hold would be missing in the new one"
        )

    def load(self) -> Tables | None:
        """None where there is no table. Those beside it are made where they are missing."""
        found = self.find()
        if found.main is None:
            return None
        self.check_hidden(found)
        return self._completed(found)

    def check_hidden(self, found: Found) -> None:
        """TableError where the hidden rows of a table are gone, or where somebody took it back and left them."""
        main, hidden = found.main, found.hidden
        if main is None or self.stores.hidden is None:
            return
        if hidden is None and main.files():
            raise TableError(
                f"the table at {self.stores.main.name} has lost the one beside it, {self.stores.hidden.name}, "
                "which holds what was deleted: without it, deleted keys could come back. Make the table anew"
            )
        if hidden is not None and is_ahead(hidden.offsets, main.offsets):
            self._refuse_what_was_taken_back(main, hidden)

    def create(self, plan: ValuePlan, offsets: Offsets) -> Tables:
        """The table that is there then, also where somebody else made it meanwhile."""
        found = self.find()
        if found.main is None:
            about = self.new_about()
            schema = self.new_columns(plan, about)
            with suppress(ChangedMeanwhileError):
                self.stores.main.create(about, schema, offsets)
        tables = self.load()
        if tables is None:
            raise TableError(f"the table at {self.stores.main.name} was made, and is gone again")
        return tables

    def new_about(self) -> About:
        settings = self._settings
        return About(
            topic=settings.topic,
            topic_id=self._topic.look().topic_id,
            cluster_id=self._topic.cluster_id(),
            role=ROWS,
            mode=settings.mode,
            buckets=(settings.buckets or DEFAULT_BUCKETS) if settings.mode == UPSERT else None,
            partition_by=(BUCKET,) if settings.mode == UPSERT else settings.partition_by,
            settings=self._row_settings(),
        )

    def new_columns(self, plan: ValuePlan, about: About) -> pa.Schema:
        return table_columns(self._settings.mode, self._settings.key, plan.fields, about.partition_by)

    def check_topic(self, about: About, topic_id: str | None) -> None:
        """While a job runs, a topic may be deleted and made anew."""
        if about.topic_id is not None and topic_id is not None and about.topic_id != topic_id:
            raise ForeignTableError(
                f"the table at {self.stores.main.name} is of the topic {about.topic} with the id {about.topic_id}; the "
                f"one that is there now has the id {topic_id}: it was deleted and made anew"
            )

    # Beside the table

    def _completed(self, found: Found) -> Tables:
        main = found.main
        assert main is not None
        dead = found.dead or self._made(
            self.stores.dead,
            replace(main.about, role=DEAD_LETTERS, mode=APPEND, buckets=None, partition_by=()),
            dead_letter_schema(),
            main.offsets,
        )
        hidden = found.hidden
        if self.stores.hidden is not None and hidden is None:
            hidden = self._made(
                self.stores.hidden,
                replace(main.about, role=HIDDEN),
                hidden_columns(self._settings.key, value_fields(main.schema)),
                main.offsets,
            )
        return Tables(main, dead, hidden)

    def _made(self, store: Store, about: About, schema: pa.Schema, offsets: Offsets) -> Snapshot:
        for _ in range(_TRIES):
            try:
                return store.create(about, schema, offsets)
            except ChangedMeanwhileError:
                made = store.open()
                if made is not None:
                    return made
        raise TableError(f"the table at {store.name} comes and goes")

    def _refuse_what_was_taken_back(self, main: Snapshot, hidden: Snapshot) -> None:
        """Hidden rows are planned on a table that was there. Where it is not so far any more, somebody took it back."""
        assert self.stores.hidden is not None
        on = self._hidden_planned_on()
        if on is None and not hidden.files():
            return  # as it was made: it never held anything
        if on is not None and not is_ahead(on, main.offsets):
            return
        now = self.stores.main.open()
        if now is None or now.version != main.version:
            raise ChangedMeanwhileError(f"the table at {self.stores.main.name} went on while it was loaded")
        raise TableError(
            f"the table at {self.stores.main.name} has the topic to {dict(main.offsets)}, and the one beside it, "
            f"{self.stores.hidden.name}, to {dict(hidden.offsets)}: somebody took the first back. Take the table with "
            f"the suffix {HIDDEN_SUFFIX} back to the same offsets too"
        )

    def _hidden_planned_on(self) -> Offsets | None:
        """By the newest of their commits that tells it. Others are between batches, and few."""
        assert self.stores.hidden is not None
        for most in (_FEW, None):
            for commit in self.stores.hidden.history(most):
                if (told := commit.facts.get(PLANNED_ON)) is not None:
                    return {int(each): offset for each, offset in json.loads(str(told)).items()}
        return None

    # Is it the one that is meant?

    def _row_settings(self) -> dict[str, str]:
        return {**self._settings.values.settings(), "key": self._settings.key}

    def _check(self, about: About, topic_id: str | None) -> None:
        settings = self._settings
        cluster_id = self._topic.cluster_id() if about.cluster_id is not None else None
        self._check_same("cluster", about.cluster_id, cluster_id)
        self._check_same("role", about.role, ROWS)
        self._check_same("mode", about.mode, settings.mode)
        if settings.partition_by:
            self._check_same("partitioning", ", ".join(about.partition_by) or "none", ", ".join(settings.partition_by))
        self._check_same("number of buckets", about.buckets, settings.buckets)
        ours = self._row_settings()
        for name in sorted({*ours, *about.settings} - {SCHEMA}):
            there, wanted = about.settings.get(name) or "none", ours.get(name) or "none"
            self._check_same(f"setting {name}", there, wanted)
        if SCHEMA in about.settings and SCHEMA not in ours:
            # The other way round is no harm: values of an inferred table may be declared later.
            raise OptionError(
                f"the table at {self.stores.main.name} was made with a schema, and its {settings.values.format} values "
                "need one again: give --schema, in Python schema=…; without it columns would be inferred"
            )
        self.check_topic(about, topic_id)

    def _check_same(self, what: str, there: object, wanted: object) -> None:
        _check_same(self.stores.main, what, there, wanted)

    def _check_beside(self, store: Store, there: About, role: str, main: About, topic_id: str | None) -> None:
        wanted = {"role": role, "topic": main.topic, "topic_id": topic_id}
        if role == HIDDEN:
            wanted["buckets"] = str(main.buckets)
        for name, value in wanted.items():
            has = getattr(there, name)
            if value is not None and has is not None and str(has) != value:
                raise ForeignTableError(
                    f"the table at {store.name}, beside the one asked for, has the {name.replace('_', ' ')} {has!r}, "
                    f"not {value!r}"
                )


def check_is_of(store: Store, about: About, topic: str) -> None:
    """ForeignTableError where the table is of a topic with another name."""
    _check_same(store, "topic", about.topic, topic)


def _check_same(store: Store, what: str, there: object, wanted: object) -> None:
    """None on either side is not compared."""
    if there is not None and wanted is not None and there != wanted:
        raise ForeignTableError(f"the table at {store.name} has the {what} {there!r}; asked for is {wanted!r}")


def planned_on(main: Snapshot) -> Mapping[str, int | str]:
    return {PLANNED_ON: json.dumps({str(each): offset for each, offset in sorted(main.offsets.items())})}
