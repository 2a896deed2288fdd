"""How the files and directories of a log are called.

    <log dir>/<topic>-<partition>/
        00000000000000147001.log         records from offset 147001 on; 20 digits, so that names sort as offsets do
        00000000000000147001.index       offset → position in the .log file
        00000000000000147001.timeindex   timestamp → offset
        00000000000000147001.txnindex    aborted transactions; only where there are any
        00000000000000147001.snapshot    producer state just before offset 147001
        leader-epoch-checkpoint          which leader epoch began at which offset
        partition.metadata               the topic's id

A file on its way out or in has one more suffix: `.deleted` (to be unlinked soon), `.cleaned` (being written by
compaction or a split), `.swap` (complete, about to take its place). Paths are joined with `/`: they go to
`env.Files`, which may be a disk that exists only in a test.
"""

from __future__ import annotations

import re
from typing import Final

from tailrace.model.errors import InvalidDataError
from tailrace.model.ids import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

MAX_TOPIC_LENGTH: Final = 249  # with a dash, ten digits and a suffix it stays below a file name's 255 bytes

_MAX_OFFSET: Final = 2**63 - 1
_MAX_PARTITION: Final = 2**31 - 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_PREFIX: Final = re.compile(r"([0-9]{20})\.")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def prefix_of(offset: int) -> str:
    """The 20 digits that begin the name of every file of the segment whose base is `offset`."""
    if not 0 <= offset <= _MAX_OFFSET:
        raise InvalidDataError(f"offset {offset} names no segment: it must be from 0 to {_MAX_OFFSET}")
    return f"{offset:020d}"


def log_name(base_offset: int) -> str:
    return prefix_of(base_offset) + LOG_SUFFIX


def offset_index_name(base_offset: int) -> str:
    return prefix_of(base_offset) + INDEX_SUFFIX


def time_index_name(base_offset: int) -> str:
    return prefix_of(base_offset) + TIME_INDEX_SUFFIX


def txn_index_name(base_offset: int) -> str:
    return prefix_of(base_offset) + TXN_INDEX_SUFFIX


def snapshot_name(offset: int) -> str:
    return prefix_of(offset) + SNAPSHOT_SUFFIX


def parse_offset(name: str) -> int | None:
    """The offset in a file's name, None where the name does not begin with 20 digits and a dot."""
    found = _PREFIX.match(name)
    if found is None:
        return None
    offset = int(found[1])
    return offset if offset <= _MAX_OFFSET else None


def offset_of(name: str) -> int:
    """The offset in the name of a file that must have one."""
    offset = parse_offset(name)
    if offset is None:
        raise InvalidDataError(f"file name {name!r} does not begin with the 20 digits of an offset and a dot")
    return offset


def topic_problem(topic: str) -> str | None:
    """What is wrong with a topic's name, None for a good one."""
    if not topic:
        return "it is empty"
    if topic in (".", ".."):
        return "'.' and '..' are not allowed"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"it has {len(topic)} characters, more than {MAX_TOPIC_LENGTH}"
    if _TOPIC.fullmatch(topic) is None:
        return "it has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def partition_dir_name(partition: TopicPartition) -> str:
    problem = topic_problem(partition.topic)
    if problem is not None:
        raise InvalidDataError(f"topic name {partition.topic[: MAX_TOPIC_LENGTH + 1]!r}: {problem}")
    if not 0 <= partition.partition <= _MAX_PARTITION:
        raise InvalidDataError(f"partition {partition.partition} of topic {partition.topic} is not an int32 from 0 on")
    return f"{partition.topic}-{partition.partition}"


def parse_partition_dir(name: str) -> TopicPartition:
    """The partition that a directory of this name holds."""
    topic, dash, digits = name.rpartition("-")
    shown = repr(name[:300])
    if not dash:
        raise InvalidDataError(f"directory {shown} is not of the form topic-partition: there is no dash")
    problem = topic_problem(topic)
    if problem is not None:
        raise InvalidDataError(f"directory {shown} is not of the form topic-partition: the topic is bad: {problem}")
    if _PARTITION.fullmatch(digits) is None or int(digits) > _MAX_PARTITION:
        raise InvalidDataError(
            f"directory {shown} is not of the form topic-partition: {digits[:20]!r} is not a partition number"
        )
    return TopicPartition(topic, int(digits))


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}"


def directory_of(path: str) -> str:
    """The directory that holds `path`; `.` for a bare name."""
    directory, slash, _ = path.rpartition("/")
    return directory or ("/" if slash else ".")
