"""Spark drivers are killed while they copy a topic exactly once: at the end the copy equals the original.

    PYTHONPATH=tests python -m support.stress.sink_kills --kills 20 --records 1000000 --seed 7 [--kafka] [--speculation]
                                             [--master 'local-cluster[2,1,1024]'] [--stops 1]

A driver (`support.stress.sink_driver`) reads `input` and writes `output` with `delivery=exactly-once`. Every other kill
happens before a step of the protocol, each step in turn (`kill_points`). Every second driver has another number of
partitions. At the end a read_committed reader must get the input, each record once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from support.stress.killed_drivers import Driver, DriverFigures, DriverKillTest, driver_options, folder_and_broker
from support.stress.killed_processes import run_program
from support.stress.sink_driver import INPUT, OUTPUT
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.offsets import READ_COMMITTED
from tailrace.client.producer import Producer

FOLDER: Final = Path(__file__).resolve().parent
INPUT_PARTITIONS: Final = 3
OUTPUT_PARTITIONS: Final = 2
PARTITION_COUNTS: Final = (3, 2, 4, 1)
SETTINGS: Final = {"transaction.state.log.num.partitions": "5", "offsets.topic.num.partitions": "5"}
STEPS: Final = (
    *(f"plan.{number}" for number in range(5)),
    *(f"commit.{number}" for number in range(11)),
    *(f"acquire.{number}" for number in range(3)),
)
FINISHING: Final = ("plan.2", "plan.3", "plan.4")
DECIDED_BEFORE: Final = "commit.5"
SPECULATION: Final = (
    "spark.speculation=true",
    "spark.speculation.interval=20ms",
    "spark.speculation.multiplier=1.01",
    "spark.speculation.quantile=0.3",
    "spark.speculation.minTaskRuntime=50ms",
)


class SinkKills(DriverKillTest[DriverFigures]):
    kills_per_worker = 4
    batches_without_worker = 2
    max_batches = 1
    work_seconds = stop_seconds = 1.5
    patience_seconds = 180.0
    may_be_taken_over = True

    def __init__(self, options: argparse.Namespace, folder: Path, address: str) -> None:
        super().__init__(DriverFigures(), options, folder, address)
        self.schedule = self._scheduled()
        self._token = folder / "kill-token"

    def _scheduled(self) -> list[str | None]:
        """To finish a decision there must be one."""
        steps = list(STEPS)
        self.random.shuffle(steps)
        return [each for step in steps for each in ((DECIDED_BEFORE, step) if step in FINISHING else (step, None))]

    def prepare(self) -> None:
        with Cluster(self.address) as cluster:
            admin = Admin(cluster)
            admin.create_topic(INPUT, partitions=INPUT_PARTITIONS)
            admin.create_topic(OUTPUT, partitions=OUTPUT_PARTITIONS)
            with Producer(cluster) as producer:
                for number in range(self.figures.records):
                    producer.send(INPUT, b"%d" % number, b"%d" % (number % 1009))

    def start(self, step: str | None) -> Driver:
        partitions = PARTITION_COUNTS[(self.figures.drivers - 1) // 2 % len(PARTITION_COUNTS)]
        environment = {}
        if step is not None:
            self._token.touch()
            paths = (str(FOLDER / "kill_points"), os.environ.get("PYTHONPATH"))
            environment = {
                "TAILRACE_KILL_BEFORE": step,
                "TAILRACE_KILL_TOKEN": str(self._token),
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            }
        arguments = [self.address, str(self.folder / "checkpoint"), str(partitions), str(self.rows_per_batch)]
        settings = SPECULATION if self.options.speculation else ()
        return Driver(FOLDER / "sink_driver.py", [*arguments, self.options.master, *settings], environment)

    def is_at_work(self, driver: Driver) -> bool:
        return driver.batches > 0

    def compare(self) -> None:
        counts = bytearray(self.figures.records)
        unknown = 0
        deadline = time.monotonic() + self.patience_seconds
        with Cluster(self.address) as cluster, Consumer(cluster, isolation=READ_COMMITTED) as consumer:
            consumer.assign_topic(OUTPUT)
            highest = Admin(cluster).offsets_of(consumer.positions, -1)
            while any(consumer.positions[each] < end for each, end in highest.items()):
                if time.monotonic() > deadline:
                    self.note_difference(f"readers wait at {consumer.positions} of {highest}")
                    return
                for run in consumer.poll(1.0):
                    for record in run.records():
                        number = int(bytes(record.value or b"-1"))
                        if 0 <= number < len(counts) and counts[number] < 255:
                            counts[number] += 1
                        else:
                            unknown += 1
        lost, doubled = counts.count(0), sum(each > 1 for each in counts)
        if lost or doubled or unknown:
            self.note_difference(
                f"{lost} of {len(counts)} records are lost, {doubled} are there more than once, {unknown} are unknown"
            )


def run(options: argparse.Namespace) -> DriverFigures:
    with folder_and_broker(SETTINGS, is_kafka=options.kafka) as (folder, address):
        return SinkKills(options, folder, address).run()


if __name__ == "__main__":
    options = driver_options(__doc__)
    options.add_argument("--master", default="local[2]")
    options.add_argument("--speculation", action="store_true")
    options.add_argument("--kafka", action="store_true")
    sys.exit(run_program(options, run))
