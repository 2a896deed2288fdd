"""The file `partition.metadata`: which topic, of all that ever had this name, a directory belongs to.

    version: 0
    topic_id: dp_vzmL5QQGAyPhHLl-m9g       22 characters of URL-safe base64; no newline at the end

Crash rule. Written once, durably, before the first record of the log; it is the old or the new file, never a part.
A higher version is read as long as these two lines are its first.

Who may call. The owner of the log.
"""

from __future__ import annotations

from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, InconsistentTopicIdError, InvalidDataError
from tailrace.model.ids import ZERO_TOPIC_ID, TopicId
from tailrace.storage.checkpoint import parse_number, read_small_file, replace_durably
from tailrace.storage.names import PARTITION_METADATA, join

_VERSION: Final = 0
_MAX_BYTES: Final = 4096


class PartitionMetadata:
    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, dir: str) -> None:  # noqa: A002 - the word for it everywhere else
        """Touches no file."""
        self._files = files
        self._path = join(dir, PARTITION_METADATA)

    @property
    def path(self) -> str:
        return self._path

    def read(self) -> TopicId | None:
        """The topic's id; None when there is no file; CorruptCheckpointError when it is damaged."""
        text = read_small_file(self._files, self._path, _MAX_BYTES)
        if text is None:
            return None
        lines = text.split("\n")
        self._check_version(lines[0])
        return self._parse_topic_id(lines[1] if len(lines) > 1 else "")

    def write(self, topic_id: TopicId) -> None:
        """Bind the directory to a topic, durably. Again is fine; to another topic is refused."""
        if topic_id == ZERO_TOPIC_ID:
            raise InvalidDataError(f"{self._path} cannot be given the topic id {topic_id}, which stands for none")
        bound = self.read()
        if bound == topic_id:
            return
        if bound is not None:
            raise InconsistentTopicIdError(f"{self._path} says topic id {bound}, not {topic_id}")
        replace_durably(self._files, self._path, f"version: {_VERSION}\ntopic_id: {topic_id}".encode())

    def moved_to(self, dir: str) -> None:  # noqa: A002
        """The directory was renamed."""
        self._path = join(dir, PARTITION_METADATA)

    def _check_version(self, line: str) -> None:
        fields = line.split()
        if len(fields) != 2 or fields[0] != "version:" or parse_number(fields[1], 2**31 - 1) is None:
            raise CorruptCheckpointError(f"{self._path} begins with {line[:40]!r}, not with its version")

    def _parse_topic_id(self, line: str) -> TopicId:
        fields = line.split()
        if len(fields) != 2 or fields[0] != "topic_id:":
            raise CorruptCheckpointError(f"{self._path} has {line[:60]!r} where the topic id should be")
        try:
            topic_id = TopicId.parse(fields[1])
        except ValueError as error:
            raise CorruptCheckpointError(f"{self._path}: {error}") from None
        if topic_id == ZERO_TOPIC_ID:
            raise CorruptCheckpointError(f"{self._path} has the topic id {topic_id}, which stands for none")
        return topic_id
