"""The topic of a table, as the driver sees it: where it is, where its partitions begin and end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from tailrace.model.errors import InvalidDataError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.columns import VALUE, Columns
from tailrace.spark.source.origin import Origin, open_origin
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import Bounds, OffsetRange
from tailrace.spark.source.starting import resolve_start
from tailrace.spark.tables.store import Offsets

_log: Final = logging.getLogger("tailrace.spark")


@dataclass(frozen=True)
class Sight:
    """A topic at one moment."""

    topic_id: str | None
    bounds: Mapping[int, Bounds]

    def ends(self) -> dict[int, int]:
        return {each: bounds.end for each, bounds in self.bounds.items()}


class Topic(Protocol):
    name: str

    def look(self) -> Sight:
        """MissingTopicError where it is not there."""
        ...

    def cluster_id(self) -> str | None:
        """None where nobody knows."""
        ...

    def start(self) -> dict[int, int]:
        """Where a new table begins."""
        ...

    def sample(self, start: Offsets, count: int) -> pa.Array:
        """Values of the first records behind `start`, of all partitions."""
        ...

    def tell(self, offsets: Offsets) -> None:
        """To the group that watches, if there is one. Never raises."""
        ...

    def close(self) -> None: ...


class SourceTopic:
    """By the origin of the source's options. One thread."""

    def __init__(self, name: str, options: SourceOptions) -> None:
        self.name = name
        self._options = options
        self._open: Origin | None = None
        self._told: dict[int, int] = {}

    def look(self) -> Sight:
        origin = self._origin()
        found = origin.partitions(self._options.subscription)
        bounds = origin.bounds(found)
        ids = {topic_id for topic_id in found.values() if topic_id is not None}
        return Sight(min(ids, default=None), {each.partition: bounds[each] for each in sorted(found)})

    def cluster_id(self) -> str | None:
        if self._options.path is not None:
            return _noted_cluster_id(self._options.path)
        from tailrace.spark.source.brokers.links import link_for

        with link_for(self._options) as link:
            cluster = link.cluster
            if cluster.cluster_id is None:
                cluster.retry("asking which cluster this is", lambda: cluster.refresh(()))
            return cluster.cluster_id

    def start(self) -> dict[int, int]:
        origin = self._origin()
        found = origin.partitions(self._options.subscription)
        return {each.partition: offset for each, offset in resolve_start(self._options, origin, found).items()}

    def sample(self, start: Offsets, count: int) -> pa.Array:
        sight = self.look()
        taken: list[pa.Array] = []
        left = count
        partitions = sorted(sight.bounds)
        for done, each in enumerate(partitions):
            share = -(-left // (len(partitions) - done))
            bounds = sight.bounds[each]
            first = max(start.get(each, bounds.start), bounds.start)
            offsets = OffsetRange(TopicPartition(self.name, each), first, bounds.end, sight.topic_id)
            found = self._values(offsets, share) if offsets.size else []
            left -= sum(map(len, found))
            taken += found
        return pa.concat_arrays(taken) if taken else pa.array([], pa.binary())

    def _values(self, offsets: OffsetRange, count: int) -> list[pa.Array]:
        taken: list[pa.Array] = []
        with closing(read_piece(self._options, Columns((VALUE,)), Piece(offsets))) as batches:  # type: ignore[type-var]
            for batch in batches:
                taken.append(batch.column(0).slice(0, count))
                count -= len(taken[-1])
                if count <= 0:
                    break
        return taken

    def tell(self, offsets: Offsets) -> None:
        group = self._options.commit_group
        if group is None or dict(offsets) == self._told:
            return
        try:
            self._origin().commit(group, {TopicPartition(self.name, each): at for each, at in offsets.items()})
            self._told = dict(offsets)
        except TailraceError as error:
            _log.warning("progress was not committed to group %s: %s", group, error)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _origin(self) -> Origin:
        if self._open is None:
            self._open = open_origin(self._options)
        return self._open


def _noted_cluster_id(path: str) -> str | None:
    """Beside the partitions, or above the folder of one."""
    from tailrace.spark.source.files.folders import META_PROPERTIES
    from tailrace.spark.source.files.read_only import ReadOnlyFiles
    from tailrace.storage.manager.meta_properties import MetaProperties
    from tailrace.storage.names import directory_of, join

    files = ReadOnlyFiles(None)
    for part in (each.strip() for each in path.split(",")):
        for folder in (part, directory_of(part)):
            with suppress(InvalidDataError, OSError):
                found = MetaProperties.read(files, join(folder, META_PROPERTIES))
                if found is not None:
                    return found.cluster_id
    return None
