"""`tailrace consume --group`: records as a member of a group. What was printed is committed, and nothing else."""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Final

from tailrace.cli.consume import EARLIEST, LATEST, Start
from tailrace.cli.consume_run import POLL_S, Tick, Write, output
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.remote import connected, known_topic
from tailrace.cli.throughput import Throughput
from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Cluster
from tailrace.client.group_consumer import GroupConsumer
from tailrace.client.group_membership import MembershipLostError
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.model.ids import TopicPartition

COMMIT_EVERY_S: Final = 1.0
SILENT_WAIT_S: Final = 3.0
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    if args.partition:
        raise CommandError("a group divides the partitions itself", "leave out --partition, or --group")
    start: Start = args.start or Start(None, LATEST if args.follow else EARLIEST)
    if start.offset is not None:
        setting = f"tailrace group reset-offsets {args.group} --topic {args.topic} --to {start.offset} --execute"
        raise CommandError("a group begins where it has committed", f"set that first: {setting}")
    throughput = Throughput()
    with connected(args) as cluster:
        known_topic(cluster, args.topic, may_be_new=True)
        reading = Reading(args, cluster, start, throughput)
        with Ending() as ending:
            with reading.consumer, output(args, throughput) as (write, tick):
                reading.run(write, tick, ending)
            ending.end()
    return 0


class Ending:
    """Within the block a signal asks for an end, and the member leaves its group between two requests: one that does
    not leave keeps its partitions from others for a while. Asked a second time, it ends at once."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __enter__(self) -> Ending:
        self._before = {number: signal.signal(number, self._ask) for number in _ENDING_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def is_asked_for(self) -> bool:
        return self._number is not None

    def _ask(self, number: int, _: FrameType | None) -> None:
        if self._number is not None:
            self._number = number
            self.end()
        self._number = number

    def end(self) -> None:
        """As the signal would have ended it."""
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number is not None:
            raise SystemExit(128 + self._number)


class Reading:
    def __init__(self, args: argparse.Namespace, cluster: Cluster, start: Start, throughput: Throughput) -> None:
        self.consumer = GroupConsumer(
            cluster,
            args.group,
            start=start.point,
            out_of_range=LATEST if start.point == LATEST else EARLIEST,
            isolation=READ_COMMITTED if args.isolation == "committed" else READ_UNCOMMITTED,
            commit_every_s=None,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )
        self.consumer.subscribe([args.topic])
        self._args = args
        self._clock = cluster.clock
        self._throughput = throughput
        self._left: int | None = args.max
        self._ends: dict[TopicPartition, int] = {}
        self._printed: dict[TopicPartition, int] = {}
        """Where to go on, of partitions of which something was printed that is not committed yet."""
        self._commit_due_s = cluster.clock() + COMMIT_EVERY_S
        self._patience = cluster.deadline()
        self._silence = cluster.deadline(SILENT_WAIT_S)
        self._has_said_that_it_waits = False

    def run(self, write: Write, tick: Tick, ending: Ending) -> None:
        """Until its partitions are at their end, or an end is asked for: what was printed is committed then too."""
        try:
            while self._left != 0 and not ending.is_asked_for and not self._is_at_the_end():
                printed = [self._print(each, write) for each in self.consumer.poll(POLL_S)]
                sys.stdout.flush()
                self._printed |= dict(printed)
                if self._clock() >= self._commit_due_s:
                    self._commit()
                tick(self._lag())
                self._say_that_it_waits()
        finally:
            self._commit()

    def _say_that_it_waits(self) -> None:
        if self._has_said_that_it_waits or not self._silence.is_over or self.consumer.assignment:
            return
        self._has_said_that_it_waits = True
        if sys.stderr.isatty():
            group = self._args.group
            print(f"waiting for partitions; who has them: tailrace group describe {group}", file=sys.stderr)

    def _print(self, polled: BatchRun, write: Write) -> tuple[TopicPartition, int]:
        records = list(itertools.islice(polled.records(), self._left))
        whole = self._left is None or len(records) < self._left
        if self._left is not None:
            self._left -= len(records)
        self._throughput.add(len(records), sum(len(each.key or b"") + len(each.value or b"") for each in records))
        write(polled.partition, records)
        if whole:
            return polled.partition, polled.next_offset
        return polled.partition, records[-1].offset + 1 if records else polled.offset

    def _is_at_the_end(self) -> bool:
        if self._args.follow:
            return False
        positions = self.consumer.positions
        if not positions:
            if self._patience.is_over and self.consumer.has_joined:
                who = f"group {self._args.group}"
                raise CommandError(
                    f"{who} gave no partition of {self._args.topic} for {self._patience.seconds:g} s",
                    f"other members have them all: see tailrace group describe {self._args.group}, or use --follow",
                )
            return False
        return all(at >= self._ends[each] for each, at in positions.items())

    def _lag(self) -> int:
        if self._args.follow:
            return 0
        return sum(max(self._ends[each] - at, 0) for each, at in self.consumer.positions.items())

    def _commit(self) -> None:
        self._commit_due_s = self._clock() + COMMIT_EVERY_S
        printed, self._printed = self._printed, {}
        if not printed:
            return
        with suppress(MembershipLostError):  # others have the partitions then, and read these records again
            self.consumer.commit(printed)

    # Told by the consumer

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        if not self._args.follow:
            ends = self.consumer.ends()
            self._ends |= {each: ends[each] for each in partitions}

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._forget(partitions)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self._printed.clear()
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._ends.pop(each, None)
