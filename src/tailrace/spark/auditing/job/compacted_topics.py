"""Which topics are known to be compacted, whoever may have done it.

A replica that copied a log from another one has it without what compaction had taken there, and its own cleaner may not
have been at it yet. Any of these tells:

    cleaner-offset-checkpoint   names a partition of the topic, in any log directory of the cluster that is audited
    __cluster_metadata-0        in any of them has a `cleanup.policy` with `compact` for the topic, now or at any time
                                that its log and snapshots still tell of

The metadata log is searched for the bytes of such a record, not replayed: a topic that is taken for compacted without
being so is only judged more mildly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

from tailrace.env import Files, Mode
from tailrace.model.ids import TopicPartition
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.spark.auditing.job.places import LogDirectory
from tailrace.storage.manager.directory_names import METADATA_TOPIC
from tailrace.storage.names import LOG_SUFFIX, join

_METADATA_FOLDER: Final = f"{METADATA_TOPIC}-0"
_SNAPSHOT_SUFFIX: Final = ".checkpoint"
_CHUNK_BYTES: Final = 4 << 20
_MOST_RECORD_BYTES: Final = 512
_MOST_BYTES: Final = 1 << 30
"""Of one metadata log; of a longer one the newest files are searched."""
_POLICY: Final = re.compile(
    rb"\x01"  # the version of the frame
    + bytes([ConfigRecord.KEY])
    + rb"\x00\x02"  # version of the record; a topic's
    rb"(?:[\x02-\x7f]|[\x80-\xff]\x01)([A-Za-z0-9._-]{1,249})"
    rb"\x0fcleanup\.policy[\x02-\x7f][a-z, ]{0,20}compact"
)

CompactedTopics = frozenset[tuple[str | None, str]]
"""Cluster id and topic."""


def compacted_topics(
    files: Files,
    directories: Collection[LogDirectory],
    cleaned: Mapping[str, Collection[TopicPartition]],
) -> CompactedTopics:
    """`cleaned`: for the path of each directory what its cleaner-offset-checkpoint names."""
    found: set[tuple[str | None, str]] = set()
    for directory in directories:
        found.update((directory.cluster_id, partition.topic) for partition in cleaned.get(directory.path, ()))
        for name in _configured(files, join(directory.path, _METADATA_FOLDER)):
            found.add((directory.cluster_id, name))
    return frozenset(found)


def _configured(files: Files, folder: str) -> Iterator[str]:
    """Topics that a metadata log tells of."""
    left = _MOST_BYTES
    with suppress(OSError):  # there is none, or it is gone meanwhile
        listed = sorted((entry.name for entry in files.list(folder) if not entry.is_dir), reverse=True)
        for name in listed:
            if left > 0 and name.endswith((LOG_SUFFIX, _SNAPSHOT_SUFFIX)):
                for part in _parts(files, join(folder, name), left):
                    left -= _CHUNK_BYTES
                    for match in _POLICY.finditer(part):
                        yield match[1].decode("ascii")


def _parts(files: Files, path: str, most: int) -> Iterator[bytes]:
    """The bytes of a file; each part has the end of the one before, so that no record is cut."""
    with suppress(OSError):
        file = files.open(path, Mode.READ)
        try:
            for start in range(0, min(file.size(), most), _CHUNK_BYTES):
                yield file.read_at(_CHUNK_BYTES + _MOST_RECORD_BYTES, start)
        finally:
            file.close()
