"""Rules: the small files of a log directory can be read, and nothing else lies in it.

A checkpoint that cannot be read is one that the audit has to do without: nobody then knows what is committed, or where
compaction has been. Folders that are deleted, stray or being built by a move are worth a note; they are not audited.
"""

from __future__ import annotations

from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.few_findings import FewFindings
from tailrace.spark.auditing.job.places import LogDirectory
from tailrace.spark.auditing.job.text_files import states_newer_version, without_path
from tailrace.spark.auditing.rules import CHECKPOINT, LEFTOVER, STRAY_FILE, UNKNOWN_FORMAT, UNREADABLE
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.directory_files import CHECKPOINT_FILES, is_known
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

_ROLES: Final = {
    Role.DELETED: "is of a partition that was deleted; it is not audited",
    Role.STRAY: "is of a partition that the cluster did not place here; it is not audited",
    Role.FUTURE: "is being built by a move between disks; it is not audited",
}


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
    return findings.all()


def _check_offsets(files: Files, path: str, findings: FewFindings) -> None:
    try:
        OffsetCheckpoint(files, path).read()
    except CorruptCheckpointError as error:
        is_newer = states_newer_version(files, path, OffsetCheckpoint.VERSION)
        findings.add(path, UNKNOWN_FORMAT if is_newer else CHECKPOINT, without_path(path, error))
    except OSError as error:
        _failed(path, error, findings)


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
