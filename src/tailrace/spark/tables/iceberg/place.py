"""Where an Iceberg table is: a folder for its files, and a name in a catalog.

`FOLDER/orders` alone is the table `default.orders` of the catalog in `FOLDER/catalog.db`, a SQLite file. Settings of a
catalog name another one: all of them go to pyiceberg as they are, but for

    name            of the catalog, as pyiceberg's configuration may have it; `default`
    identifier      of the table in it, such as `sales.orders`; `default.` and the last name of the folder
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.location import local_folder

CATALOG_FILE: Final = "catalog.db"
CATALOG_NAME: Final = "default"
NAMESPACE: Final = "default"

_PREFIX: Final = "catalog."
_NOT_IN_URIS: Final = "?#\t\r\n"
"""Iceberg names files by URIs whose characters nobody escapes; who takes them apart ends the path at some of these, and
drops the others."""


@dataclass(frozen=True)
class IcebergPlace:
    folder: Path
    """Of the table: data/ and metadata/ are in it."""
    identifier: tuple[str, ...]
    catalog_name: str = CATALOG_NAME
    catalog_settings: Mapping[str, str] = field(default_factory=dict)
    """Those of a catalog that somebody else keeps. Secrets may be among them."""
    has_own_catalog: bool = True

    @property
    def catalog_file(self) -> Path:
        return self.folder.parent / CATALOG_FILE

    @property
    def location(self) -> str:
        return f"file://{self.folder}"

    @property
    def name(self) -> str:
        if self.has_own_catalog:
            return str(self.folder)
        return f"{'.'.join(self.identifier)} in the catalog {self.catalog_name}"

    def beside(self, suffix: str) -> IcebergPlace:
        *namespace, name = self.identifier
        folder = self.folder.with_name(self.folder.name + suffix)
        return replace(self, folder=folder, identifier=(*namespace, name + suffix))


def iceberg_place(place: str, catalog: Mapping[str, str] | None) -> IcebergPlace:
    folder = local_folder(place)
    # In the place too: of a URI, the folder lacks what was dropped.
    if not folder.name or any(character in f"{place}{folder}" for character in _NOT_IN_URIS):
        raise OptionError(
            f"cannot keep an Iceberg table at {place!r}: it needs a path with a name and without ?, #, tabs and line "
            "breaks"
        )
    settings = {name.removeprefix(_PREFIX): str(value) for name, value in (catalog or {}).items()}
    name = settings.pop("name", None)
    identifier = _identifier(settings.pop("identifier", None), folder)
    own = name is None and not settings
    if own and folder.name == CATALOG_FILE:
        raise OptionError(f"cannot keep an Iceberg table at {place!r}: its catalog gets that name")
    return IcebergPlace(folder, identifier, name or CATALOG_NAME, settings, own)


def _identifier(text: str | None, folder: Path) -> tuple[str, ...]:
    if text is None:
        return (NAMESPACE, folder.name)
    parts = tuple(text.split("."))
    if len(parts) < 2 or not all(parts):
        raise OptionError(f"identifier is {text!r}: it must be a namespace and a name, such as sales.orders")
    return parts
