"""What the two writers have in common: the plan, which is made when Spark pickles a writer for its tasks."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.exactly_once.driver import Plan, plan
from tailrace.spark.sink.exactly_once.transactions import SinkCluster
from tailrace.spark.sink.schema import check_schema
from tailrace.spark.sink.task import open_cluster, told_whole


class PlannedSink:
    def __init__(self, options: SinkOptions, schema: StructType, sink_id: str) -> None:
        check_schema(schema, options.topic)
        self._options = options
        self._sink_id = sink_id
        self._planned: Plan | None = None
        self._timeout_ms = 0

    def __getstate__(self) -> dict[str, Any]:
        if self._planned is None:
            with told_whole(), self._open() as sink:
                self._planned = sink.run(plan(self._sink_id, self._options.accept_partial_epoch))
                self._timeout_ms = sink.timeout_ms
        return self.__dict__

    def _open(self) -> SinkCluster:
        return SinkCluster(open_cluster(self._options), self._sink_id)
