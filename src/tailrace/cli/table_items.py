"""What there is to say about a table, for whoever prints it. Pure: what the pipeline found in, items out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tailrace.cli.lines import Item
from tailrace.cli.output import CommandError
from tailrace.cli.pipeline import Position

if TYPE_CHECKING:
    from tailrace.spark.tables.job.dry_run import DryRun
    from tailrace.spark.tables.job.report import TableReport
    from tailrace.spark.tables.job.status import TableStatus
    from tailrace.spark.tables.store import Commit, Offsets, Removed, Snapshot

# What a run did


def batch_item(report: TableReport, before: TableReport | None) -> Item:
    """What came to be between two reports of one run."""
    return {
        "type": "batch",
        "batch": report.batches,
        "version": report.version,
        "records": report.records - (before.records if before else 0),
        "rows": report.rows - (before.rows if before else 0),
        "deleted": report.deleted - (before.deleted if before else 0),
        "dead_letters": report.dead_letters - (before.dead_letters if before else 0),
        "files": report.files - (before.files if before else 0),
        "bytes": report.size_bytes - (before.size_bytes if before else 0),
        "offsets": by_partition(report.offsets),
    }


def report_item(report: TableReport) -> Item:
    return {
        "type": "summary",
        "topic": report.topic,
        "table": report.table,
        "format": report.format,
        "mode": report.mode,
        "created": report.created,
        "version": report.version,
        "batches": report.batches,
        "records": report.records,
        "rows": report.rows,
        "deleted": report.deleted,
        "dead_letters": report.dead_letters,
        "files": report.files,
        "bytes": report.size_bytes,
        "start": by_partition(report.start),
        "offsets": by_partition(report.offsets),
        "replans": report.replans,
        "compacted": report.compacted,
        "removed": removed_item(report.removed),
        "seconds": round(report.seconds, 3),
        "busy_seconds": round(report.busy_seconds, 3),
        "records_per_s": round(report.records_per_second),
        "bytes_per_s": round(report.bytes_per_second),
    }


def removed_item(removed: Removed) -> Item:
    return {"files": removed.files, "bytes": removed.size_bytes, "versions": removed.versions}


# What a run would do


def dry_run_items(found: DryRun) -> list[Item]:
    from tailrace.spark.tables.values.type_names import shown_type

    plan: Item = {
        "type": "plan",
        "topic": found.topic,
        "table": found.table,
        "format": found.format,
        "mode": found.mode,
        "creates": list(found.creates),
        "partition_by": list(found.partition_by),
        "records": found.records,
        "batches": found.batches,
        "start": by_partition(found.start),
        "end": by_partition(found.end),
        "compactions": dict(found.compactions),
        "removed": removed_item(found.removed),
    }
    is_new = found.table in found.creates
    columns = [
        {
            "type": "column",
            "column": each.name,
            "kind": shown_type(each.type),
            "is_new": is_new or each.name in found.new_columns,
        }
        for each in found.columns
    ]
    return [plan, *columns]


# A table as it is


def status_items(status: TableStatus) -> list[Item]:
    table: Item = {
        "type": "table",
        "topic": status.topic,
        "table": status.table,
        "format": status.format,
        "mode": status.mode,
        "version": status.version,
        "made_ms": status.made_ms,
        "behind": status.behind,
        "rows": status.rows,
        "files": status.files,
        "bytes": status.size_bytes,
        "dead_letters": status.dead_letters,
    }
    partitions = [
        {
            "type": "partition",
            "partition": each.partition,
            "offset": each.offset,
            "start": each.start,
            "end": each.end,
            "behind": each.behind,
        }
        for each in status.partitions
    ]
    return [table, *partitions]


def version_item(commit: Commit) -> Item:
    return {
        "type": "version",
        "version": commit.version,
        "made_ms": commit.made_ms,
        "operation": commit.operation,
        "offsets": None if commit.offsets is None else by_partition(commit.offsets),
        "facts": dict(commit.facts),
    }


def file_items(snapshot: Snapshot) -> list[Item]:
    """With whole paths: other readers are not told where the table is."""
    root = snapshot.target().root
    return [
        {
            "type": "file",
            "path": os.path.join(root, each.path),
            "partition": dict(each.partition),
            "rows": each.rows,
            "bytes": each.size_bytes,
        }
        for each in snapshot.files()
    ]


def first_version(history: Sequence[Commit], wanted: Sequence[Position]) -> Item:
    """The oldest version that has the topic up to these records; `history` begins with the newest.

    Where versions were taken back, it is the oldest of those that have had them ever since.
    """
    ours = [commit for commit in history if commit.offsets is not None]
    found: Commit | None = None
    for commit in ours:
        if not holds(commit.offsets or {}, wanted):
            break
        found = commit
    if found is None:
        raise not_there((ours[0].offsets if ours else None) or {}, wanted)
    return {**version_item(found), "is_oldest_kept": found is ours[-1]}


def not_there(offsets: Offsets, wanted: Sequence[Position]) -> CommandError:
    unknown = sorted({each.partition for each in wanted} - set(offsets))
    if unknown:
        numbers = " and ".join(map(str, unknown))
        return CommandError(
            f"the table has nothing of partition {numbers} of the topic",
            "--status shows which partitions there are, and how far the table is behind",
        )
    ends = [f"offset {offsets[number]} of partition {number}" for number in sorted({each.partition for each in wanted})]
    return CommandError(
        f"the table does not have {shown(wanted)}: it has what is before {' and '.join(ends)}",
        "run the command without --at, so that it catches up; --status shows how far it is behind",
    )


def holds(offsets: Offsets, wanted: Sequence[Position]) -> bool:
    return all(offsets.get(each.partition, 0) > each.offset for each in wanted)


def shown(wanted: Sequence[Position]) -> str:
    return ", ".join(f"offset {each.offset} of partition {each.partition}" for each in wanted)


def by_partition(offsets: Mapping[int, int]) -> dict[str, int]:
    """As JSON has keys."""
    return {str(number): offsets[number] for number in sorted(offsets)}
