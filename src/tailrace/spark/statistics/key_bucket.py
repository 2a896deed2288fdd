"""All rows of some keys, from all pieces: how many keys there are, which are hot, what compaction leaves of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.statistics.keys import EXPIRED, TOMBSTONE, key_of
from tailrace.spark.statistics.sizes import Numbers
from tailrace.spark.statistics.topic_stats import HotKey, KeyStats
from tailrace.spark.tables.columns import KEY

_POINTS = 100


@dataclass
class Left:
    """What compaction leaves: the newest record of each key in each partition."""

    records: int = 0
    sizes: int = 0
    """Of them, as `Records.sizes` has them."""
    tombstones: int = 0
    tombstone_sizes: int = 0
    superseded: dict[int, list[Numbers]] = field(default_factory=dict)
    """Partition → offsets of sampled records that go for a newer one."""

    def take(self, other: Left) -> None:
        self.records += other.records
        self.sizes += other.sizes
        self.tombstones += other.tombstones
        self.tombstone_sizes += other.tombstone_sizes
        for partition, offsets in other.superseded.items():
            self.superseded.setdefault(partition, []).extend(offsets)


@dataclass
class KeysFound:
    """Of one bucket; they add up."""

    distinct: int = 0
    several_partitions: int = 0
    counts: Numbers = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """How many records a key has, and how many keys have as many; ascending."""
    hot: list[tuple[bytes, int, int]] = field(default_factory=list)
    """What stands for the key, its records, its payload."""
    whole: Left = field(default_factory=Left)
    closed: Left = field(default_factory=Left)

    def take(self, other: KeysFound, top: int) -> None:
        self.distinct += other.distinct
        self.several_partitions += other.several_partitions
        both = np.concatenate((self.counts, other.counts))
        self.counts = _counted(both[:, 0], both[:, 1])
        self.hot = hottest(self.hot + other.hot, top)
        self.whole.take(other.whole)
        self.closed.take(other.closed)

    def stats(self, null_keys: int) -> KeyStats:
        keyed = int((self.counts[:, 0] * self.counts[:, 1]).sum())
        return KeyStats(
            distinct=self.distinct,
            keyed_records=keyed,
            null_records=null_keys,
            several_partitions=self.several_partitions,
            once=int(self.counts[self.counts[:, 0] == 1, 1].sum()),
            hot=tuple(HotKey(*key_of(key), records, payload, records / keyed) for key, records, payload in self.hot),
            gini=_gini(self.counts),
            lorenz=_lorenz(self.counts),
        )


def hottest(found: Iterable[tuple[bytes, int, int]], top: int) -> list[tuple[bytes, int, int]]:
    return sorted(found, key=lambda each: (-each[1], each[0]))[:top]


def keys_of(rows: pa.Table, sampled: pa.Table, top: int) -> KeysFound:
    """Rows as `keys.SCHEMA` has them, and sampled records, whose keys are all among them."""
    if not rows.num_rows:
        return KeysFound()
    codes, sampled_codes, dictionary = _encoded(rows, sampled)
    columns = {name: rows.column(name).to_numpy() for name in rows.schema.names if name != KEY}
    sums = np.zeros((len(dictionary), 2), np.int64)
    np.add.at(sums, codes, np.stack((columns["records"], columns["payload"]), axis=1))
    width = int(columns["partition"].max()) + 1
    groups = codes * width + columns["partition"]
    asked = sampled_codes * width + sampled.column("partition").to_numpy()
    offsets = sampled.column("offset").to_numpy()
    is_closed = columns["closed"] >= 0
    closed = {name: column[is_closed] for name, column in columns.items()}
    in_groups = np.unique(groups) // width
    return KeysFound(
        distinct=len(dictionary),
        several_partitions=int((np.bincount(in_groups) > 1).sum()),
        counts=_counted(sums[:, 0], np.ones(len(sums), np.int64)),
        hot=_hot(dictionary, sums, top),
        whole=_left(groups, columns, "last", asked, offsets, width),
        closed=_left(groups[is_closed], closed, "closed", asked, offsets, width),
    )


def _hot(dictionary: pa.Array, sums: Numbers, top: int) -> list[tuple[bytes, int, int]]:
    """The first of those that have as many as the last one that is wanted are found without a look at each."""
    if not top:
        return []
    wanted = min(top, len(sums))
    least = np.partition(sums[:, 0], len(sums) - wanted)[len(sums) - wanted]
    equals = np.flatnonzero(sums[:, 0] == least)
    first = pc.sort_indices(dictionary.take(pa.array(equals))).slice(0, wanted).to_numpy()
    chosen = np.concatenate((np.flatnonzero(sums[:, 0] > least), equals[first]))
    return hottest(((dictionary[row].as_py(), *sums[row].tolist()) for row in chosen.tolist()), top)


def _encoded(rows: pa.Table, sampled: pa.Table) -> tuple[Numbers, Numbers, pa.Array]:
    chunks = [*rows.column(KEY).chunks, *sampled.column(KEY).chunks]
    # Offsets of 32 bits may not do for all of them together.
    encoded = pa.concat_arrays([each.cast(pa.large_binary()) for each in chunks]).dictionary_encode()
    codes: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes[: rows.num_rows], codes[rows.num_rows :], encoded.dictionary


def _left(
    groups: Numbers, columns: dict[str, Numbers], kind: str, asked: Numbers, offsets: Numbers, width: int
) -> Left:
    """`groups`: the key and partition of each row as one number."""
    if not len(groups):
        return Left()
    order = np.lexsort((columns[kind], groups))
    is_newest = np.append(groups[order][1:] != groups[order][:-1], True)
    newest = order[is_newest]
    sizes, kinds = columns[f"{kind}_size"][newest], columns[f"{kind}_kind"][newest]
    stays, is_tombstone = kinds != EXPIRED, kinds == TOMBSTONE
    places = np.minimum(np.searchsorted(groups[newest], asked), len(newest) - 1)
    is_superseded = (groups[newest][places] == asked) & (offsets < columns[kind][newest][places])
    partitions = asked[is_superseded] % width
    return Left(
        records=int(stays.sum()),
        sizes=int(sizes[stays].sum()),
        tombstones=int(is_tombstone.sum()),
        tombstone_sizes=int(sizes[is_tombstone].sum()),
        superseded={each: [offsets[is_superseded][partitions == each]] for each in np.unique(partitions).tolist()},
    )


def _counted(counts: Numbers, keys: Numbers) -> Numbers:
    found, places = np.unique(counts, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, places, keys)
    return np.stack((found, sums), axis=1)


def _shares(counts: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Of keys and of records, from 0 to 1, at each end of those that have as many."""
    keys = np.concatenate(([0], np.cumsum(counts[:, 1], dtype=np.float64)))
    records = np.concatenate(([0], np.cumsum(counts[:, 0] * counts[:, 1], dtype=np.float64)))
    return keys / keys[-1], records / records[-1]


def _gini(counts: Numbers) -> float:
    if not len(counts):
        return 0.0
    keys, records = _shares(counts)
    area = float(((records[1:] + records[:-1]) * np.diff(keys)).sum())
    return max(1 - area, 0.0)


def _lorenz(counts: Numbers) -> tuple[tuple[float, float], ...]:
    """Straight between keys that have as many: so no point of it is an estimate."""
    if not len(counts):
        return ()
    keys, records = _shares(counts)
    if len(keys) > _POINTS + 1:
        wanted = np.linspace(0, 1, _POINTS + 1)
        keys, records = wanted, np.interp(wanted, keys, records)
    return tuple(zip(keys.tolist(), records.tolist(), strict=True))
