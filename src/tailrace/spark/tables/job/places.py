"""Where a table and those beside it are: the store of each format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.store import UPSERT, Store
from tailrace.spark.tables.store_at import store_at

DEAD_LETTERS_SUFFIX: Final = "_dead_letters"
HIDDEN_SUFFIX: Final = "_hidden"


@dataclass(frozen=True)
class Stores:
    main: Store
    dead: Store
    hidden: Store | None
    """Of upserts only."""


def stores_of(settings: TableSettings) -> Stores:
    main = store_of(settings)
    hidden = main.beside(HIDDEN_SUFFIX) if settings.mode == UPSERT else None
    return Stores(main, main.beside(DEAD_LETTERS_SUFFIX), hidden)


def store_of(settings: TableSettings) -> Store:
    """Nothing is read or made yet. OptionError for a place that cannot hold a table."""
    return store_at(settings.place, settings.format, settings.catalog)
