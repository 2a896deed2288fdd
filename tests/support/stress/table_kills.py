"""Spark drivers are killed while a topic becomes a table: at the end the table equals a plain model of the topic.

    PYTHONPATH=tests python -m support.stress.table_kills --format delta --mode upsert --kills 20 --seed 7
                                              [--stops 1] [--executors local-cluster]

A driver (`support.stress.table_driver`) brings the table up to the end of the topic. Every other kill happens before or
after a commit of each kind to each of the tables, in turn. The next driver continues from what the table says: there is
no checkpoint. Two drivers of one table must both reach the end. Then other software reads the table and its dead
letters (`support.tables.readers`), and they are compared with `support.tables.model`, row by row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from support.stress.killed_drivers import Driver, DriverFigures, DriverKillTest, driver_options, folder_and_broker
from support.stress.killed_processes import run_program
from support.stress.table_driver import BUCKETS
from support.tables.model import APPEND, UPSERT, Record, TableModel
from support.tables.readers import dead_letters_at, rows_at
from support.tables.records import PARTITIONS, decode, records
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition

PROGRAM: Final = Path(__file__).resolve().parent / "table_driver.py"
TOPIC: Final = "orders"
MASTERS: Final = {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}
WORKERS: Final = {"local": "pyspark.worker", "local-cluster": "CoarseGrainedExecutorBackend"}
SENT_RECORDS: Final = 1000


@dataclass
class Figures(DriverFigures):
    rows: int = 0
    dead_letters: int = 0


class TableKills(DriverKillTest[Figures]):
    kills_per_worker = 2
    batches_without_worker = 1
    max_batches = 3
    work_seconds, stop_seconds = 3.0, 1.0
    patience_seconds = 240.0
    may_be_taken_over = False

    def __init__(self, options: argparse.Namespace, folder: Path, address: str) -> None:
        super().__init__(Figures(), options, folder, address)
        self.worker_process = WORKERS[options.executors]
        self.schedule = self._scheduled()
        self._table = folder / "lake" / TOPIC
        self._model = TableModel(options.mode, decode, TOPIC, BUCKETS)

    def _scheduled(self) -> list[str | None]:
        """Before or after a commit of an operation to the table with a role."""
        mode = self.options.mode
        commits = [f"{APPEND}/dead letters", f"{mode}/rows", "schema/rows"]
        commits.append("compact/rows" if mode == APPEND else f"{UPSERT}/hidden rows")
        steps = [f"{side}/{commit}" for commit in commits for side in ("before", "after")]
        self.random.shuffle(steps)
        return [each for step in steps for each in (step, None)]

    def prepare(self) -> None:
        self._feed(records(self.figures.records, self.figures.seed))

    def _feed(self, all_records: Iterable[Record]) -> None:
        with Cluster(self.address) as cluster:
            Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS)
            with Producer(cluster) as producer:
                rest = iter(all_records)
                while some := list(islice(rest, SENT_RECORDS * PARTITIONS)):
                    self._model.add(some)
                    for partition in range(PARTITIONS):
                        producer.send_batch(
                            TopicPartition(TOPIC, partition),
                            [
                                (each.timestamp_ms, each.key, each.value, each.headers)
                                for each in some
                                if each.partition == partition
                            ],
                        )

    def start(self, step: str | None) -> Driver:
        given = {
            "brokers": self.address,
            "topic": TOPIC,
            "to": str(self._table),
            "format": self.options.format,
            "mode": self.options.mode,
            "master": MASTERS[self.options.executors],
            "rows_per_batch": self.rows_per_batch,
            "die": None if step is None else step.split("/"),
        }
        return Driver(PROGRAM, [json.dumps(given)], {})

    def is_at_work(self, driver: Driver) -> bool:
        return "doing reading" in driver.lines

    def compare(self) -> None:
        self.log("the table is compared")
        rows, dead = rows_at(self.options.format, self._table), dead_letters_at(self.options.format, self._table)
        self.figures.differences += self._model.differences(rows, dead)
        self.figures.rows, self.figures.dead_letters = len(self._model.rows()), len(self._model.dead)


def run(options: argparse.Namespace) -> Figures:
    with folder_and_broker({"log.retention.ms": "-1"}) as (folder, address):
        return TableKills(options, folder, address).run()


if __name__ == "__main__":
    options = driver_options(__doc__)
    options.add_argument("--format", choices=("parquet", "delta", "iceberg"), default="delta")
    options.add_argument("--mode", choices=(APPEND, UPSERT), default=APPEND)
    options.add_argument("--executors", choices=tuple(MASTERS), default="local")
    sys.exit(run_program(options, run))
