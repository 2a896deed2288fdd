"""A topic, stores and tasks of tables in memory, for stress tests.

Every effect is a step: a driver may stop there for good.

Rows are tuples in files that are lists. Upserts are decided by the rules, in plain Python.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from tailrace.spark.errors import ChangedMeanwhileError
from tailrace.spark.source.ranges import Bounds, OffsetRange
from tailrace.spark.tables.job.topic import Sight
from tailrace.spark.tables.store import About, Change, Commit, DataFile, FileTarget, Offsets, Removed, Snapshot
from tailrace.spark.tables.tasks import AppendDone, Bucketed, Reading, UpsertDone
from tailrace.spark.tables.values.plan import Discovered, ValueDecoder

BUCKET = "_bucket"


class KilledError(BaseException):
    """Nobody catches it."""


class Record(NamedTuple):
    partition: int
    offset: int
    key: str | None
    time: int
    is_tombstone: bool
    is_bad: bool
    field: str
    """The one field that its value has."""

    @property
    def order(self) -> tuple[int, int, int]:
        return self.time, self.partition, self.offset


class Actor:
    """A thread that runs only when it is let, from one step to the next."""

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.is_done = False
        self._body = body
        self._is_killed = False
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.actor = self  # type: ignore[attr-defined]
        self._thread.start()

    def go(self) -> None:
        """To its next step, or its end."""
        self._turn.release()
        self._back.acquire()

    def kill(self) -> None:
        self._is_killed = True
        self.go()
        self._thread.join()

    def pause(self) -> None:
        self._back.release()
        self._turn.acquire()
        if self._is_killed:
            raise KilledError

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._is_killed:
                self._body()
        except KilledError:
            pass
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._back.release()


def step() -> None:
    """Whoever does something that others see calls this before it."""
    actor = getattr(threading.current_thread(), "actor", None)
    if actor is not None:
        actor.pause()


@dataclass
class World:
    """What survives drivers."""

    log: dict[int, list[Record]]
    files: dict[str, list[Record]] = field(default_factory=dict)
    tables: dict[str, list[FakeSnapshot]] = field(default_factory=dict)
    committed: Callable[[str, FakeSnapshot], None] = lambda name, snapshot: None
    numbers: int = 0

    def write(self, rows: Iterable[Record], partition: Mapping[str, str | None]) -> list[DataFile]:
        listed = list(rows)
        if not listed:
            return []
        self.numbers += 1
        path = f"file-{self.numbers}"
        self.files[path] = listed
        return [DataFile(path, partition, len(listed), 10 * len(listed))]

    def rows(self, files: Iterable[DataFile]) -> list[Record]:
        return [row for each in files for row in self.files[each.path]]

    def read(self, pieces: Iterable[OffsetRange]) -> list[Record]:
        return [row for each in pieces for row in self.log[each.partition.partition][each.start : each.end]]


# A topic


@dataclass
class FakeTopic:
    world: World
    name: str = "orders"

    def look(self) -> Sight:
        step()
        return Sight("id", {each: Bounds(0, len(log)) for each, log in self.world.log.items()})

    def cluster_id(self) -> str | None:
        return "cluster"

    def start(self) -> dict[int, int]:
        step()
        return dict.fromkeys(self.world.log, 0)

    def sample(self, start: Offsets, count: int) -> pa.Array:
        return pa.array([], pa.binary())

    def tell(self, offsets: Offsets) -> None: ...

    def close(self) -> None: ...


# Values


@dataclass(frozen=True)
class FakePlan:
    names: tuple[str, ...] = ()

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(name, pa.int64()) for name in self.names]

    def decoder(self) -> ValueDecoder:
        raise NotImplementedError

    def grown(self, discovered: Iterable[Discovered]) -> FakePlan:
        found = {name for each in discovered for name in each.fields}
        return FakePlan((*self.names, *sorted(found - set(self.names))))


class FakeValues:
    def plan(self, known: Sequence[pa.Field] | None, sample: object) -> FakePlan:
        return FakePlan(tuple(each.name for each in known or () if not each.name.startswith("_")))

    def settings(self) -> dict[str, str]:
        return {"value": "fake"}


# Stores


@dataclass(frozen=True)
class FakeSnapshot:
    world: World
    name: str
    about: About
    version: int
    offsets: Offsets
    schema: pa.Schema
    held: tuple[DataFile, ...] = ()
    operation: str = "create"
    facts: Mapping[str, int | str] = field(default_factory=dict)
    made_ms: int = 0

    def files(self) -> list[DataFile]:
        return list(self.held)

    def target(self) -> FileTarget:
        return FileTarget(self.name, self.schema, self.about.partition_by, True)

    def commit(self, change: Change) -> FakeSnapshot:
        step()
        versions = self.world.tables[self.name]
        if versions[-1] is not self:
            raise ChangedMeanwhileError(f"{self.name} is not at {self.version} any more")
        paths = {each.path for each in change.removes}
        assert paths <= {each.path for each in self.held}, "what is removed is there"
        assert not {each.path for each in change.adds} & {each.path for each in self.held}
        held = (*(each for each in self.held if each.path not in paths), *change.adds)
        made = replace(
            self,
            version=self.version + 1,
            offsets=dict(change.offsets),
            schema=change.schema or self.schema,
            held=held,
            operation=change.operation,
            facts=change.facts,
        )
        versions.append(made)
        self.world.committed(self.name, made)
        return made


@dataclass
class FakeStore:
    world: World
    name: str

    def open(self) -> FakeSnapshot | None:
        step()
        versions = self.world.tables.get(self.name)
        return None if versions is None else versions[-1]

    def create(self, about: About, schema: pa.Schema, offsets: Offsets) -> FakeSnapshot:
        step()
        if self.name in self.world.tables:
            raise ChangedMeanwhileError(f"{self.name} is there")
        made = FakeSnapshot(self.world, self.name, about, 0, dict(offsets), schema)
        self.world.tables[self.name] = [made]
        self.world.committed(self.name, made)
        return made

    def check_place(self) -> None: ...

    def at(self, version: int) -> FakeSnapshot:
        return self.world.tables[self.name][version]

    def history(self, most: int | None = None) -> list[Commit]:
        step()
        versions = list(reversed(self.world.tables[self.name]))[:most]
        return [Commit(each.version, 0, each.operation, each.offsets, each.facts) for each in versions]

    def retain(self, since_ms: int, abandoned_before_ms: int, *, dry_run: bool = False) -> Removed:
        return Removed()

    def beside(self, suffix: str) -> FakeStore:
        return FakeStore(self.world, self.name + suffix)


# Tasks


@dataclass
class FakeWork:
    world: World
    cores: int = 2
    batches_written: int = 0

    def letters_from(self, dead: Snapshot, start: Offsets) -> dict[int, frozenset[int]]:
        step()
        found: dict[int, set[int]] = {}
        for each in self.world.rows(dead.files()):
            if each.offset >= start.get(each.partition, 0):
                found.setdefault(each.partition, set()).add(each.offset)
        return {partition: frozenset(offsets) for partition, offsets in found.items()}

    def append(self, reading: Reading, target: FileTarget, pieces: Sequence[OffsetRange], told: object) -> AppendDone:
        step()
        records = self.world.read(pieces)
        discovered = _unknown(records, reading)
        if discovered:
            return AppendDone([], [], 0, 0, 0, [discovered])
        good = _good(records, reading)
        dead = _dead(records, reading)
        adds = [file for each in pieces for file in self.world.write(_of(good, each), {})]
        return AppendDone(adds, self.world.write(dead, {}), len(good), len(dead), 0, [])

    def upsert(
        self,
        reading: Reading,
        main: Bucketed,
        hidden: Bucketed,
        buckets: int,
        pieces: Sequence[OffsetRange],
        told: object,
    ) -> UpsertDone:
        step()
        records = self.world.read(pieces)
        discovered = _unknown(records, reading)
        if discovered:
            return UpsertDone([], [], [], [], [], 0, 0, 0, 0, [discovered])
        done = UpsertDone([], [], [], [], self.world.write(_dead(records, reading), {}), 0, 0, 0, 0, [])
        good = _good(records, reading)
        for bucket in sorted({bucket_of(each.key, buckets) for each in good}):
            batch = [each for each in good if bucket_of(each.key, buckets) == bucket]
            self._merge(done, main, hidden, bucket, batch)
        self.batches_written += 1
        return done

    def _merge(self, done: UpsertDone, main: Bucketed, hidden: Bucketed, bucket: int, batch: list[Record]) -> None:
        files, hidden_files = main.files.get(bucket, ()), hidden.files.get(bucket, ())
        seen, others = set(self.world.rows(files)), set(self.world.rows(hidden_files))
        new_seen, new_others = set(seen), set(others)
        for key in {each.key for each in batch}:
            of_main, of_hidden = ({row for row in rows if row.key == key} for rows in (seen, others))
            counting = newest(of_main | of_hidden | {each for each in batch if each.key == key})
            first = max(counting, key=lambda row: row.order)
            visible = set() if first.is_tombstone else {first}
            new_seen = (new_seen - of_main) | visible
            # What is to be seen and is hidden so far stays: the table has it only with its own commit.
            new_others = (new_others - of_hidden) | (set(counting) - visible) | (visible & of_hidden - of_main)
        partition = {BUCKET: str(bucket)}
        if new_seen != seen:
            done.adds.extend(self.world.write(sorted(new_seen), partition))
            done.removes.extend(files)
        if new_others != others:
            done.hidden_adds.extend(self.world.write(sorted(new_others), partition))
            done.hidden_removes.extend(hidden_files)

    def compact(
        self, target: FileTarget, groups: Sequence[Sequence[DataFile]], codec: str, target_bytes: int, told: object
    ) -> list[DataFile]:
        step()
        return [file for each in groups for file in self.world.write(self.world.rows(each), each[0].partition)]


def bucket_of(key: str | None, buckets: int) -> int:
    return zlib.crc32((key or "").encode()) % buckets


def newest(rows: Iterable[Record]) -> set[Record]:
    """Of each key and partition."""
    found: dict[tuple[str | None, int], Record] = {}
    for row in rows:
        last = found.setdefault((row.key, row.partition), row)
        if row.offset > last.offset:
            found[row.key, row.partition] = row
    return set(found.values())


def _of(records: list[Record], piece: OffsetRange) -> list[Record]:
    return [each for each in records if each.partition == piece.partition.partition and _is_in(each, piece)]


def _is_in(record: Record, piece: OffsetRange) -> bool:
    return piece.start <= record.offset < piece.end


def _dead(records: list[Record], reading: Reading) -> list[Record]:
    return [each for each in records if each.is_bad and not _has_letter(each, reading)]


def _good(records: list[Record], reading: Reading) -> list[Record]:
    return [each for each in records if not each.is_bad and not _has_letter(each, reading)]


def _has_letter(record: Record, reading: Reading) -> bool:
    return record.offset in reading.has_letter.get(record.partition, ())


def _unknown(records: list[Record], reading: Reading) -> Discovered:
    known = {each.name for each in reading.plan.fields}
    used = {each.field for each in records if not each.is_bad and not each.is_tombstone}
    return Discovered({name: pa.int64() for name in sorted(used - known)})
