"""Without faults the simulated disk behaves as the real one, errors included."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.env import File, Files, Mapping, Mode
from tailrace.env.real import RealFiles
from tailrace.sim import SimDisk

PAGE = 4096
SLOTS = 3

paths = st.sampled_from(["a", "b", "d", "e", "d/a", "d/b", "d/e", "e/a", "d/e/a", "a/x"])
slots = st.integers(0, SLOTS - 1)
positions = st.one_of(st.integers(-1, 10), st.integers(PAGE - 5, PAGE + 5), st.integers(0, 3 * PAGE))
parts = st.lists(st.one_of(st.binary(max_size=20), st.integers(PAGE - 2, PAGE + 2).map(lambda n: b"q" * n)), max_size=3)

calls = st.one_of(
    st.tuples(st.just("open"), slots, paths, st.sampled_from(list(Mode))),
    st.tuples(st.just("make_dir"), paths),
    st.tuples(st.sampled_from(["unlink", "remove_dir", "list", "exists", "file_size", "sync_dir"]), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("write"), slots, parts, positions),
    st.tuples(st.just("read"), slots, positions, positions),
    st.tuples(st.just("read_into"), slots, st.integers(0, 5000), positions),
    st.tuples(st.just("truncate"), slots, positions),
    st.tuples(st.sampled_from(["size", "sync", "close", "map", "unmap", "map_length"]), slots),
    st.tuples(st.just("map_read"), slots, positions, positions),
)


class Program:
    """Plays calls on one disk and tells what came of each."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._open: list[File | None] = [None] * SLOTS
        self._mapped: list[tuple[Mapping, File] | None] = [None] * SLOTS

    def play(self, call: tuple[Any, ...]) -> object:
        try:
            return self._play(*call)
        except OSError as error:
            return ("error", error.errno)

    def _play(self, name: str, *arguments: Any) -> object:
        files = self._files
        match name, *arguments:
            case "open", slot, path, mode:
                self._open[slot] = files.open(self._at(path), mode)
                return None
            case "file_size", path:
                is_file = path in self._files_below()
                return files.size(self._at(path)) if is_file or not files.exists(self._at(path)) else "directory"
            case "rename", source, target:
                return files.rename(self._at(source), self._at(target))
            case (("make_dir" | "unlink" | "remove_dir" | "list" | "exists" | "sync_dir"), path):
                return getattr(files, name)(self._at(path))
            case (("map_read" | "unmap" | "map_length"), slot, *rest):
                return self._play_mapped(name, slot, *rest)
            case _, slot, *rest:
                return self._play_open(name, slot, *rest)
        raise AssertionError(name)

    def _play_open(self, name: str, slot: int, *arguments: Any) -> object:
        file = self._open[slot]
        if file is None:
            return "nothing open"
        match name, *arguments:
            case "write", data, position:
                return file.write_at(data, position)
            case "read", size, position:
                return file.read_at(size, position)
            case "read_into", size, position:
                buffer = bytearray(size)
                return file.read_into(memoryview(buffer), position), bytes(buffer)
            case "map", *_:
                self._mapped[slot] = file.map(), file
                return None
            case _:
                return getattr(file, name)(*arguments)

    def _play_mapped(self, name: str, slot: int, *arguments: Any) -> object:
        mapped = self._mapped[slot]
        if mapped is None:
            return "nothing mapped"
        mapping, file = mapped
        try:
            if name == "unmap":
                return mapping.close()
            if name == "map_length":
                return len(mapping)
            start, stop = arguments
            # Behind the end the real mapping would kill this process; a closed handle cannot tell where that is.
            end = -(-file.size() // PAGE) * PAGE
            return mapping[min(start, end) : min(stop, end)] if start >= 0 and stop >= 0 else None
        except ValueError:
            return "mapping closed"

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _files_below(self, below: str = "") -> list[str]:
        """Every file's path."""
        found = []
        for name, is_dir in self._files.list(self._at(below)):
            path = f"{below}/{name}" if below else name
            found += self._files_below(path) if is_dir else [path]
        return found

    def everything(self) -> dict[str, bytes]:
        return {
            path: self._files.open(self._at(path), Mode.READ).read_at(1 << 20, 0)
            for path in sorted(self._files_below())
        }


@settings(max_examples=examples(400))
@given(st.lists(calls, max_size=40), st.integers(0, 99))
def test_the_live_view_is_that_of_a_real_disk(program: list[tuple[Any, ...]], seed: int) -> None:
    disk = SimDisk(seed)
    disk.make_dir("/root")
    with tempfile.TemporaryDirectory() as root:
        real, simulated = Program(RealFiles(), root), Program(disk, "/root")
        for call in program:
            assert simulated.play(call) == real.play(call), call
        assert simulated.everything() == real.everything()
        disk.sync_all()
        disk.restart()
        assert Program(disk, "/root").everything() == real.everything()
