"""Carries the effects of a sink out on a cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.transaction_end import TransactionEnds
from tailrace.model.errors import TailraceError
from tailrace.spark.sink.exactly_once.effects import Effect, End, ListOpen, Look, ReadLast, Seen, Steps, Take, Write
from tailrace.spark.sink.exactly_once.ledger import DECISION_TIMEOUT_MS, Ledger
from tailrace.spark.sink.exactly_once.names import driver_id, pattern_of_tasks

LONGEST_MARGIN_MS: Final = 60_000
MARGIN_PART: Final = 4

T = TypeVar("T")


class SinkCluster:
    def __init__(self, cluster: Cluster, sink_id: str, timeout_ms: int | None = None) -> None:
        """The cluster is closed with this. `timeout_ms` is that of transactions; None: the longest that brokers allow,
        which they are asked for."""
        self.cluster = cluster
        self._driver_id = driver_id(sink_id)
        self._pattern = pattern_of_tasks(sink_id)
        self._ends = TransactionEnds(cluster)
        self._ledger = Ledger(cluster, sink_id)
        try:
            self._ends.check_version()
            self.timeout_ms = self._ends.longest_timeout_ms() if timeout_ms is None else timeout_ms
        except BaseException:
            cluster.close()
            raise

    @property
    def margin_ms(self) -> int:
        """What must be left of a transaction's time when it is decided, for its end."""
        return min(LONGEST_MARGIN_MS, self.timeout_ms // MARGIN_PART)

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
            case Take(name):
                is_driver = name == self._driver_id
                return self._ends.take(
                    name, min(DECISION_TIMEOUT_MS, self.timeout_ms) if is_driver else self.timeout_ms
                )
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
