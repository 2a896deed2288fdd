"""Carries the effects of a sink out on a cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.transaction_end import MAX_TIMEOUT, TransactionEnds
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.effects import Effect, End, ListOpen, Look, ReadLast, Seen, Steps, Take, Write
from tailrace.spark.sink.exactly_once.ledger import DECISION_TIMEOUT_MS, Ledger
from tailrace.spark.sink.exactly_once.names import driver_id, pattern_of_tasks

DECISION_PART: Final = 8
"""Of the time that transactions have, at most so much of it is for the decision's own."""
END_MS: Final = 20
"""For ending one transaction, of many that are ended one after the other."""
SLACK_MS: Final = 5_000
"""For one end that takes long, and for clocks of brokers that differ."""

T = TypeVar("T")


class SinkCluster:
    def __init__(self, cluster: Cluster, sink_id: str, timeout_ms: int | None = None) -> None:
        """The cluster is closed with this. `timeout_ms` is that of transactions, for tasks, which decide nothing; None:
        the longest that brokers allow, which they are asked for."""
        self.cluster = cluster
        self._driver_id = driver_id(sink_id)
        self._pattern = pattern_of_tasks(sink_id)
        self._ends = TransactionEnds(cluster)
        self._ledger = Ledger(cluster, sink_id)
        self._scan_ms = 0
        try:
            self._ends.check_version()
            if timeout_ms is None:
                self.timeout_ms = self._ends.longest_timeout_ms()
                self._scan_ms = self._ends.scan_interval_ms()
                self._check_times()
            else:
                self.timeout_ms = timeout_ms
        except BaseException:
            cluster.close()
            raise

    @property
    def decision_ms(self) -> int:
        return min(DECISION_TIMEOUT_MS, self.timeout_ms // DECISION_PART)

    def margin_ms(self, count: int) -> int:
        """What must be left of the time of so many transactions when the decision's own is over: until the coordinator
        sees that it is, the decision can be committed; then they must be ended."""
        return self._scan_ms + SLACK_MS + count * END_MS

    def _check_times(self) -> None:
        """Half of a transaction's time must be for writing."""
        needed_ms = self.decision_ms + self.margin_ms(1)
        if 2 * needed_ms > self.timeout_ms:
            raise PipelineError(
                f"the brokers let a transaction live for {self.timeout_ms} ms ({MAX_TIMEOUT}), of which deciding a "
                f"batch needs {needed_ms}: at least twice that is needed for writing exactly once"
            )

    def run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    answer = self.carry_out(effect)
                except TailraceError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def carry_out(self, effect: Effect) -> Any:
        match effect:
            case Take(name, is_once):
                timeout_ms = self.decision_ms if name == self._driver_id else self.timeout_ms
                return self._ends.take(name, timeout_ms, is_once=is_once)
            case ReadLast():
                return self._ledger.read_last()
            case Write(driver, decision):
                return self._ledger.write(driver, decision)
            case End(name, identity, is_commit):
                return self._ends.end(name, identity, is_commit=is_commit)
            case Look(names):
                return {name: Seen(*each) for name, each in self._ends.look(names).items()}
            case ListOpen():
                return tuple(self._ends.open_ids(self._pattern))

    def __enter__(self) -> SinkCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.close()
