"""Which records have a dead letter already, though the table does not have their batch yet.

That is so after a death between the two commits, and where somebody took the table back. The letter counts: such a
record is no row, even if its value could be read today, by another schema or with a registry that has changed its mind.
And one that cannot be read only today gets a letter, though the others of its batch have theirs. So no record is lost,
and none is in both tables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tailrace.spark.errors import TableError
from tailrace.spark.tables.columns import OFFSET, PARTITION
from tailrace.spark.tables.job.planning import is_ahead
from tailrace.spark.tables.store import Offsets, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


def letters_from(dead: Snapshot, start: Offsets) -> Mapping[int, pa.Array]:
    """Partition → offsets at or behind `start` that have a letter. Reads nothing where there can be none."""
    if not is_ahead(dead.offsets, start):
        return {}
    target = dead.target()
    paths = [os.path.join(target.root, each.path) for each in dead.files()]
    schema = pa.schema([target.schema.field(PARTITION), target.schema.field(OFFSET)])
    ahead = [each for each, end in dead.offsets.items() if end > start.get(each, 0)]
    found: dict[int, pa.Array] = {}
    for each in ahead if paths else ():
        wanted = (pc.field(PARTITION) == each) & (pc.field(OFFSET) >= start.get(each, 0))
        try:
            rows = ds.dataset(paths, schema=schema, format="parquet").to_table([OFFSET], filter=wanted)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(f"dead letters below {target.root} cannot be read: {error}") from error
        if rows.num_rows:
            found[each] = rows.column(OFFSET).combine_chunks()
    return found
