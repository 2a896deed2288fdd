"""What `spark_run.py` measures of topics that become tables.

Appending stands beside Spark's own copy of Parquet files with the same rows, columns and codec. Upserts stand beside a
plain rewrite of the whole table: every bucket read and written once, by the same tasks that compaction has. Small files
are not compacted meanwhile, and nothing is taken away while anything is measured.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import spark_data
from peer_row import Row
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import batch_of

if TYPE_CHECKING:
    from spark_rows import Bench
    from tailrace.spark.tables.delta.snapshot import DeltaSnapshot
    from tailrace.spark.tables.delta.store import DeltaStore
    from tailrace.spark.tables.store import DataFile

FROM_FILES = "table from files"
FROM_BROKERS = "table from brokers"
FEW_BUCKETS = "upsert of few buckets"
ALL_BUCKETS = "upsert of all buckets"
REWRITE = "rewrite"
COPY = "Parquet copy"

CODEC = "snappy"
TOPIC = "upserted"
TIMES_THE_ROWS = 6
"""Of a table for upserts: its buckets are then about 100 MB large."""
BUCKETS = 40
TOUCHED = 2
"""5 % of them."""
KEYS_SHARE = 0.01
RECORDS_A_BATCH = 500


# ---- append -------------------------------------------------------------------------------------------------------


def appends(bench: Bench) -> list[Row]:
    """A new table each time, with all columns; and Spark's copy of what is in such a table."""
    from tailrace.spark import read_table

    source = str(bench.folder / "table-rows.parquet")
    first = bench.folder / "first-table"
    appended(bench, first, path=str(bench.broker.data_dir))
    read_table(str(first), session=bench.spark).write.option("compression", CODEC).parquet(source)
    shutil.rmtree(first)
    rounds = bench.alternate(
        {
            COPY: lambda: copied(bench, source),
            FROM_FILES: lambda: appended(bench, new_place(bench), path=str(bench.broker.data_dir)),
            FROM_BROKERS: lambda: appended(bench, new_place(bench), brokers=bench.servers),
        },
        between=lambda: remove_places(bench),
    )
    from spark_rows import beside

    files = Row(FROM_FILES, "topic into a Delta table, from files", "M rows/s", 0.5, True)
    brokers = Row(FROM_BROKERS, "topic into a Delta table, from brokers", "M rows/s", 0.3, True)
    return [beside(row, rounds, row.key, COPY, bench.rows) for row in (files, brokers)]


def copied(bench: Bench, source: str) -> None:
    bench.spark.read.parquet(source).write.option("compression", CODEC).parquet(str(new_place(bench)))


def appended(bench: Bench, place: Path, **source: str) -> None:
    from tailrace.spark import table

    report = table(
        bench.topics[1],
        to=str(place),
        upkeep=False,
        session=bench.spark,
        options={"codec": CODEC, "maxOffsetsPerTrigger": bench.rows},
        **source,
    )
    if report.rows != bench.rows // spark_data.PARTITIONS * spark_data.PARTITIONS:
        raise RuntimeError(f"{report.rows} rows came into the table, of {bench.rows}")


def new_place(bench: Bench) -> Path:
    return bench.folder / f"table-{next(bench.numbers)}"


def remove_places(bench: Bench) -> None:
    for place in bench.folder.glob("table-[0-9]*"):
        shutil.rmtree(place)


# ---- upsert -------------------------------------------------------------------------------------------------------


def upserts(bench: Bench) -> list[Row]:
    """Of a table with a row for each key: keys of a few buckets, and keys at random, which are in all buckets."""
    from tailrace.spark.tables.delta.store import DeltaStore

    rows = TIMES_THE_ROWS * bench.rows
    spark_data.fill(bench.broker, TOPIC, rows)
    store = DeltaStore(str(bench.folder / "upserts"))
    upserted(bench, store)
    bench.say(f"{rows:,} keys in {BUCKETS} buckets")
    random = np.random.default_rng(1)

    def prepare(buckets: Iterable[int]) -> None:
        """Files of former versions are deleted before each, so that all find as much memory that was used just now."""
        forget_old_files(store)
        send(bench, some_keys(store, random, buckets))

    before: dict[str, Callable[[], object]] = {
        REWRITE: lambda: forget_old_files(store),
        FEW_BUCKETS: lambda: prepare(range(TOUCHED)),
        ALL_BUCKETS: lambda: prepare(range(BUCKETS)),
    }
    rounds = bench.alternate(
        {
            REWRITE: lambda: rewritten(bench, store),
            FEW_BUCKETS: lambda: upserted(bench, store),
            ALL_BUCKETS: lambda: upserted(bench, store),
        },
        before=before,
    )
    few = Row(FEW_BUCKETS, f"upsert of keys in {100 * TOUCHED / BUCKETS:g} % of the buckets", "s", 0.1, False)
    every = Row(ALL_BUCKETS, f"upsert of {100 * KEYS_SHARE:g} % of the keys, in all buckets", "s", 1.3, False)
    for row in (few, every):
        row.rounds += [(each[row.key][0], each[REWRITE][0]) for each in rounds]
    return [few, every]


def upserted(bench: Bench, store: DeltaStore) -> None:
    from tailrace.spark import table

    table(
        TOPIC,
        brokers=bench.servers,
        to=store.name,
        mode="upsert",
        buckets=BUCKETS,
        upkeep=False,
        session=bench.spark,
        options={"codec": CODEC, "maxOffsetsPerTrigger": bench.rows},
    )


def rewritten(bench: Bench, store: DeltaStore) -> None:
    from tailrace.spark.tables.store import Change
    from tailrace.spark.tables.tasks import run_compact

    snapshot = snapshot_of(store)
    groups = files_by_bucket(snapshot).values()
    files = run_compact(bench.spark, snapshot.target(), list(groups), codec=CODEC)
    snapshot.commit(Change("compact", snapshot.offsets, files, snapshot.files()))


def some_keys(store: DeltaStore, random: np.random.Generator, buckets: Iterable[int]) -> pa.Table:
    """Keys that the table has in these buckets, with the partitions they are in."""
    files = files_by_bucket(snapshot_of(store))
    paths = [store.root / each.path for bucket in buckets for each in files[bucket]]
    # Opened as they are: by its path a folder would give them another column.
    found = pa.concat_tables(pq.ParquetFile(path).read(["_key", "_partition"]) for path in paths)
    return found.take(random.choice(found.num_rows, int(found.num_rows * KEYS_SHARE), replace=False))


def send(bench: Bench, keys: pa.Table) -> None:
    """A new value for each."""
    now_ms = time.time_ns() // 1_000_000
    value = b"w" * spark_data.VALUE_BYTES
    with Cluster(bench.servers) as cluster, Producer(cluster) as producer:
        for partition in range(spark_data.PARTITIONS):
            mine = keys.filter(pc.equal(keys["_partition"], partition))["_key"].to_pylist()
            rest = iter(mine)
            while some := list(islice(rest, RECORDS_A_BATCH)):
                data = batch_of([(now_ms, key, value) for key in some])
                producer.send_encoded(TopicPartition(TOPIC, partition), data, len(some))
        producer.flush()


def forget_old_files(store: DeltaStore) -> None:
    """So that rounds do not fill the disk."""
    now_ms = time.time_ns() // 1_000_000
    store.retain(now_ms, now_ms)


def snapshot_of(store: DeltaStore) -> DeltaSnapshot:
    snapshot = store.open()
    if snapshot is None:
        raise RuntimeError(f"there is no table at {store.name}")
    return snapshot


def files_by_bucket(snapshot: DeltaSnapshot) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for each in snapshot.files():
        found.setdefault(int(each.partition["_bucket"] or 0), []).append(each)
    return found
