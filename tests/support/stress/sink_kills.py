"""Spark drivers are killed at random moments while they copy a topic exactly once: the copy equals the original.

    PYTHONPATH=tests python -m support.stress.sink_kills --kills 20 --records 1000000 --seed 7 [--kafka] [--speculation]
                                             [--master 'local-cluster[2,1,1024]'] [--stops 1]

A driver reads `input` and writes `output` with `delivery=exactly-once`, in batches, until it has all. It is ended with
SIGKILL: at a random moment, or right before a step of the protocol, each of them in turn (`kill_points`). On a cluster
an executor is killed now and then instead, and the driver goes on. The next driver goes on from the checkpoint; every
second one has another number of partitions. Stops: the driver is stopped with SIGSTOP, another one is started on its
checkpoint, and when that has done a batch the first is continued. In the end what a read_committed reader gets must be
the input, each record once.

The last line printed is the figures as JSON; the exit code is 1 when there was a difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from support.stress.sink_driver import INPUT, OUTPUT
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.offsets import READ_COMMITTED
from tailrace.client.producer import Producer

HERE = Path(__file__).resolve().parent
DRIVER = HERE / "sink_driver.py"
INPUT_PARTITIONS = 3
OUTPUT_PARTITIONS = 2
PARTITION_COUNTS = (3, 2, 4, 1)
BATCHES_PER_LIFE = 3
"""So many a driver may do, at the least, before the input is at its end."""
WORK_SECONDS = 1.5
PATIENCE_SECONDS = 180
SETTINGS = {"transaction.state.log.num.partitions": "5", "offsets.topic.num.partitions": "5"}
STEPS = (
    *(f"plan.{number}" for number in range(5)),
    *(f"commit.{number}" for number in range(11)),
    *(f"acquire.{number}" for number in range(3)),
)
FINISHING = ("plan.2", "plan.3", "plan.4")
DECIDED_BEFORE = "commit.5"


@dataclass
class Figures:
    records: int = 0
    kills: int = 0
    killed_before: Counter[str] = field(default_factory=Counter)
    executors_killed: int = 0
    stops: int = 0
    given_up: int = 0
    """Drivers that ended by themselves because another one had taken over."""
    drivers: int = 0
    batches: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class SparkDriver:
    def __init__(self, arguments: list[str], environment: dict[str, str], program: Path = DRIVER) -> None:
        """In a session of its own: whatever it starts is found by that.

        Its Python workers come by a socket of the file system. By a port of the machine somebody else's client might,
        who still looks for a broker that is gone: a request of Kafka's begins as a worker's secret does, and Spark ends
        the query because the secret is wrong.
        """
        self.lines: list[str] = []
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYSPARK_UDS_MODE": "true", **environment},
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    @property
    def batches(self) -> int:
        return sum(line.startswith("batch") for line in self.lines)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_finished(self) -> bool:
        return not self.is_running and self.process.returncode == 0

    def signal_group(self, number: int) -> None:
        """The driver's Python and its JVM. Python workers have groups of their own and notice soon enough, or late."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def signal_all(self, number: int) -> None:
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def members(self, containing: str = "") -> list[int]:
        """Processes of its session whose command line has this."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid and containing.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    def kill(self) -> None:
        self.signal_group(signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)

    def close(self) -> None:
        if self.is_running:
            self.kill()
        self.signal_all(signal.SIGKILL)
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def complaint(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-3000:]


class SparkSinkStorm:
    def __init__(
        self,
        address: str,
        folder: Path,
        seed: int,
        *,
        records: int,
        kills: int,
        stops: int = 0,
        master: str = "local[2]",
        speculation: bool = False,
        told: Callable[[int], None] = lambda kills: None,
    ) -> None:
        """`told` is called after each kill."""
        self.figures = Figures(records=records)
        self._address = address
        self._checkpoint = folder / "checkpoint"
        self._token = folder / "kill-token"
        self._random = random.Random(seed)
        self._kills, self._stops = kills, stops
        self._told = told
        self._master = master
        self._rows_per_batch = max(1, records // (BATCHES_PER_LIFE * (kills + 2 * stops + 1)))
        self._more: list[str] = []
        if speculation:
            self._more += ["spark.speculation=true", "spark.speculation.interval=20ms"]
            self._more += ["spark.speculation.multiplier=1.01", "spark.speculation.quantile=0.3"]
            self._more += ["spark.speculation.minTaskRuntime=50ms"]
        self._schedule = self._scheduled()
        self._began = time.monotonic()

    def run(self) -> Figures:
        self._feed()
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

    def _scheduled(self) -> list[str | None]:
        """Before which step each driver is killed; None: at a random moment. Finishing needs something decided."""
        steps = list(STEPS)
        self._random.shuffle(steps)
        return [each for step in steps for each in ((DECIDED_BEFORE, step) if step in FINISHING else (step, None))]

    def _feed(self) -> None:
        with Cluster(self._address) as cluster:
            admin = Admin(cluster)
            admin.create_topic(INPUT, partitions=INPUT_PARTITIONS)
            admin.create_topic(OUTPUT, partitions=OUTPUT_PARTITIONS)
            with Producer(cluster) as producer:
                for number in range(self.figures.records):
                    producer.send(INPUT, b"%d" % number, b"%d" % (number % 1009))

    # Lives

    def _start(self, kill_before: str | None = None) -> SparkDriver:
        figures = self.figures
        partitions = PARTITION_COUNTS[figures.drivers // 2 % len(PARTITION_COUNTS)]
        environment = {}
        if kill_before is not None:
            self._token.touch()
            points = str(HERE / "kill_points")
            environment = {
                "TAILRACE_KILL_BEFORE": kill_before,
                "TAILRACE_KILL_TOKEN": str(self._token),
                "PYTHONPATH": os.pathsep.join(filter(None, (points, os.environ.get("PYTHONPATH")))),
            }
        figures.drivers += 1
        self._note(f"driver {figures.drivers}, {partitions} partitions, to be killed before {kill_before}")
        arguments = [self._address, str(self._checkpoint), str(partitions), str(self._rows_per_batch), self._master]
        return SparkDriver([*arguments, *self._more], environment)

    def _note(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s: {text}", file=sys.stderr, flush=True)

    def _killed_life(self) -> bool:
        """Whether it came to the end before it was killed."""
        step = self._schedule[self.figures.kills % len(self._schedule)]
        driver = self._start(step)
        try:
            if step is not None:
                if self._wait(driver, lambda: driver.batches > 1, may_be_killed=True):
                    driver.kill()  # it never takes this step
            elif self._wait(driver, lambda: driver.batches > 0):
                time.sleep(self._random.uniform(0, WORK_SECONDS))
                self._kill_an_executor(driver)
                driver.kill()
            if step is not None and not self._token.exists():
                self.figures.killed_before[step] += 1
            self.figures.kills += not driver.has_finished
            return driver.has_finished
        finally:
            self._ended(driver)

    def _kill_an_executor(self, driver: SparkDriver) -> None:
        """On a cluster, now and then: the query goes on without it."""
        executors = driver.members("CoarseGrainedExecutorBackend")
        if not executors or self.figures.executors_killed * 4 > self.figures.kills:
            return
        os.kill(self._random.choice(executors), signal.SIGKILL)
        self.figures.executors_killed += 1
        seen = driver.batches
        self._wait(driver, lambda: driver.batches > seen + 1)

    def _stopped_life(self) -> bool:
        """Two drivers on one checkpoint."""
        first = self._start()
        second = None
        try:
            if not self._wait(first, lambda: first.batches > 0):
                return first.has_finished
            time.sleep(self._random.uniform(0, WORK_SECONDS))
            self._note("it is stopped")
            first.signal_group(signal.SIGSTOP)
            self.figures.stops += 1
            second = self._start()
            running = second
            self._wait(second, lambda: running.batches > 0)
            self._note("it is continued")
            first.signal_group(signal.SIGCONT)
            self._wait(first, lambda: False, may_fail=True)
            self._wait(second, lambda: False, may_fail=True)
            self.figures.given_up += (not first.has_finished) + (not second.has_finished)
            return first.has_finished or second.has_finished
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

    def _wait(
        self, driver: SparkDriver, is_there: Callable[[], bool], *, may_be_killed: bool = False, may_fail: bool = False
    ) -> bool:
        """Until it is so, or the driver has ended, which is a difference unless it came to the end or was meant to."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while driver.is_running and not is_there():
            if time.monotonic() > deadline:
                self.figures.differences.append(f"a driver did nothing for {PATIENCE_SECONDS} s: {driver.complaint()}")
                return False
            time.sleep(0.02)
        if driver.is_running:
            return True
        was_killed = may_be_killed and driver.process.returncode == -signal.SIGKILL
        has_failed = driver.process.returncode != 0 and not was_killed
        if has_failed and not may_fail:
            self.figures.differences.append(f"a driver ended with {driver.process.returncode}: {driver.complaint()}")
        return False

    def _ended(self, driver: SparkDriver) -> None:
        self._note(f"it has ended with {driver.process.poll()} after {driver.batches} batches")
        self.figures.batches += driver.batches
        driver.close()

    # In the end

    def _compare(self) -> None:
        counts = bytearray(self.figures.records)
        strange = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Cluster(self._address) as cluster, Consumer(cluster, isolation=READ_COMMITTED) as consumer:
            consumer.assign_topic(OUTPUT)
            highest = Admin(cluster).offsets_of(consumer.positions, -1)
            while any(consumer.positions[each] < end for each, end in highest.items()):
                if time.monotonic() > deadline:
                    self.figures.differences.append(f"readers wait at {consumer.positions} of {highest}")
                    return
                for run in consumer.poll(1.0):
                    for record in run.records():
                        number = int(bytes(record.value or b"-1"))
                        if 0 <= number < len(counts) and counts[number] < 255:
                            counts[number] += 1
                        else:
                            strange += 1
        lost, doubled = counts.count(0), sum(each > 1 for each in counts)
        if lost or doubled or strange:
            self.figures.differences.append(
                f"{lost} of {len(counts)} records are lost, {doubled} are there more than once, {strange} are strange"
            )


def storm(arguments: argparse.Namespace, settings: dict[str, str]) -> Figures:
    import tailrace

    told: Callable[[int], None] = lambda kills: print(json.dumps({"inputs": kills}), flush=True)  # noqa: E731
    options: dict[str, Any] = {
        key: getattr(arguments, key) for key in ("records", "kills", "stops", "master", "speculation")
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments.kafka:
            from support.kafka.killable import KafkaVictim

            kafka = stack.enter_context(KafkaVictim(folder / "kafka", settings))
            kafka.launch()
            address = kafka.bootstrap_servers
        else:
            broker = tailrace.Broker(settings)
            stack.callback(broker.close)
            broker.launch()
            broker.wait_until_ready()
            address = broker.bootstrap_servers
        return SparkSinkStorm(address, folder, arguments.seed, told=told, **options).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--speculation", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # drivers are ended on the way out
    figures = storm(arguments, SETTINGS)
    print(json.dumps(vars(figures)))
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
