"""Rules: the small files of a log directory can be read, nothing else lies in it, and no partition is gone from it.

A checkpoint that cannot be read is one that the audit has to do without: nobody then knows what is committed, or where
compaction has been. Folders that are deleted, stray or being built by a move are worth a note; they are not audited.

A clean shutdown notes a recovery point for every log of the directory and for no other: what is named there was there.
Lines of partitions that were deleted may stay in other checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.few_findings import FewFindings
from tailrace.spark.auditing.job.places import LogDirectory
from tailrace.spark.auditing.job.text_files import states_newer_version, without_path
from tailrace.spark.auditing.rules import CHECKPOINT, LEFTOVER, STRAY_FILE, UNKNOWN_FORMAT, UNREADABLE
from tailrace.storage import names
from tailrace.storage.checkpoint import CheckpointFile, OffsetCheckpoint, parse_number
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.manager.directory_checkpoints import LOG_START_FILE, RECOVERY_POINT_FILE, REPLICATION_FILE
from tailrace.storage.manager.directory_files import CHECKPOINT_FILES, is_known
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

_ROLES: Final = {
    Role.DELETED: "is of a partition that was deleted; it is not audited",
    Role.STRAY: "is of a partition that the cluster did not place here; it is not audited",
    Role.FUTURE: "is being built by a move between disks; it is not audited",
}

_NAMING_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, REPLICATION_FILE)


def check_directory(files: Files, directory: LogDirectory) -> list[Finding]:
    """The checkpoints and other small files of a log directory, if they were asked for."""
    findings = FewFindings(None)
    if not directory.is_whole:
        return []
    for name in CHECKPOINT_FILES:
        if name in directory.names:
            _check_offsets(files, names.join(directory.path, name), findings)
    if META_PROPERTIES_FILE in directory.names:
        _check_properties(files, names.join(directory.path, META_PROPERTIES_FILE), findings)
    for name in sorted(directory.names):
        if not is_known(name):
            findings.add(names.join(directory.path, name), STRAY_FILE, "is none of a log directory's files")
    for name in sorted(directory.directories):
        _check_name(names.join(directory.path, name), name, findings)
    if CLEAN_SHUTDOWN_FILE in directory.names:
        _check_lost(files, directory, findings)
    return findings.all()


def _check_offsets(files: Files, path: str, findings: FewFindings) -> None:
    try:
        OffsetCheckpoint(files, path).read()
        _check_doubled(path, CheckpointFile(files, path, OffsetCheckpoint.VERSION).read(), findings)
    except CorruptCheckpointError as error:
        is_newer = states_newer_version(files, path, OffsetCheckpoint.VERSION)
        findings.add(path, UNKNOWN_FORMAT if is_newer else CHECKPOINT, without_path(path, error))
    except OSError as error:
        _failed(path, error, findings)


def _check_doubled(path: str, lines: Iterable[str], findings: FewFindings) -> None:
    """No broker writes two lines for a partition. One that reads them takes the last, which may be the wrong one."""
    said: dict[str, list[str]] = {}
    for line in lines:
        *partition, offset = line.split() or [""]  # the file may be another one by now
        said.setdefault("-".join(partition), []).append(offset)
    for name, offsets in said.items():
        if len(offsets) > 1:
            words = f"has {len(offsets)} lines for {name}, with offsets {', '.join(offsets[:5])}"
            findings.add(path, CHECKPOINT, words, parse_number(offsets[-1], GREATEST_OFFSET))


def _check_lost(files: Files, directory: LogDirectory, findings: FewFindings) -> None:
    """Partitions that checkpoints name, and of which there is no folder of any kind."""
    path = directory.path
    named = {name: _offsets(files, names.join(path, name)) for name in _NAMING_FILES}
    try:
        entries = files.list(path)
    except OSError:
        return
    if all(entry.name != CLEAN_SHUTDOWN_FILE for entry in entries):
        return  # a broker was started meanwhile
    known = _partitions([*directory.directories, *(entry.name for entry in entries if entry.is_dir)])
    for name, offsets in named.items():
        for partition, offset in sorted(offsets.items()):
            if partition in known or not offset:
                continue
            known.add(partition)
            lost = f"{partition} at offset {offset}, but there is no folder of it"
            if name == RECOVERY_POINT_FILE:
                findings.add(names.join(path, name), CHECKPOINT, f"has {lost}", offset)
            else:
                words = f"has {lost}; the line goes when the file is written anew"
                findings.add(names.join(path, name), LEFTOVER, words, offset)


def _offsets(files: Files, path: str) -> Mapping[TopicPartition, int]:
    with suppress(CorruptCheckpointError, OSError):  # which is told by others
        return OffsetCheckpoint(files, path).read()
    return {}


def _partitions(folders: Iterable[str]) -> set[TopicPartition]:
    found = set()
    for name in folders:
        with suppress(InvalidDataError):
            found.add(directory_names.parse(name).partition)
    return found


def _check_properties(files: Files, path: str, findings: FewFindings) -> None:
    try:
        MetaProperties.read(files, path)
    except CorruptCheckpointError as error:
        is_other = MetaProperties.states_other_version(files, path)
        findings.add(path, UNKNOWN_FORMAT if is_other else CHECKPOINT, without_path(path, error))
    except OSError as error:
        _failed(path, error, findings)


def _check_name(path: str, name: str, findings: FewFindings) -> None:
    if directory_names.is_ours(name):
        return
    try:
        role = directory_names.parse(name).role
    except InvalidDataError:
        findings.add(path, STRAY_FILE, "is a folder of no partition")
        return
    if role in _ROLES:
        findings.add(path, LEFTOVER, _ROLES[role])


def _failed(path: str, error: OSError, findings: FewFindings) -> None:
    findings.add(path, UNREADABLE, f"cannot be read: {error.strerror or error}")
