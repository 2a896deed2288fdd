"""Files that tell what was done to them: which were opened and mapped, which bytes of a mapping were read."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from tailrace.env import Buffer, Entry, File, Files, Mapping, Mode


class WatchedMapping:
    def __init__(self, watch: WatchedFiles, mapping: Mapping) -> None:
        self._watch = watch
        self._mapping = mapping

    def __getitem__(self, key: slice, /) -> bytes:
        self._watch.reads.append((key.start, key.stop))
        return self._mapping[key]

    def __len__(self) -> int:
        return len(self._mapping)

    def close(self) -> None:
        self._watch.open_mappings.discard(self)
        self._mapping.close()


class WatchedFile:
    def __init__(self, watch: WatchedFiles, file: File) -> None:
        self._watch = watch
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read_at(self, size: int, position: int) -> bytes:
        return self._file.read_at(size, position)

    def read_into(self, buffer: memoryview, position: int) -> int:
        return self._file.read_into(buffer, position)

    def write_at(self, parts: Sequence[Buffer], position: int) -> int:
        self._watch.writes.append((position, sum(len(part) for part in parts)))
        return self._file.write_at(parts, position)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._watch.syncs.append(self.path)
        self._file.sync()

    def map(self) -> Mapping:
        mapping = WatchedMapping(self._watch, self._file.map())
        self._watch.open_mappings.add(mapping)
        self._watch.maps += 1
        return mapping

    def close(self) -> None:
        self._file.close()


class WatchedFiles:
    """Implements `env.Files` over another one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.opens: list[tuple[str, Mode]] = []
        self.syncs: list[str] = []  # of files and directories
        self.maps = 0
        self.open_mappings: set[WatchedMapping] = set()
        self.reads: list[tuple[int, int]] = []  # first byte and end of each read of a mapping
        self.writes: list[tuple[int, int]] = []  # position and length

    def open(self, path: str, mode: Mode) -> WatchedFile:
        file = WatchedFile(self, self._files.open(path, mode))
        self.opens.append((path, mode))
        return file

    def list(self, path: str) -> builtins.list[Entry]:
        return self._files.list(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._files.set_modified_ms(path, modified_ms)

    def make_dir(self, path: str) -> None:
        self._files.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._files.rename(source, target)

    def unlink(self, path: str) -> None:
        self._files.unlink(path)

    def remove_dir(self, path: str) -> None:
        self._files.remove_dir(path)

    def sync_dir(self, path: str) -> None:
        self.syncs.append(path)
        self._files.sync_dir(path)
