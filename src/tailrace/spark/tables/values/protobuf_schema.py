"""Protobuf's schemas: `.proto` files, compiled on the driver into the descriptor sets that go to tasks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tailrace.spark.errors import TableError
from tailrace.spark.tables.values.framing import MessagePath
from tailrace.spark.tables.values.given_schema import bytes_of_file
from tailrace.spark.tables.values.packages import needed

PURPOSE: Final = "Protobuf values"
_COMPILER_SECONDS: Final = 60


@dataclass(frozen=True)
class ProtobufSchema:
    descriptor_set: bytes
    """With all that is imported."""
    main: str
    """The file in it whose messages are meant."""

    def message_name(self, path: MessagePath) -> str | None:
        """The full name of the message that a path leads to; None where there is none."""
        file = self._main_file()
        names = [file.package] if file.package else []
        types = file.message_type
        for index in path:
            # The entries of maps are messages only to the compiler: those who count messages leave them out.
            messages = [one for one in types if not one.options.map_entry]
            if index >= len(messages):
                return None
            names.append(messages[index].name)
            types = messages[index].nested_type
        return ".".join(names) if path else None

    def has_message(self, name: str) -> bool:
        return self.find(name) is not None

    def find(self, name: str) -> Any:
        """A message's descriptor, or None."""
        try:
            return _pool(self.descriptor_set).FindMessageTypeByName(name)
        except KeyError:
            return None

    def message_names(self) -> list[str]:
        """Of the main file's outermost messages."""
        file = self._main_file()
        return [f"{file.package}.{one.name}" if file.package else one.name for one in file.message_type]

    def _main_file(self) -> Any:
        return next(one for one in _files(self.descriptor_set) if one.name == self.main)


@lru_cache(maxsize=256)
def _files(descriptor_set: bytes) -> list[Any]:
    descriptors = needed("google.protobuf.descriptor_pb2", PURPOSE)
    return list(descriptors.FileDescriptorSet.FromString(descriptor_set).file)


@lru_cache(maxsize=256)
def _pool(descriptor_set: bytes) -> Any:
    """Of its own for each schema: versions of one message have the same name."""
    pool = needed("google.protobuf.descriptor_pool", PURPOSE).DescriptorPool()
    for file in _files(descriptor_set):
        pool.Add(file)
    return pool


def schema_of_text(text: str, references: Iterable[tuple[str, str]] = (), *, whose: str) -> ProtobufSchema:
    """Of a file's text, and of those that it may import under their names. TableError where it does not compile."""
    with tempfile.TemporaryDirectory(prefix="tailrace-proto-") as folder:
        root = Path(folder)
        main = "tailrace_schema.proto"
        for name, content in references:
            _written(root, name, content, whose)
        _written(root, main, text, whose)
        return _compiled(root, main, whose)


def schema_of_file(given: str) -> ProtobufSchema:
    """A `.proto` file, whose imports are beside it; or a descriptor set, which says all."""
    path = Path(given.removeprefix("file://").removeprefix("file:"))
    content = bytes_of_file(given)
    if path.suffix == ".proto":
        return _compiled(path.parent, path.name, given)
    message = needed("google.protobuf.message", PURPOSE)
    try:
        files = _files(content)
    except message.DecodeError as error:
        raise TableError(f"{given} is neither a .proto file nor a descriptor set: {error}") from error
    # The compiler puts what is imported before who imports it.
    return _checked(content, files[-1].name if files else "", given)


def _written(root: Path, name: str, content: str, whose: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\x00" in name or not pure.parts:
        raise TableError(f"{whose} refers to {name!r}, which is not the path of an import")
    path = root / pure
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise TableError(f"{whose} cannot be compiled: {error}") from error


def _compiled(root: Path, main: str, whose: str) -> ProtobufSchema:
    """By the compiler in a process of its own: it writes its complaints where only a process's owner sees them."""
    needed("grpc_tools", PURPOSE)
    with tempfile.TemporaryDirectory(prefix="tailrace-proto-") as folder:
        made = Path(folder) / "set"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={made}", main],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILER_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TableError(f"{whose} cannot be compiled: {error}") from error
        if done.returncode or not made.is_file():
            complaint = done.stderr.replace(f"{root}/", "").strip()
            raise TableError(f"{whose} does not compile: {complaint[:2000]}")
        return _checked(made.read_bytes(), main, whose)


def _checked(descriptor_set: bytes, main: str, whose: str) -> ProtobufSchema:
    schema = ProtobufSchema(descriptor_set, main)
    try:
        _pool(descriptor_set)
    except Exception as error:  # The library has a type of its own for each way to be wrong, and no common one.
        raise TableError(f"{whose} is not a whole descriptor set: {error}") from error
    if not main or not schema.message_names():
        raise TableError(f"{whose} has no message")
    return schema
