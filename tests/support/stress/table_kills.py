"""Spark drivers are killed at random moments while a topic becomes a table: the table is what a plain model says.

    PYTHONPATH=tests python -m support.stress.table_kills --format delta --mode upsert --kills 20 --seed 7
                                              [--stops 1] [--executors local-cluster]

A driver brings the table up to the end of the topic, in batches. It is ended with SIGKILL, its JVM with it: at a random
moment, or right before or after a commit of each kind to each of the tables, in turn. Now and then a Python worker, or
on a cluster an executor, is killed first, and the driver must go on. The next driver goes on from what the table says:
there is nothing else to go on from, no checkpoint. Stops: a driver is stopped with SIGSTOP in a batch, another one is
started, and when that has committed a batch the first is continued; both must come to the end. Then the table and its
dead letters are read by other software (`support.tables.readers`) and held against `support.tables.model`, row by row.

The last line printed is the figures as JSON; the exit code is 1 when there was a difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from support.stress.sink_kills import SparkDriver
from support.stress.table_driver import BUCKETS
from support.tables.model import APPEND, UPSERT, Record, TableModel
from support.tables.readers import dead_letters_at, rows_at
from support.tables.records import PARTITIONS, decode, records
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition

PROGRAM = Path(__file__).resolve().parent / "table_driver.py"
TOPIC = "orders"
MASTERS = {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}
WORKERS = {"local": "pyspark.worker", "local-cluster": "CoarseGrainedExecutorBackend"}
BATCHES_PER_LIFE = 3
"""So many a driver may do, at the least, before the topic is at its end."""
MOST_BATCHES = 3
"""So many a driver does that waits for its moment. Most of the others do fewer."""
WORK_SECONDS = 3.0
PATIENCE_SECONDS = 240
SENT_RECORDS = 1000

Moment = tuple[str, str, str]
"""Before or after a commit of this operation to the table with this role."""


@dataclass
class Figures:
    records: int = 0
    kills: int = 0
    killed_at: Counter[str] = field(default_factory=Counter)
    workers_killed: int = 0
    stops: int = 0
    drivers: int = 0
    batches: int = 0
    rows: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class SparkTableStorm:
    def __init__(
        self,
        brokers: str,
        folder: Path,
        seed: int,
        *,
        kind: str,
        mode: str,
        records: int,
        kills: int,
        stops: int = 0,
        executors: str = "local",
        told: Callable[[int], None] = lambda kills: None,
    ) -> None:
        """`told` is called after each kill."""
        self.figures = Figures(records=records)
        self._brokers = brokers
        self._place = folder / "lake" / TOPIC
        self._kind, self._mode = kind, mode
        self._seed = seed
        self._random = random.Random(seed)
        self._kills, self._stops = kills, stops
        self._told = told
        self._executors = executors
        self._rows_per_batch = max(1, records // (BATCHES_PER_LIFE * (kills + 2 * stops + 1)))
        self._schedule = self._scheduled()
        self._model = TableModel(mode, decode, TOPIC, BUCKETS)
        self._began = time.monotonic()

    def run(self) -> Figures:
        self._feed(records(self.figures.records, self._seed))
        stops = self._stops
        while not self.figures.differences:
            if self.figures.kills < self._kills:
                is_over = self._killed_life()
                self._told(self.figures.kills)
            elif stops:
                stops -= 1
                is_over = self._stopped_life()
            else:
                is_over = self._last_life()
            if is_over:
                break
        if not self.figures.differences:
            self._compare()
        self.figures.seconds = time.monotonic() - self._began
        return self.figures

    def _scheduled(self) -> list[Moment | None]:
        """When each driver is killed; None: at a random moment."""
        commits = [(APPEND, "dead letters"), (self._mode, "rows"), ("schema", "rows")]
        commits.append(("compact", "rows") if self._mode == APPEND else (UPSERT, "hidden rows"))
        moments = [(side, *commit) for commit in commits for side in ("before", "after")]
        self._random.shuffle(moments)
        return [each for moment in moments for each in (moment, None)]

    def _feed(self, all_records: Iterable[Record]) -> None:
        with Cluster(self._brokers) as cluster:
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

    # Lives

    def _start(self, die: Moment | None = None) -> SparkDriver:
        self.figures.drivers += 1
        self._note(f"driver {self.figures.drivers}, to die {' '.join(die or ['by chance or not at all'])}")
        given = {
            "brokers": self._brokers,
            "topic": TOPIC,
            "to": str(self._place),
            "format": self._kind,
            "mode": self._mode,
            "master": MASTERS[self._executors],
            "rows_per_batch": self._rows_per_batch,
            "die": die,
        }
        return SparkDriver([json.dumps(given)], {}, PROGRAM)

    def _note(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s: {text}", file=sys.stderr, flush=True)

    def _killed_life(self) -> bool:
        """Whether it came to the end before it was killed."""
        moment = self._schedule[self.figures.kills % len(self._schedule)]
        driver = self._start(moment)
        try:
            if moment is not None:
                if self._wait(driver, lambda: driver.batches > MOST_BATCHES, may_be_killed=True):
                    driver.kill()  # it never comes to this commit
                elif driver.process.returncode == -signal.SIGKILL:
                    self.figures.killed_at[" ".join(moment)] += 1
            elif self._wait(driver, lambda: "doing reading" in driver.lines):
                time.sleep(self._random.uniform(0, WORK_SECONDS))
                self._kill_a_worker(driver)
                driver.kill()
            self.figures.kills += not driver.has_finished
            return driver.has_finished
        finally:
            self._ended(driver)

    def _kill_a_worker(self, driver: SparkDriver) -> None:
        """Every other time: the job goes on without it."""
        workers = driver.members(WORKERS[self._executors])
        if not workers or self.figures.workers_killed * 2 > self.figures.kills:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._random.choice(workers), signal.SIGKILL)
        self.figures.workers_killed += 1
        self._note("a worker was killed")
        seen = driver.batches
        self._wait(driver, lambda: driver.batches > seen)

    def _stopped_life(self) -> bool:
        """Two drivers of one table."""
        first = self._start()
        second = None
        try:
            if not self._wait(first, lambda: first.batches > 0):
                return first.has_finished
            time.sleep(self._random.uniform(0, WORK_SECONDS / 3))
            self._note("it is stopped")
            first.signal_group(signal.SIGSTOP)
            self.figures.stops += 1
            second = self._start()
            running = second
            self._wait(second, lambda: running.batches > 0)
            self._note("it is continued")
            first.signal_group(signal.SIGCONT)
            self._wait(first, lambda: False)
            self._wait(second, lambda: False)
            return first.has_finished and second.has_finished
        finally:
            first.signal_group(signal.SIGCONT)
            self._ended(first)
            if second is not None:
                self._ended(second)

    def _last_life(self) -> bool:
        driver = self._start()
        try:
            self._wait(driver, lambda: False)
            return driver.has_finished
        finally:
            self._ended(driver)

    def _wait(self, driver: SparkDriver, is_there: Callable[[], bool], *, may_be_killed: bool = False) -> bool:
        """Until it is so, or the driver has ended, which is a difference unless it came to the end or was meant to."""
        seen = len(driver.lines)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while driver.is_running and not is_there():
            if len(driver.lines) > seen:
                seen = len(driver.lines)
                deadline = time.monotonic() + PATIENCE_SECONDS
            if time.monotonic() > deadline:
                self.figures.differences.append(f"a driver did nothing for {PATIENCE_SECONDS} s: {driver.complaint()}")
                return False
            time.sleep(0.02)
        if driver.is_running:
            return True
        was_killed = may_be_killed and driver.process.returncode == -signal.SIGKILL
        if driver.process.returncode != 0 and not was_killed:
            self.figures.differences.append(f"a driver ended with {driver.process.returncode}: {driver.complaint()}")
        return False

    def _ended(self, driver: SparkDriver) -> None:
        self._note(f"it has ended with {driver.process.poll()} after {driver.batches} batches")
        self.figures.batches += driver.batches
        driver.close()

    # In the end

    def _compare(self) -> None:
        self._note("the table is compared")
        rows, dead = rows_at(self._kind, self._place), dead_letters_at(self._kind, self._place)
        self.figures.differences += self._model.differences(rows, dead)
        self.figures.rows, self.figures.dead_letters = len(self._model.rows()), len(self._model.dead)


def storm(arguments: argparse.Namespace) -> Figures:
    import tailrace

    told: Callable[[int], None] = lambda kills: print(json.dumps({"inputs": kills}), flush=True)  # noqa: E731
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = tailrace.Broker({"log.retention.ms": "-1"})
        stack.callback(broker.close)
        broker.launch()
        broker.wait_until_ready()
        return SparkTableStorm(
            broker.bootstrap_servers,
            folder,
            arguments.seed,
            kind=arguments.format,
            mode=arguments.mode,
            records=arguments.records,
            kills=arguments.kills,
            stops=arguments.stops,
            executors=arguments.executors,
            told=told,
        ).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--format", choices=("parquet", "delta", "iceberg"), default="delta")
    parser.add_argument("--mode", choices=(APPEND, UPSERT), default=APPEND)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executors", choices=tuple(MASTERS), default="local")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # drivers are ended on the way out
    figures = storm(arguments)
    print(json.dumps(vars(figures)))
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
