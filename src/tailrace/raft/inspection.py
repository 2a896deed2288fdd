"""Reading how data directories are formatted, without changing, locking or creating anything.

Of each directory it is `meta.properties`; of the directory of the metadata log also what the cluster began with: the
feature levels of `bootstrap.checkpoint` and the voters of the first snapshot. The log may have changed both since: its
end and its voters are read as well.

Who may call. Any thread of any process, also while a node uses the directories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, CorruptMetadataError, StorageError, UnsupportedVersionError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.bootstrap import BOOTSTRAP_FILE, read_bootstrap_records
from tailrace.raft.format import FIRST_SNAPSHOT
from tailrace.raft.metadata_log import METADATA_PARTITION
from tailrace.raft.snapshot import SnapshotHead, SnapshotReader
from tailrace.raft.stored_log import StoredLog, read_stored_log
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties
from tailrace.storage.names import join, partition_dir_name

_REPAIR: Final = "restore the file from a copy; without it the node does not start"
_CHECK: Final = "check node.id and log.dirs; a directory must not be copied or moved to another node"


class DirectoryState(Enum):
    FORMATTED = "formatted"
    NOT_FORMATTED = "not formatted"
    MISSING = "missing"
    NOT_A_DIRECTORY = "not a directory"
    UNREADABLE = "unreadable"

    @property
    def can_be_formatted(self) -> bool:
        return self in (DirectoryState.NOT_FORMATTED, DirectoryState.MISSING)


class Problem(NamedTuple):
    text: str
    hint: str


class FoundDirectory(NamedTuple):
    path: str
    state: DirectoryState
    meta: MetaProperties | None = None
    """Of a formatted one."""
    problem: Problem | None = None


class Beginning(NamedTuple):
    """What the cluster began with, as the directory of the metadata log has it."""

    features: dict[str, int]
    head: SnapshotHead | None
    """Of the first snapshot; None if the voters are not records of the log, or the snapshot was deleted since."""


class Inspection(NamedTuple):
    directories: tuple[FoundDirectory, ...]
    beginning: Beginning | None
    """None if the directory of the metadata log is not formatted, or cannot be read."""
    log: StoredLog | None
    """None if there is no metadata log, or it cannot be read."""
    mismatches: tuple[Problem, ...]
    """Ids that differ from the first directory's, that are not this node's, or that two directories share."""
    problems: tuple[Problem, ...]
    """Everything that keeps a node from starting with these directories, mismatches included."""

    @property
    def meta(self) -> MetaProperties | None:
        """Of the first formatted directory."""
        return next((each.meta for each in self.directories if each.meta is not None), None)


def inspect_directories(files: Files, directories: Sequence[str], metadata_directory: str, node_id: int) -> Inspection:
    """All of `directories` and `metadata_directory`, by path."""
    found = tuple(_inspect(files, path) for path in sorted({metadata_directory, *directories}))
    mismatches = tuple(_mismatches(found, node_id))
    problems = [each.problem for each in found if each.problem is not None]
    problems += mismatches
    beginning = log = None
    if any(each.path == metadata_directory and each.meta is not None for each in found):
        try:
            beginning = _beginning(files, metadata_directory)
            log = read_stored_log(files, join(metadata_directory, partition_dir_name(METADATA_PARTITION)))
        except (CorruptMetadataError, UnsupportedVersionError) as error:
            problems.append(Problem(str(error), _REPAIR))
        except StorageError as error:
            problems.append(Problem(str(error), error.hint))
    return Inspection(found, beginning, log, mismatches, tuple(problems))


def _inspect(files: Files, path: str) -> FoundDirectory:
    try:
        files.list(path)
        meta = MetaProperties.read(files, join(path, META_PROPERTIES_FILE))
    except FileNotFoundError:
        problem = Problem(f"{path} does not exist", "`tailrace storage format` creates and formats it")
        return FoundDirectory(path, DirectoryState.MISSING, None, problem)
    except NotADirectoryError:
        problem = Problem(f"{path} is not a directory", "name directories in log.dirs and metadata.log.dir")
        return FoundDirectory(path, DirectoryState.NOT_A_DIRECTORY, None, problem)
    except OSError as cause:
        error = StorageError(f"read {path}", cause)
        return FoundDirectory(path, DirectoryState.UNREADABLE, None, Problem(str(error), error.hint))
    except CorruptCheckpointError as error:
        return FoundDirectory(path, DirectoryState.UNREADABLE, None, Problem(str(error), _REPAIR))
    if meta is None:
        problem = Problem(f"{path} is not formatted", "format it with `tailrace storage format`")
        return FoundDirectory(path, DirectoryState.NOT_FORMATTED, None, problem)
    return FoundDirectory(path, DirectoryState.FORMATTED, meta)


def _mismatches(found: Sequence[FoundDirectory], node_id: int) -> Iterator[Problem]:
    formatted = [(each.path, each.meta) for each in found if each.meta is not None]
    owners: dict[DirectoryId, str] = {}
    for path, meta in formatted:
        first_path, first = formatted[0]
        if meta.cluster_id != first.cluster_id:
            text = f"{path} belongs to cluster {meta.cluster_id}, and {first_path} to cluster {first.cluster_id}"
            yield Problem(text, _CHECK)
        if meta.node_id != node_id:
            yield Problem(f"{path} belongs to node {meta.node_id}, not {node_id}", _CHECK)
        if meta.directory_id is None:
            continue
        owner = owners.setdefault(meta.directory_id, path)
        if owner != path:
            yield Problem(f"{path} has the directory id of {owner}, {meta.directory_id}", _CHECK)


def _beginning(files: Files, directory: str) -> Beginning:
    snapshot = join(join(directory, partition_dir_name(METADATA_PARTITION)), FIRST_SNAPSHOT.name)
    try:
        has_bootstrap, has_snapshot = files.exists(join(directory, BOOTSTRAP_FILE)), files.exists(snapshot)
    except OSError as cause:
        raise StorageError(f"read {directory}", cause) from cause
    features = {}
    if has_bootstrap:
        for record, _ in read_bootstrap_records(files, directory):
            if isinstance(record, FeatureLevelRecord):
                features[record.name] = record.feature_level
    head = SnapshotReader(files, snapshot).head() if has_snapshot else None
    return Beginning(features, head)
