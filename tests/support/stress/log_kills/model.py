"""The model of all partitions, made from journals and sightings in the order in which things happened.

What is held of a single partition is in `support.stress.log_kills.partition`. Differences come back as sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from support.stress.log_kills.journal import Attempt
from support.stress.log_kills.opened_logs import Sighting
from support.stress.log_kills.partition import Counts, PartitionModel
from support.stress.log_kills.workload import Partition


class Model:
    def __init__(self, partitions: Mapping[str, Partition]) -> None:
        self.counts = Counts()
        self.partitions = {name: PartitionModel(each, self.counts) for name, each in partitions.items()}
        self.next_number = 0
        self._partition_of: dict[int, PartitionModel] = {}

    def compare(self, sighting: Sighting) -> list[str]:
        differences: list[str] = []
        for name, model in self.partitions.items():
            found = model.compare(sighting.partitions[name], sighting.at_ms)
            differences += (f"{name}: {difference}" for difference in found)
        return differences

    def read_journal(self, lines: Iterator[list[Any]], run: int) -> list[str]:
        return [difference for line in lines for difference in self._read(line[0], line[1:], run)]

    def _read(self, event: str, values: list[Any], run: int) -> Iterator[str]:
        if event == "try":
            attempt = Attempt.of(values)
            self.next_number = attempt.number + 1
            self._partition_of[attempt.number] = self.partitions[attempt.partition]
            self.partitions[attempt.partition].tried(attempt, run)
        elif event == "again":
            self._partition_of[values[0]].sent_again(values[0], run)
        elif event == "ack":
            yield from self._partition_of[values[0]].acknowledged(*values)
        elif event == "refused":
            yield f"{self._partition_of[values[0]].partition.name}: batch {values[0]} was refused: {values[1]}"
        elif event == "forget":
            model = self.partitions[values[0]]
            model.asked_start = max(model.asked_start, values[1])
        elif event == "start":
            yield from self._started(*values)
        elif event == "probe":
            yield from self._probed(*values)
        elif event == "fenced":
            self.counts.probes += 1
            if values[2] != "InvalidProducerEpochError":
                yield f"{values[0]}: a batch of an epoch of producer {values[1]} that is over ended in {values[2]}"
        elif event == "cleaned":
            self.counts.cleans += 1
        elif event == "uncleanable":
            yield f"{values[0]}: cannot be cleaned: {values[1]}"

    def _started(self, name: str, log_start: int) -> Iterator[str]:
        model = self.partitions[name]
        if log_start < model.log_start:
            yield f"{name}: the log start went back from {model.log_start} to {log_start}"
        model.log_start = max(model.log_start, log_start)

    def _probed(self, number: int, is_newest: bool, outcome: str, offset: int) -> Iterator[str]:
        self.counts.probes += 1
        known = self._partition_of[number].batch_of(number)
        if outcome == "duplicate" and known is not None and known.first != offset:
            yield f"batch {number} at {known.first} was sent once more and is answered with {offset}"
        if outcome != "duplicate" and (is_newest or outcome != "OutOfOrderSequenceError"):
            yield f"batch {number}, acknowledged before, was sent once more: {outcome} at {offset}"
