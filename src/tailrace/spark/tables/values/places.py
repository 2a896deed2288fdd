"""Which columns of inferred JSON have a place beside those that are there.

What may be added is bounded, so that objects with ids for names do not make a table of a million columns. Names that
only differ in case, or that meet where nested names are written with dots, have no place beside each other. Iceberg
writes them in two ways: with words for the elements of lists and the values of maps, and without where fields follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.types as kind

from tailrace.spark.tables.columns import TYPES
from tailrace.spark.tables.values.evolution import children

MOST_FIELDS: Final = 1_000
"""Leaves of all columns together. A declared schema may have more."""
ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"


class Path(NamedTuple):
    """Names from the top down, in lower case."""

    full: tuple[str, ...]
    short: tuple[str, ...]

    def field(self, name: str) -> Path:
        name = name.lower()
        return Path((*self.full, name), (*self.short, name))

    def inside(self, word: str, inner: pa.DataType) -> Path:
        """Of the elements of a list, or the keys or values of a map."""
        return Path((*self.full, word), self.short if kind.is_struct(inner) else (*self.short, word))

    def written(self) -> set[str]:
        return {".".join(self.full), ".".join(self.short)}


TOP: Final = Path((), ())


@dataclass
class Places:
    """What is still free for columns."""

    taken: set[str]
    """Paths with dots between the names, as they may be written."""
    room: int
    """For so many leaves."""

    @classmethod
    def beside(cls, known: Sequence[pa.Field], reserved: Collection[str]) -> Places:
        """`reserved`: names, in lower case, that are the table's own."""
        own = [pa.field(name, TYPES[name]) for name in reserved if name in TYPES]
        paths = (path.written() for field in (*known, *own) for path in _paths(TOP.field(field.name), field.type))
        return cls(set().union(reserved, *paths), MOST_FIELDS - sum(leaves(field.type) for field in known))

    def copy(self) -> Places:
        return Places(set(self.taken), self.room)

    def take(self, path: Path, new: pa.DataType) -> pa.DataType | None:
        """The type of a column that is not there yet, with all of it that has a place; None where nothing has.

        Only the full path has to be free: where short ones meet it, they give way. Who comes later may have neither.
        """
        if ".".join(path.full) in self.taken or self.room <= 0:
            return None
        mine = path.written() - self.taken
        self.taken |= mine
        made: pa.DataType | None = new
        if kind.is_struct(new):
            inner = ((field.name, self.take(path.field(field.name), field.type)) for field in new)
            found = [(name, below) for name, below in inner if below is not None]
            made = pa.struct(found) if found else None
        elif kind.is_list(new):
            element = self.take(path.inside(ELEMENT, new.value_type), new.value_type)
            made = None if element is None else pa.list_(element)
        else:
            self.room -= 1
        if made is None:
            self.taken -= mine
        return made


def leaves(one: pa.DataType) -> int:
    return sum(leaves(field.type) for field in children(one)) if pa.types.is_nested(one) else 1


def _paths(path: Path, of: pa.DataType) -> Iterator[Path]:
    """A path, and those of all that is below it."""
    yield path
    if kind.is_struct(of):
        below = [(path.field(field.name), field.type) for field in of]
    else:
        words = (KEY, VALUE) if kind.is_map(of) else (ELEMENT,)
        below = [(path.inside(word, field.type), field.type) for word, field in zip(words, children(of), strict=False)]
    for each, inner in below:
        yield from _paths(each, inner)
