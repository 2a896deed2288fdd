"""Where the schemas are whose ids stand before values: a Schema Registry, or a folder with a file for each.

Only the driver asks. What it got goes to tasks with the plan, so executors need no way to the registry, and a batch
that is done again is decoded in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tailrace.spark.errors import OptionError, PipelineError

AVRO_SCHEMA: Final = "AVRO"
PROTOBUF_SCHEMA: Final = "PROTOBUF"
JSON_SCHEMA: Final = "JSON"

_URL_SCHEMES: Final = ("http://", "https://")


class RegistryError(PipelineError):
    """The registry does not answer, or not as one does. Never about one value: the job stops, and nothing is lost."""


@dataclass(frozen=True)
class RegisteredSchema:
    id: int
    kind: str
    """AVRO, PROTOBUF, JSON."""
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """What it refers to, and what that refers to: name → text. The name is Avro's full name, the path of Protobuf's
    import, the URL of JSON Schema's $ref."""


class Registry(Protocol):
    """Picklable."""

    @property
    def name(self) -> str:
        """For messages: without a password."""
        ...

    def schema(self, identity: int) -> RegisteredSchema | None:
        """None where the registry says that it has none of this id. RegistryError for everything else."""
        ...


def registry_at(place: str) -> Registry:
    """Of a URL, or of a folder (also as `file:`)."""
    # Here, and not above: both of them need the classes of this module.
    from tailrace.spark.tables.values.folder_registry import FolderRegistry
    from tailrace.spark.tables.values.http_registry import HttpRegistry

    if place.lower().startswith(_URL_SCHEMES):
        return HttpRegistry(place)
    path = place.removeprefix("file://").removeprefix("file:")
    if "://" in path or not path:
        raise OptionError(f"registry {place!r}: give an http:// or https:// address, or a folder")
    return FolderRegistry(path)
