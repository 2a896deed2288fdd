"""A folder in the place of a registry: `<id>.avsc`, `<id>.proto` or `<id>.json` (JSON Schema) for each schema.

What they refer to is beside them under its name: an Avro type in `<full name>.avsc`, a Protobuf import under its path,
a JSON Schema under its $ref.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.spark.tables.values.registry import (
    AVRO_SCHEMA,
    JSON_SCHEMA,
    PROTOBUF_SCHEMA,
    RegisteredSchema,
    RegistryError,
)

_KINDS: Final = {".avsc": AVRO_SCHEMA, ".proto": PROTOBUF_SCHEMA, ".json": JSON_SCHEMA}
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_MAX_REFERENCES: Final = 10_000


@dataclass(frozen=True)
class FolderRegistry:
    path: str

    @property
    def name(self) -> str:
        return self.path

    def schema(self, identity: int) -> RegisteredSchema | None:
        folder = Path(self.path)
        if not folder.is_dir():
            raise RegistryError(f"{self.path}: no folder with schemas is there")
        there = [file for ending in _KINDS if (file := folder / f"{identity}{ending}").is_file()]
        if not there:
            return None
        if len(there) > 1:
            raise RegistryError(f"{self.path}: schema {identity} is there as {' and '.join(f.name for f in there)}")
        ending = there[0].suffix
        return RegisteredSchema(identity, _KINDS[ending], self._text(there[0]), self._others(folder, ending))

    def _others(self, folder: Path, ending: str) -> tuple[tuple[str, str], ...]:
        """All that could be referred to: what is named by a number is a schema of its own."""
        try:
            files = sorted(file for file in folder.rglob(f"*{ending}") if not file.stem.isdecimal() and file.is_file())
        except OSError as error:
            raise RegistryError(f"{self.path} cannot be read: {error}") from error
        if len(files) > _MAX_REFERENCES:
            raise RegistryError(f"{self.path} holds more than {_MAX_REFERENCES} files")
        return tuple((self._reference_name(folder, file), self._text(file)) for file in files)

    @staticmethod
    def _reference_name(folder: Path, file: Path) -> str:
        return file.stem if file.suffix == ".avsc" else file.relative_to(folder).as_posix()

    def _text(self, file: Path) -> str:
        try:
            if file.stat().st_size > _MAX_FILE_BYTES:
                raise RegistryError(f"{file} is larger than {_MAX_FILE_BYTES} bytes")
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RegistryError(f"{file} cannot be read: {error}") from error
