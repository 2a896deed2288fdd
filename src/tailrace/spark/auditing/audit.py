"""An audit from beginning to end.

    from tailrace.spark import audit

    report = audit("/data/broker-1", "/data/broker-2")
    report.is_clean, report.by_rule
    report.frame(spark).where("rule = 'crc'").show()
    report.write_html("audit.html")

Steps: folders are listed, their segments read in waves of tasks, what looks like a fault is looked at again, keys and
replicas are compared. Nothing in a log directory is changed or locked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.env import Files
from tailrace.spark.auditing.audit_report import AuditReport, ordered
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.comparing import compare_replicas_twice, find_superseded_twice
from tailrace.spark.auditing.job.confirming import Pause, confirm, key_of
from tailrace.spark.auditing.job.directory_rules import check_directory
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.looking import Looker
from tailrace.spark.auditing.job.memory import AuditMemory, StateFolderError
from tailrace.spark.auditing.job.places import Folder, Places
from tailrace.spark.auditing.job.topic_ids import check_topic_ids
from tailrace.spark.auditing.progress import CONFIRM, LIST, READ, REPLICAS, SUPERSEDED, AuditProgress, AuditTold
from tailrace.spark.auditing.rules import (
    KEYLESS_RECORD,
    NOTE,
    REPLICA_DIVERGENCE,
    REPLICA_MISSING,
    RULES,
    SUPERSEDED_KEY,
)
from tailrace.spark.errors import OptionError
from tailrace.spark.source.files.read_only import ReadOnlyFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TRANSACTION_MS: Final = 900_000
"""Kafka's `transaction.max.timeout.ms`."""
_MOST_MS: Final = 2**31 - 1
_OF_KEYS: Final = frozenset({SUPERSEDED_KEY, KEYLESS_RECORD})
_OF_REPLICAS: Final = frozenset({REPLICA_DIVERGENCE, REPLICA_MISSING})


def audit(
    *paths: str,
    session: SparkSession | None = None,
    state: str | None = None,
    topics: Sequence[str] | None = None,
    rules: Sequence[str] | None = None,
    superseded: bool = True,
    replicas: bool = True,
    max_transaction_ms: int = MAX_TRANSACTION_MS,
    notes: bool = False,
    told: AuditTold | None = None,
) -> AuditReport:
    """Every rule held against every byte of the log directories, or folders of partitions, that `paths` name.

    `state` is a folder on the driver that remembers segments which cannot change any more: they are not read again.
    `topics` are names, with `*` and `?`; `rules` names of rules whose findings are wanted. `superseded` and `replicas`
    turn off what needs a shuffle. A transaction is hanging that is open for longer than `max_transaction_ms` and some
    minutes. `notes` adds what is no fault. `told` hears how far it is.

    Raises OptionError for paths, rules and numbers that cannot be, before anything is read. What is wrong with a log is
    a finding.
    """
    wanted = _checked_rules(rules)
    if not 0 < max_transaction_ms <= _MOST_MS:
        raise OptionError(f"max_transaction_ms is {max_transaction_ms}, not from 1 to {_MOST_MS}")
    files = ReadOnlyFiles()
    places = find_places(files, paths, topics)
    memory = None if state is None else _memory(state, places)
    try:
        from tailrace.spark.spark_session import session as default_session

        run = AuditRun(
            session or default_session(),
            files,
            places,
            memory=memory,
            max_transaction_ms=max_transaction_ms,
            told=told,
        )
        run.read()
        if superseded and wanted & _OF_KEYS:
            run.superseded()
        if replicas and wanted & _OF_REPLICAS:
            run.replicas()
        return run.report(paths, wanted, notes=notes)
    finally:
        if memory is not None:
            memory.close()


def _memory(state: str, places: Places) -> AuditMemory:
    folder = os.path.join(os.path.realpath(state), "")
    for directory in places.directories:
        if folder.startswith(os.path.join(directory.path, "")):
            raise StateFolderError(
                f"state folder {state!r} is in the log directory {directory.path}, which is only read"
            )
    return AuditMemory(state)


def _checked_rules(rules: Sequence[str] | None) -> frozenset[str]:
    if rules is None:
        return frozenset(RULES)
    unknown = [name for name in rules if name not in RULES]
    if unknown or not rules:
        shown = ", ".join(repr(name) for name in unknown) or "nothing"
        raise OptionError(f"rules has {shown}; there are: {', '.join(RULES)}")
    return frozenset(rules)


@dataclass
class _Clock:
    started_ms: int = field(default_factory=lambda: time.time_ns() // 10**6)
    begun: float = field(default_factory=time.monotonic)
    steps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        before = time.monotonic()
        try:
            yield
        finally:
            self.steps[name] = self.steps.get(name, 0.0) + time.monotonic() - before


class AuditRun:
    """The steps of one audit, in the order of its methods."""

    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        places: Places,
        *,
        memory: AuditMemory | None = None,
        max_transaction_ms: int = MAX_TRANSACTION_MS,
        told: AuditTold | None = None,
        pause: Pause = time.sleep,
    ) -> None:
        self._spark = spark
        self._files = files
        self._places = places
        self._told = told
        self._pause = pause
        self._clock = _Clock()
        self._looker = Looker(spark, files, memory=memory, max_transaction_ms=max_transaction_ms, told=told)
        self._folders: dict[str, Folder] = {folder.path: folder for folder in places.folders}
        """As they were listed last."""
        self._findings: list[Finding] = [*places.findings, *check_topic_ids(places.folders)]

    def read(self) -> None:
        """Every segment, and again where something seems to be wrong."""
        with self._clock.step(LIST):
            of_directories = self._directory_findings()
        suspects = []
        with self._clock.step(READ):
            for look in self._looker.first(self._places.folders):
                if look.needs_another:
                    suspects.append(look)
                else:
                    self._findings += look.findings
        with self._clock.step(CONFIRM):
            confirmed = confirm(self._looker, self._files, suspects, pause=self._pause, told=self._told)
            if of_directories:
                shown = {key_of(finding) for finding in self._directory_findings()}
                self._findings += [each for each in of_directories if key_of(each) in shown]
        self._findings += confirmed.findings
        for look in suspects:
            del self._folders[look.folder.path]
        self._folders |= confirmed.folders

    def superseded(self) -> None:
        with self._clock.step(SUPERSEDED):
            found = find_superseded_twice(
                self._spark, self._files, list(self._folders.values()), pause=self._pause, told=self._teller(SUPERSEDED)
            )
        self._findings += found

    def replicas(self) -> None:
        with self._clock.step(REPLICAS):
            found = compare_replicas_twice(
                self._spark, self._files, list(self._folders.values()), pause=self._pause, told=self._teller(REPLICAS)
            )
        self._findings += found

    def report(self, paths: Sequence[str], wanted: frozenset[str], *, notes: bool) -> AuditReport:
        folders = self._places.folders
        tallies = self._looker.tallies
        found = [each for each in self._findings if each.rule in wanted and (notes or each.severity != NOTE)]
        return AuditReport(
            paths=tuple(paths),
            findings=ordered(found),
            figures=tallies.figures,
            directories=len(self._places.directories),
            partitions=len(folders),
            segments=sum(len(folder.segments) for folder in folders),
            skipped_segments=tallies.skipped_segments,
            bytes=sum(folder.size for folder in folders),
            read_bytes=tallies.read_bytes,
            started_ms=self._clock.started_ms,
            seconds=time.monotonic() - self._clock.begun,
            step_seconds=dict(self._clock.steps),
            rules=tuple(name for name in RULES if name in wanted),
        )

    def _directory_findings(self) -> list[Finding]:
        return [
            finding
            for directory in self._places.directories
            if directory.is_whole
            for finding in check_directory(self._files, directory)
        ]

    def _teller(self, step: str) -> Callable[[int, int], None] | None:
        told = self._told
        if told is None:
            return None
        return lambda done, whole: told(AuditProgress(step, done, whole, len(self._findings)))
