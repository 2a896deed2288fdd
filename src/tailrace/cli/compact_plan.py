"""What an offline compaction is to do: whose directories, which topics, and up to which offset of each partition.

Which topics compact is known to the cluster's metadata, not to a data directory. Its files tell of a topic that was
cleaned before (`cleaner-offset-checkpoint`), and the internal topics always compact; any other is to be named.

Nothing is changed or locked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.cli.dir_facts import INTERNAL_TOPICS
from tailrace.cli.dir_lock import lock_holder
from tailrace.cli.output import CommandError
from tailrace.env import Entry, Files, Mode
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.record.reader import records_of
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.log_walk import LogWalk
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.directory_checkpoints import CLEANER_FILE, REPLICATION_FILE
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_directory import LOCK_FILE
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

DIRECTORY_HINT: Final = "give a stopped broker's data directory: an entry of its log.dirs"
NO_META_HINT: Final = (
    f"without {META_PROPERTIES_FILE} nobody knows whose logs these are; copy the file from the broker, or start the "
    "broker once on this directory"
)
RUNNING_HINT: Final = "stop the broker first; a running one compacts by itself"
SAMPLED_BATCHES: Final = 20
SAMPLED_BYTES: Final = 16 << 20

ASKED: Final = "asked for"
INTERNAL: Final = "internal"
CLEANED: Final = "cleaned before"


class Plan(NamedTuple):
    directories: tuple[str, ...]
    identity: NodeIdentity
    topics: Mapping[str, str]
    """Those to be compacted, and why them."""
    left_topics: tuple[str, ...]
    """Those that are there and stay as they are."""
    partitions: Mapping[TopicPartition, str]
    """Those to be compacted, and the data directories they are in."""
    high_watermarks: Mapping[str, Mapping[TopicPartition, int]]
    """By directory, as last checkpointed: beyond them records may still be taken back."""


class _Directory(NamedTuple):
    path: str
    identity: NodeIdentity
    partitions: dict[TopicPartition, str]
    """Their directories' paths."""
    cleaned: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


def make_plan(files: Files, paths: Sequence[str], topics: Sequence[str], *, drops_keyless: bool) -> Plan:
    """CommandError for what a person has to put right before."""
    directories = [_look_into(files, path.rstrip("/") or "/", is_choosing=not topics) for path in paths]
    first = directories[0]
    for each in directories[1:]:
        if each.identity != first.identity:
            whose = " and ".join(f"{one.path} of {_shown(one.identity)}" for one in (first, each))
            raise CommandError(f"the directories are not one broker's: {whose}", "compact them one after the other")
    present = {partition.topic for each in directories for partition in each.partitions}
    chosen = _asked_for(topics, present) if topics else _known(directories, present)
    if not drops_keyless:
        for each in directories:
            _refuse_keyless(files, each, chosen)
    return Plan(
        directories=tuple(each.path for each in directories),
        identity=first.identity,
        topics=chosen,
        left_topics=tuple(sorted(present - chosen.keys())),
        partitions={
            partition: each.path for each in directories for partition in each.partitions if partition.topic in chosen
        },
        high_watermarks={each.path: each.high_watermarks for each in directories},
    )


def _shown(identity: NodeIdentity) -> str:
    return f"node {identity.node_id} in cluster {identity.cluster_id}"


def _look_into(files: Files, path: str, *, is_choosing: bool) -> _Directory:
    try:
        entries = files.list(path)
        meta = MetaProperties.read(files, names.join(path, META_PROPERTIES_FILE))
        if meta is None:
            raise CommandError(f"{path} has no {META_PROPERTIES_FILE}", NO_META_HINT)
        holder = lock_holder(names.join(path, LOCK_FILE))
        if holder is not None:
            who = "another process" if holder.pid is None else f"process {holder.pid}"
            raise CommandError(f"{path} is in use: {who} holds its {LOCK_FILE}", RUNNING_HINT)
        return _Directory(
            path,
            NodeIdentity(meta.cluster_id, meta.node_id),
            dict(_partitions_in(path, entries)),
            _cleaned_before(files, path, is_choosing=is_choosing),
            OffsetCheckpoint(files, names.join(path, REPLICATION_FILE)).read(),
        )
    except FileNotFoundError:
        raise CommandError(f"{path} does not exist", DIRECTORY_HINT) from None
    except NotADirectoryError:
        raise CommandError(f"{path} is not a directory", DIRECTORY_HINT) from None
    except OSError as cause:
        raise StorageError(f"look into {path}", cause) from cause


def _partitions_in(path: str, entries: Sequence[Entry]) -> list[tuple[TopicPartition, str]]:
    found = []
    for entry in entries:
        if entry.is_dir and not directory_names.is_ours(entry.name):
            try:
                partition, role = directory_names.parse(entry.name)
            except InvalidDataError:
                continue
            if role is Role.CURRENT:
                found.append((partition, names.join(path, entry.name)))
    return found


def _cleaned_before(files: Files, path: str, *, is_choosing: bool) -> dict[TopicPartition, int]:
    """A damaged file is no obstacle to cleaning, which then begins at the log start: only to choosing."""
    file = names.join(path, CLEANER_FILE)
    try:
        return OffsetCheckpoint(files, file).read()
    except CorruptCheckpointError as error:
        if is_choosing:
            raise CommandError(str(error), "name the topics to compact with --topic") from None
        return {}


def _asked_for(topics: Sequence[str], present: set[str]) -> dict[str, str]:
    missing = sorted(set(topics) - present)
    if missing:
        shown = ", ".join(sorted(present)[:10]) + (", …" if len(present) > 10 else "")
        raise CommandError(
            f"no partition of {', '.join(missing)} is there",
            f"there are {shown}" if present else "there is none at all",
        )
    return dict.fromkeys(sorted(topics), ASKED)


def _known(directories: Sequence[_Directory], present: set[str]) -> dict[str, str]:
    cleaned = {partition.topic for each in directories for partition in each.cleaned} & present
    internal = present.intersection(INTERNAL_TOPICS)
    if not cleaned and not internal:
        raise CommandError(
            "no topic here is known to compact: none was cleaned before, and none is internal",
            "name those whose cleanup.policy is compact with --topic",
        )
    return {topic: INTERNAL if topic in internal else CLEANED for topic in sorted(cleaned | internal)}


# Records without keys


def _refuse_keyless(files: Files, directory: _Directory, chosen: Mapping[str, str]) -> None:
    """A topic that compacts takes no records without a key: where there are some, it is likely the wrong topic."""
    for partition, path in directory.partitions.items():
        if partition in directory.cleaned or chosen.get(partition.topic) != ASKED:
            continue
        offset = _first_keyless(files, path)
        if offset is not None:
            raise CommandError(
                f"{path} has a record without a key at offset {offset}, which compaction would remove: "
                f"{partition.topic} does not look like a compacted topic",
                "leave it out, or say --drop-keyless if such records are to go",
            )


def _first_keyless(files: Files, path: str) -> int | None:
    """Among the first batches of a partition. What cannot be read is another's to tell."""
    logs = sorted(
        entry.name
        for entry in files.list(path)
        if not entry.is_dir and entry.name.endswith(names.LOG_SUFFIX) and names.parse_offset(entry.name) is not None
    )
    for name in logs[:1]:
        file = files.open(names.join(path, name), Mode.READ)
        try:
            for place, walked in enumerate(LogWalk(file)):
                if place == SAMPLED_BATCHES or walked.window is None or not walked.is_intact:
                    break
                if walked.batch.is_control:
                    continue
                for record in records_of(walked.window, walked.batch, SAMPLED_BYTES):
                    if record.key is None:
                        return record.offset
        except TailraceError:
            return None
        finally:
            file.close()
    return None
