"""Small text files that are replaced as a whole.

    0                  version of the format
    2                  number of entries
    orders 0 4711      one line per entry, every line ended by a newline
    orders 1 0

Crash rule. The new text goes to a temporary file beside the old one and takes its name by a rename, so a reader sees
the old or the new text. With `sync` the text is durable before the rename and the rename before the call returns.
Without, a crash may leave an empty or torn file, which `read` refuses: a text that lost its end has either fewer
lines than it says or no newline at its end.

Who may call. One writer at a time for each temporary name; anybody may read. An OSError of the disk passes through
as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tailrace.env import Files, Mode, write_fully
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import invariant
from tailrace.storage.names import TEMPORARY_SUFFIX, directory_of, topic_problem

MAX_CHECKPOINT_BYTES: Final = 64 << 20
"""Two hundred thousand partitions with the longest names; a longer file is not ours."""

_NUMBER: Final = re.compile(r"[0-9]{1,19}")


def write_temporary(files: Files, path: str, data: bytes, *, sync: bool) -> None:
    file = files.open(path, Mode.REPLACE)
    try:
        write_fully(file, (data,), 0)
        if sync:
            file.sync()
    finally:
        file.close()


def replace_durably(files: Files, path: str, data: bytes) -> None:
    """Give `path` the content `data`, durably, or leave it as it is."""
    temporary = path + TEMPORARY_SUFFIX
    write_temporary(files, temporary, data, sync=True)
    files.rename(temporary, path)
    files.sync_dir(directory_of(path))


def read_small_file(files: Files, path: str, max_bytes: int) -> str | None:
    """The text of a file; None when it does not exist; CorruptCheckpointError when it is too long or no UTF-8."""
    try:
        file = files.open(path, Mode.READ)
    except FileNotFoundError:
        return None
    try:
        data = file.read_at(max_bytes + 1, 0) if file.size() <= max_bytes else None
    finally:
        file.close()
    if data is None or len(data) > max_bytes:
        raise CorruptCheckpointError(f"{path} is longer than {max_bytes} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path} is not UTF-8 text: {error}") from None


def parse_number(text: str, limit: int) -> int | None:
    """A plain decimal number from 0 to `limit`, else None."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= limit else None


class CheckpointFile:
    """Lines under a version and a count; what a line means is the caller's."""

    __slots__ = ("_files", "_path", "_version")

    def __init__(self, files: Files, path: str, version: int) -> None:
        """Touches no file."""
        self._files = files
        self._path = path
        self._version = version

    @property
    def path(self) -> str:
        return self._path

    def write(self, lines: Iterable[str], *, sync: bool = True) -> None:
        """Replace the file's entries; durably unless told otherwise."""
        self.publish(self.prepare(lines, sync=sync))
        if sync:
            self._files.sync_dir(directory_of(self._path))

    def prepare(self, lines: Iterable[str], *, suffix: str = TEMPORARY_SUFFIX, sync: bool = True) -> str:
        """Write the text to a temporary file and return its path, for `publish`."""
        entries = list(lines)
        invariant(not any("\n" in line for line in entries), f"an entry of {self._path} has more than one line")
        temporary = self._path + suffix
        text = "\n".join((str(self._version), str(len(entries)), *entries, ""))
        write_temporary(self._files, temporary, text.encode(), sync=sync)
        return temporary

    def publish(self, temporary: str) -> None:
        """Give a prepared file this file's name."""
        self._files.rename(temporary, self._path)

    def read(self, *, empty_is_corrupt: bool = False) -> list[str]:
        """The entries; none when the file does not exist.

        None, too, when it is there but has no bytes, as Kafka makes it at first; a caller that writes without sync
        cannot tell that from a file that lost its text in a crash and says `empty_is_corrupt`.
        """
        text = read_small_file(self._files, self._path, MAX_CHECKPOINT_BYTES)
        if text is None or (not text and not empty_is_corrupt):
            return []
        lines = text.split("\n")
        if lines.pop() or len(lines) < 2:
            raise CorruptCheckpointError(f"{self._path} ends in the middle of a line or before its number of entries")
        version, count = lines[0].strip(), lines[1].strip()
        if version != str(self._version):
            raise CorruptCheckpointError(f"{self._path} has version {version[:20]!r}, not {self._version}")
        if count != str(len(lines) - 2):
            raise CorruptCheckpointError(f"{self._path} has {len(lines) - 2} entries, but says {count[:20]!r}")
        return lines[2:]


class OffsetCheckpoint:
    """One offset per partition: lines `topic partition offset`, version 0.

    Kafka's recovery-point-offset-checkpoint, log-start-offset-checkpoint and replication-offset-checkpoint, each
    in the directory that holds the partitions' directories.
    """

    __slots__ = ("_file",)

    VERSION: Final = 0

    def __init__(self, files: Files, path: str) -> None:
        """Touches no file."""
        self._file = CheckpointFile(files, path, self.VERSION)

    def write(self, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
        self._file.write(
            (f"{partition.topic} {partition.partition} {offset}" for partition, offset in offsets.items()), sync=sync
        )

    def read(self) -> dict[TopicPartition, int]:
        """Of a partition that occurs twice, the last line counts."""
        offsets: dict[TopicPartition, int] = {}
        for line in self._file.read():
            fields = line.split()
            if len(fields) == 3 and topic_problem(fields[0]) is None:
                partition = parse_number(fields[1], 2**31 - 1)
                offset = parse_number(fields[2], 2**63 - 1)
                if partition is not None and offset is not None:
                    offsets[TopicPartition(fields[0], partition)] = offset
                    continue
            raise CorruptCheckpointError(f"{self._file.path} has the line {line[:300]!r}, not topic partition offset")
        return offsets
