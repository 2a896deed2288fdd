"""What needs a shuffle, twice: keys and replicas of logs that are at work differ for moments.

As with segments, only what a second look at newer listings shows again is a finding. Folders that nobody touched for a
while are believed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.env import Files
from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.job.confirming import PAUSE_S, Pause, is_settled
from tailrace.spark.auditing.job.listing import list_again
from tailrace.spark.auditing.job.places import Folder, replica_groups
from tailrace.spark.auditing.shuffles.replicas import compare_replicas
from tailrace.spark.auditing.shuffles.superseded import find_superseded
from tailrace.storage.names import directory_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TellTasks = Callable[[int, int], None]


def find_superseded_twice(
    spark: SparkSession, files: Files, folders: Sequence[Folder], *, pause: Pause, told: TellTasks | None = None
) -> list[Finding]:
    def look(at: Sequence[Folder], report: Report, told: TellTasks | None) -> None:
        find_superseded(spark, at, report, told=told)

    return _twice(files, folders, look, pause, told)


def compare_replicas_twice(
    spark: SparkSession, files: Files, folders: Sequence[Folder], *, pause: Pause, told: TellTasks | None = None
) -> list[Finding]:
    """Of all partitions that more than one broker has."""

    def look(at: Sequence[Folder], report: Report, told: TellTasks | None) -> None:
        compare_replicas(spark, replica_groups(tuple(at)), report, told=told)

    return _twice(files, folders, look, pause, told)


def _twice(
    files: Files,
    folders: Sequence[Folder],
    look: Callable[[Sequence[Folder], Report, TellTasks | None], None],
    pause: Pause,
    told: TellTasks | None,
) -> list[Finding]:
    first: list[Finding] = []
    look(folders, first.append, told)
    if not first:
        return []
    concerned = {finding.partition for finding in first}
    suspects = [folder for folder in folders if str(folder.partition) in concerned]
    fresh: list[Folder] = []
    for folder in suspects:
        with suppress(OSError):  # gone: nothing that is found in it counts
            fresh.append(list_again(files, folder))
    if len(fresh) == len(suspects) and all(
        now.is_same_as(before) and is_settled(now) for now, before in zip(fresh, suspects, strict=True)
    ):
        return first
    pause(PAUSE_S)
    second: list[Finding] = []
    look(fresh, second.append, None)
    shown = {_key(finding) for finding in first}
    return [finding for finding in second if _key(finding) in shown]


def _key(finding: Finding) -> tuple[str, str | None, int | None, str]:
    """A compaction between two looks may give a record another file of the same folder."""
    return directory_of(finding.file), finding.partition, finding.offset, finding.rule
