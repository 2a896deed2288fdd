"""The tree of names: as running code sees it, and what of it is safe.

Every change (a file or directory made, renamed, unlinked) is one atomic step that waits, in order, until its
directory is synced. A crash keeps or loses each waiting change by itself, with three dependencies, without which a file
could vanish that nobody unlinked:

    - a change needs every earlier one that touched the same name in the same directory;
    - a change in a directory needs the making of that directory;
    - removing a directory (or renaming over it) needs every earlier change in it.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.sim.faults import Survival, os_error
from tailrace.sim.inode import Inode

MAX_NAME_BYTES = 255


class Directory:
    __slots__ = ("durable", "entries", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.modified_ms = now_ms


Node = Inode | Directory


class _Step(NamedTuple):
    directory: Directory
    name: str
    node: Node | None  # what the name means from now on


class _Change(NamedTuple):
    steps: tuple[_Step, ...]
    made: Directory | None = None
    emptied: Directory | None = None


class Names:
    __slots__ = ("_waiting", "root")

    def __init__(self, now_ms: int) -> None:
        self.root = Directory(now_ms)
        self._waiting: list[_Change] = []

    def find(self, path: str) -> Node:
        node: Node = self.root
        for name in _split(path):
            if not isinstance(node, Directory):
                raise os_error(errno.ENOTDIR, path)
            try:
                node = node.entries[name]
            except KeyError:
                raise os_error(errno.ENOENT, path) from None
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> Inode:
        node = self.find(path)
        if not isinstance(node, Inode):
            raise os_error(errno.EISDIR, path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that holds the last name of `path`, and that name."""
        names = _split(path)
        if not names:
            raise os_error(errno.EBUSY, path)
        if len(names[-1].encode()) > MAX_NAME_BYTES:
            raise os_error(errno.ENAMETOOLONG, path)
        return self.directory("/".join(names[:-1])), names[-1]

    def make(self, path: str, node: Node) -> None:
        directory, name = self.parent(path)
        made = node if isinstance(node, Directory) else None
        self._change(_Change((_Step(directory, name, node),), made=made), node.modified_ms)

    def rename(self, source: str, target: str, now_ms: int) -> None:
        old_directory, old_name = self.parent(source)
        new_directory, new_name = self.parent(target)
        node = old_directory.entries.get(old_name)
        if node is None:
            raise os_error(errno.ENOENT, source)
        self._refuse_loop(source, target)
        replaced = new_directory.entries.get(new_name)
        if replaced is node:
            return
        if replaced is not None:
            if isinstance(node, Directory) != isinstance(replaced, Directory):
                raise os_error(errno.ENOTDIR if isinstance(node, Directory) else errno.EISDIR, target)
            if isinstance(replaced, Directory) and replaced.entries:
                raise os_error(errno.ENOTEMPTY, target)
        steps = (_Step(old_directory, old_name, None), _Step(new_directory, new_name, node))
        self._change(_Change(steps, emptied=replaced if isinstance(replaced, Directory) else None), now_ms)

    def _refuse_loop(self, source: str, target: str) -> None:
        old, new = _split(source), _split(target)
        if len(new) > len(old) and new[: len(old)] == old:
            raise os_error(errno.EINVAL, source)
        if len(old) > len(new) and old[: len(new)] == new:
            raise os_error(errno.ENOTEMPTY, target)

    def unlink(self, path: str, now_ms: int) -> None:
        self.file(path)
        directory, name = self.parent(path)
        self._change(_Change((_Step(directory, name, None),)), now_ms)

    def remove_dir(self, path: str, now_ms: int) -> None:
        removed = self.directory(path)
        directory, name = self.parent(path)
        if removed.entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._change(_Change((_Step(directory, name, None),), emptied=removed), now_ms)

    def _change(self, change: _Change, now_ms: int) -> None:
        for directory, name, node in change.steps:
            directory.modified_ms = now_ms
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self._waiting.append(change)

    def sync(self, synced: Directory) -> None:
        """Every change in `synced` is safe from here on, and those elsewhere that a rename out of or into it needs."""
        safe: list[_Change] = []
        unsafe: list[_Change] = []
        needed_names: set[tuple[Directory, str]] = set()
        needed_wholly = {synced}
        needed_made: set[Directory] = set()
        for change in reversed(self._waiting):
            if change.made in needed_made or any(
                step.directory in needed_wholly or step[:2] in needed_names for step in change.steps
            ):
                safe.append(change)
                needed_names.update(step[:2] for step in change.steps)
                if change.emptied is not None:
                    needed_wholly.add(change.emptied)
                if change.made in needed_made or len({step.directory for step in change.steps}) > 1:
                    needed_made.update(step.directory for step in change.steps)
            else:
                unsafe.append(change)
        for change in reversed(safe):
            _apply(change)
        unsafe.reverse()
        self._waiting = unsafe

    def sync_all(self) -> None:
        for change in self._waiting:
            _apply(change)
        self._waiting = []
        for inode in self.files():
            inode.sync()

    def restart(self, rng: random.Random, survival: Survival, garbage_probability: float) -> None:
        """Power was lost: settle which names survived, then what is in the files they lead to."""
        self._settle(rng, survival)
        self._waiting = []
        for directory in self.directories(durable=True):
            directory.entries = dict(directory.durable)
            for node in directory.entries.values():
                if isinstance(node, Inode):
                    node.restart(rng, survival, garbage_probability)

    def _settle(self, rng: random.Random, survival: Survival) -> None:
        keep_probability = {Survival.NOTHING: 0.0, Survival.EVERYTHING: 1.0}.get(survival)
        if keep_probability is None:
            keep_probability = rng.choice((0.0, 1.0, rng.random(), rng.random(), rng.random()))
        lost_names: set[tuple[Directory, str]] = set()
        lost_in: set[Directory] = set()
        lost_directories: set[Directory] = set()
        for change in self._waiting:
            # The dice are thrown for every change, so that equal calls use up equal numbers.
            kept = rng.random() < keep_probability
            if (
                not kept
                or change.emptied in lost_in
                or any(step.directory in lost_directories or step[:2] in lost_names for step in change.steps)
            ):
                lost_names.update(step[:2] for step in change.steps)
                lost_in.update(step.directory for step in change.steps)
                if change.made is not None:
                    lost_directories.add(change.made)
            else:
                _apply(change)

    def directories(self, *, durable: bool = False) -> list[Directory]:
        """Every directory that the live (or durable) names lead to, parents first."""
        found = [self.root]
        for directory in found:
            nodes = directory.durable if durable else directory.entries
            found.extend([node for node in nodes.values() if isinstance(node, Directory)])
        return found

    def files(self) -> list[Inode]:
        return [
            node for directory in self.directories() for node in directory.entries.values() if isinstance(node, Inode)
        ]

    def paths(self) -> list[str]:
        """The path of every file, each directory in the order of its names."""
        return [path for path, node in self._below("", self.root) if isinstance(node, Inode)]

    def _below(self, path: str, directory: Directory) -> Iterator[tuple[str, Node]]:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            yield f"{path}/{name}", node
            if isinstance(node, Directory):
                yield from self._below(f"{path}/{name}", node)

    def allocated_bytes(self) -> int:
        return sum(inode.allocated_bytes for inode in self.files())

    def clone(self) -> Names:
        copies: dict[Node, Node] = {}
        copy = Names(self.root.modified_ms)
        copy.root = _directory_copy(self.root, copies)
        copy._waiting = [
            _Change(
                tuple(
                    _Step(
                        _directory_copy(step.directory, copies),
                        step.name,
                        None if step.node is None else _node_copy(step.node, copies),
                    )
                    for step in change.steps
                ),
                None if change.made is None else _directory_copy(change.made, copies),
                None if change.emptied is None else _directory_copy(change.emptied, copies),
            )
            for change in self._waiting
        ]
        return copy


def _split(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]


def _apply(change: _Change) -> None:
    for directory, name, node in change.steps:
        if node is None:
            directory.durable.pop(name, None)
        else:
            directory.durable[name] = node


def _node_copy(node: Node, copies: dict[Node, Node]) -> Node:
    if isinstance(node, Directory):
        return _directory_copy(node, copies)
    if node not in copies:
        copies[node] = node.clone()
    return copies[node]


def _directory_copy(directory: Directory, copies: dict[Node, Node]) -> Directory:
    known = copies.get(directory)
    if isinstance(known, Directory):
        return known
    copy = copies[directory] = Directory(directory.modified_ms)
    copy.entries = {name: _node_copy(node, copies) for name, node in directory.entries.items()}
    copy.durable = {name: _node_copy(node, copies) for name, node in directory.durable.items()}
    return copy
