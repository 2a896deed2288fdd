"""Rules: what a folder's files are called, and what the small ones among them say.

    names                    files of a log, leftovers of a crash, strangers, indexes without a segment
    partition.metadata       can be read
    leader-epoch-checkpoint  can be read, and ascends
    *.snapshot               format and CRC; no state from behind its offset; the last may be unfinished after a kill

Checkpoints of the log directory are in `directory_rules`; segments and indexes are for tasks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, CorruptSnapshotError
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.directory_rules import check_directory
from tailrace.spark.auditing.job.few_findings import FewFindings
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_file import CutSnapshotError, NewerSnapshotError, Snapshot, read_snapshot
from tailrace.spark.auditing.job.text_files import states_newer_version, without_path
from tailrace.spark.auditing.rules import (
    CHECKPOINT,
    EPOCH_CHECKPOINT,
    GONE,
    LEFTOVER,
    METADATA,
    ORPHAN_INDEX,
    SNAPSHOT,
    SNAPSHOT_ORDER,
    STRAY_FILE,
    UNKNOWN_FORMAT,
    UNREADABLE,
)
from tailrace.storage import names
from tailrace.storage.checkpoint import CheckpointFile
from tailrace.storage.epoch_cache import EpochEntry, parse_entry
from tailrace.storage.manager.directory_checkpoints import CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from tailrace.storage.manager.directory_names import METADATA_TOPIC
from tailrace.storage.partition_metadata import PartitionMetadata

__all__ = ["FolderFacts", "check_directory", "check_ends", "check_folder"]

_LEFTOVERS: Final = {
    names.DELETED_SUFFIX: "is to be deleted",
    names.CLEANED_SUFFIX: "is of a compaction or split that did not finish",
    names.SWAP_SUFFIX: "is of a compaction or split that is finished when the log is opened",
    names.TEMPORARY_SUFFIX: "was to replace another file and did not",
    ".part": "is of a snapshot of metadata that did not finish",
}
_SEGMENT_SUFFIXES: Final = (names.LOG_SUFFIX, names.SNAPSHOT_SUFFIX, *names.INDEX_SUFFIXES)
_KNOWN_NAMES: Final = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)
_OF_METADATA: Final = re.compile(r"quorum-state|[0-9]{20}-[0-9]{10}\.checkpoint")


@dataclass(frozen=True)
class FolderFacts:
    """Picklable and small."""

    epochs: tuple[EpochEntry, ...] = ()
    """Those of leader-epoch-checkpoint, for `AuditPiece.epochs`; none where they do not ascend: no batch can then be
    held against them, and that they do not is told."""
    epochs_are_empty: bool = False
    """The checkpoint is there and has no bytes, as Kafka makes it at first; of a closed log: or no entries."""
    snapshots: tuple[int, ...] = ()
    """Offsets of the producer snapshots that can be read."""


def check_folder(files: Files, folder: Folder) -> tuple[FolderFacts, list[Finding]]:
    """Everything but segments and their indexes. Runs on the driver or in a task; needs only small files."""
    check = _FolderCheck(files, folder)
    check.names()
    check.metadata()
    epochs, are_empty = check.epochs()
    snapshots = tuple(offset for offset in folder.snapshots if check.snapshot(offset))
    return FolderFacts(epochs, are_empty, snapshots), check.findings.all()


def check_ends(folder: Folder, facts: FolderFacts, end_offset: int | None, first_epoch: int) -> list[Finding]:
    """What can be said once the log was read: no epoch, snapshot or point of a checkpoint may lie behind its end.

    In a log that was not closed they may: power loss can take the records that they count.
    `end_offset`: behind the last batch; None where damage hides it. `first_epoch`: of the first batch that has one.
    """
    findings = FewFindings(str(folder.partition))
    epochs = names.join(folder.path, names.LEADER_EPOCH_CHECKPOINT)
    is_lost = folder.is_closed and names.LEADER_EPOCH_CHECKPOINT not in folder.names  # else it may come yet
    if first_epoch >= 0 and (is_lost or facts.epochs_are_empty):
        what = "is missing" if is_lost else "is empty"
        findings.add(epochs, EPOCH_CHECKPOINT, f"{what}, but the batches of the log have leader epochs")
    is_cut = end_offset is not None and folder.judged_to is not None and end_offset < folder.judged_to
    if end_offset is None or is_cut or not folder.is_closed:  # that the log ends too early is told of the log
        return findings.all()
    last = facts.epochs[-1] if facts.epochs else None
    if last is not None and last.start_offset > end_offset:
        words = f"{_shown(last)} begins behind the end of the log at {end_offset}"
        findings.add(epochs, EPOCH_CHECKPOINT, words, last.start_offset)
    for offset in facts.snapshots:
        if offset > end_offset:
            path = names.join(folder.path, names.snapshot_name(offset))
            words = f"is of an offset behind the end of the log at {end_offset}"
            findings.add(path, SNAPSHOT_ORDER, words, offset)
    log_start = folder.noted.log_start
    if log_start is not None and log_start > end_offset:
        words = f"says that {folder.partition} begins at {log_start}, behind the end of its log at {end_offset}"
        findings.add(names.join(folder.log_dir, LOG_START_FILE), CHECKPOINT, words, log_start)
    points = (
        (RECOVERY_POINT_FILE, "is durable", folder.noted.recovery_point),
        (CLEANER_FILE, "is clean", folder.noted.cleaned_to),
    )
    for file, what, point in points:
        if point is not None and point > end_offset:
            words = f"says that {folder.partition} {what} up to {point}, behind the end of its log at {end_offset}"
            findings.add(names.join(folder.log_dir, file), CHECKPOINT, words, point)
    return findings.all()


class _FolderCheck:
    def __init__(self, files: Files, folder: Folder) -> None:
        self._files = files
        self._folder = folder
        self.findings = FewFindings(str(folder.partition))

    def names(self) -> None:
        for name in sorted(self._folder.names):
            found = self._name_problem(name)
            if found is not None:
                self._say(name, *found)
        for name in sorted(self._folder.directories):
            self._say(name, STRAY_FILE, "is a folder, and none of a log's")

    def metadata(self) -> None:
        name = names.PARTITION_METADATA
        if name not in self._folder.names:
            return
        try:
            PartitionMetadata(self._files, self._folder.path).read()
        except CorruptCheckpointError as error:
            self._say(name, METADATA, without_path(self._path(name), error))
        except OSError as error:
            self._failed(name, error)

    def epochs(self) -> tuple[tuple[EpochEntry, ...], bool]:
        """Those that ascend, and whether the file is there and empty."""
        name = names.LEADER_EPOCH_CHECKPOINT
        if name not in self._folder.names:
            return (), False
        path = self._path(name)
        try:
            is_empty = self._files.size(path) == 0
            entries = [parse_entry(path, line) for line in CheckpointFile(self._files, path, 0).read()]
        except CorruptCheckpointError as error:
            is_newer = states_newer_version(self._files, path, 0)
            self._say(name, UNKNOWN_FORMAT if is_newer else EPOCH_CHECKPOINT, without_path(path, error))
            return (), False
        except OSError as error:
            self._failed(name, error)
            return (), False
        return self._ascending(name, entries), is_empty or (not entries and self._folder.is_closed)

    def snapshot(self, offset: int) -> bool:
        """Whether it can be read."""
        name = names.snapshot_name(offset)
        try:
            snapshot = read_snapshot(self._files, self._path(name))
        except NewerSnapshotError as error:
            self._say(name, UNKNOWN_FORMAT, str(error), offset)
        except CorruptSnapshotError as error:
            if isinstance(error, CutSnapshotError) and self._may_be_unfinished(offset):
                self._say(name, LEFTOVER, f"{error}: it was not finished; it goes when the log is opened", offset)
            else:
                self._say(name, SNAPSHOT, str(error), offset)
        except OSError as error:
            self._failed(name, error)
        else:
            if snapshot is not None:
                self._check_newest(name, offset, snapshot)
            return True
        return False

    def _may_be_unfinished(self, offset: int) -> bool:
        """Snapshots are written one after the other: the last one may be what a broker died over."""
        return not self._folder.is_closed and offset == self._folder.snapshots[-1]

    def _name_problem(self, name: str) -> tuple[str, str] | None:
        for suffix, meaning in _LEFTOVERS.items():
            if name.endswith(suffix):
                return LEFTOVER, f"{meaning}; it goes when the log is opened"
        offset = names.parse_offset(name)
        if offset is not None and name[20:] in names.INDEX_SUFFIXES:
            return self._index_problem(names.log_name(offset))
        if (offset is not None and name[20:] in _SEGMENT_SUFFIXES) or name in _KNOWN_NAMES:
            return None
        if self._folder.partition.topic == METADATA_TOPIC and _OF_METADATA.fullmatch(name):
            return None
        return STRAY_FILE, "is none of a log's files"

    def _index_problem(self, log_name: str) -> tuple[str, str] | None:
        listed = self._folder.names
        if log_name in listed or log_name + names.SWAP_SUFFIX in listed:
            return None
        if log_name + names.DELETED_SUFFIX in listed:
            return LEFTOVER, "is to be deleted with its segment"
        return ORPHAN_INDEX, f"is an index without {log_name}"

    def _ascending(self, name: str, entries: list[EpochEntry]) -> tuple[EpochEntry, ...]:
        for before, entry in zip([EpochEntry(-1, -1), *entries], entries, strict=False):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                words = f"{_shown(entry)} does not ascend from {_shown(before)}"
                self._say(name, EPOCH_CHECKPOINT, words, max(entry.start_offset, 0))
                return ()
        return tuple(entries)

    def _check_newest(self, name: str, offset: int, snapshot: Snapshot) -> None:
        newest = np.maximum(snapshot["last_offset"], snapshot["open_from"]).astype(np.int64)
        ahead = np.flatnonzero(newest >= offset)
        if len(ahead):
            first, producer_id = int(newest[ahead[0]]), int(snapshot["producer_id"][ahead[0]])
            more = "" if len(ahead) == 1 else f"; and such of {len(ahead) - 1} more"
            words = f"knows offset {first} of producer {producer_id}, at or behind its own{more}"
            self._say(name, SNAPSHOT_ORDER, words, offset)

    def _failed(self, name: str, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            self._say(name, GONE, "went away before it was read")
        else:
            self._say(name, UNREADABLE, f"cannot be read: {error.strerror or error}")

    def _say(self, name: str, rule: str, words: str, offset: int | None = None) -> None:
        self.findings.add(self._path(name), rule, words, offset)

    def _path(self, name: str) -> str:
        return names.join(self._folder.path, name)


def _shown(entry: EpochEntry) -> str:
    return f"epoch {entry.epoch} from offset {entry.start_offset}"
