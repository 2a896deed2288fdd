"""Rules: a log that was closed begins and ends where its checkpoints say.

    begins   where leader-epoch-checkpoint does, or before: that is cut whenever the log start moves. Kafka cuts it on
             disk a moment later; one that dies just then does not do it after its next start, so it is a warning
    ends     at its recovery point: a clean shutdown flushes all of it and notes so

What is not closed may differ: a kill comes between a file and the checkpoint that tells of it. High watermarks are not
held against log starts: they are noted apart, and a broker that is stopped while it starts leaves them as they were.
"""

from __future__ import annotations

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.few_findings import FewFindings
from tailrace.spark.auditing.job.folder_rules import FolderFacts
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.rules import CHECKPOINT, LOST_START
from tailrace.storage import names
from tailrace.storage.manager.directory_checkpoints import RECOVERY_POINT_FILE
from tailrace.storage.manager.directory_names import METADATA_TOPIC


def check_closed(
    folder: Folder, facts: FolderFacts, end_offset: int | None, *, has_sound_start: bool, has_sound_end: bool
) -> list[Finding]:
    """Of a folder with segments. `end_offset`: behind the last batch; None where damage hides it.

    Where the first or the last segment is not sound, what is wrong with it has been told.
    """
    if not folder.is_closed or folder.partition.topic == METADATA_TOPIC:  # a quorum notes none of these
        return []
    findings = FewFindings(str(folder.partition))
    if has_sound_start:
        _check_first_segment(folder, facts, findings)
    partition, point = folder.partition, folder.noted.recovery_point
    if has_sound_end and end_offset is not None and point is not None and point < end_offset:
        words = f"says that {partition} is durable up to {point}, but it was closed with batches up to {end_offset}"
        findings.add(names.join(folder.log_dir, RECOVERY_POINT_FILE), CHECKPOINT, words, point)
    return findings.all()


def _check_first_segment(folder: Folder, facts: FolderFacts, findings: FewFindings) -> None:
    first = folder.segments[0]
    began = facts.epochs[0].start_offset if facts.epochs else first.base_offset
    if began >= first.base_offset:
        return
    # A log with remote storage begins there, and Kafka notes a log start for each of these.
    is_start_known = folder.has_log_starts and folder.noted.log_start is None
    if is_start_known and not _was_start_just_deleted(folder):
        words = (
            f"by {names.LEADER_EPOCH_CHECKPOINT} the log begins at {began}, and the first segment at "
            f"{first.base_offset}: one before it is gone, unless a broker died right after it had deleted that"
        )
        findings.add(first.path, LOST_START, words, began)


def _was_start_just_deleted(folder: Folder) -> bool:
    """Whether what was before the first segment went just before the shutdown: the epochs may not have been cut yet."""
    bases = [names.parse_offset(name) for name in folder.names if name.endswith(names.DELETED_SUFFIX)]
    return any(base is not None and base < folder.segments[0].base_offset for base in bases)
