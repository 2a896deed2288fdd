"""How the directory of a partition is called inside a data directory.

    orders-0                                          the log that serves
    orders-0.0b5f…c2-future                           a copy being built by a move between data directories
    orders-0.0b5f…c2-delete                           deleted; removed after `file.delete.delay.ms`
    orders-0.0b5f…c2-stray                            not placed here by the cluster's metadata; left for a person

The id is 32 hexadecimal digits, so that one name can be deleted any number of times. Where the name would be longer
than 255 bytes, a deleted or stray one loses the end of its topic's name.
"""

from __future__ import annotations

import random
import re
from enum import Enum
from typing import Final, NamedTuple

from tailrace.model.errors import InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.storage.names import parse_partition_dir, partition_dir_name

MAX_NAME_BYTES: Final = 255
REMOTE_INDEX_CACHE: Final = "remote-log-index-cache"
METADATA_TOPIC: Final = "__cluster_metadata"

_ID_DIGITS: Final = 32
_SUFFIXED: Final = re.compile(r"(\S+)\.\S+(-delete|-stray|-future)")


class Role(Enum):
    """What a directory is for, with the suffix that says so."""

    CURRENT = ""
    FUTURE = "-future"
    DELETED = "-delete"
    STRAY = "-stray"


class PartitionDir(NamedTuple):
    partition: TopicPartition
    role: Role


def parse(name: str) -> PartitionDir:
    """InvalidDataError for a name that is of none of these forms."""
    if name.endswith((Role.FUTURE.value, Role.DELETED.value, Role.STRAY.value)):
        found = _SUFFIXED.fullmatch(name)
        if found is None:
            raise InvalidDataError(f"directory {name[:300]!r} has the suffix of a log, but not its form")
        return PartitionDir(parse_partition_dir(found[1]), Role(found[2]))
    return PartitionDir(parse_partition_dir(name), Role.CURRENT)


def is_ours(name: str) -> bool:
    """Whether a directory beside the partitions is another part's of the broker."""
    return name == REMOTE_INDEX_CACHE or name.rpartition("-")[0] == METADATA_TOPIC


def is_movable(partition: TopicPartition) -> bool:
    """Whether a future log of it can have a name: the longest topic names leave no room for one."""
    return len(f"{partition}.{'0' * _ID_DIGITS}{Role.FUTURE.value}") <= MAX_NAME_BYTES


def name_for(partition: TopicPartition, role: Role, dice: random.Random) -> str:
    """A new name. InvalidDataError where the topic's name is too long to be moved."""
    name = partition_dir_name(partition)
    if role is Role.CURRENT:
        return name
    ending = f"-{partition.partition}.{dice.getrandbits(128):0{_ID_DIGITS}x}{role.value}"
    room = MAX_NAME_BYTES - len(ending)
    if len(partition.topic) > room and role is Role.FUTURE:
        raise InvalidDataError(f"the directory of a moving {partition} would have a name of more than 255 bytes")
    return partition.topic[:room] + ending
