"""The sink of a streaming query: exactly once.

Spark makes a writer on the driver before the tasks of each batch and pickles it for them, and another one, in another
process, to commit or abort the batch. Planning belongs to the first only: it is done when a writer is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tailrace.spark.errors import PipelineError
from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.exactly_once.decision import Epoch, Grant
from tailrace.spark.sink.exactly_once.driver import Plan, abort, commit
from tailrace.spark.sink.exactly_once.planned_sink import PlannedSink
from tailrace.spark.sink.exactly_once.writing import TaskWritten, epoch_of_task, write_in_transaction
from tailrace.spark.sink.task import told_whole


class ExactlyOnceSink(PlannedSink, DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        if options.sink_id is None:
            raise PipelineError("an exactly-once sink needs a sinkId")
        super().__init__(options, schema, options.sink_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamTaskWritten:
        assert self._planned is not None
        epoch = epoch_of_task(self._planned)
        if self._planned.is_done(epoch):
            for _ in iterator:  # Spark has what it computes taken
                pass
        written = write_in_transaction(self._options, self._planned, self._timeout_ms, iterator)
        return StreamTaskWritten(**vars(written), query_id=epoch.query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        told = [each for each in messages if isinstance(each, StreamTaskWritten)]
        if not told:
            return  # no partitions, so no rows
        planned, grants = whole(told, len(messages))
        with told_whole(), self._open() as sink:
            sink.run(commit(planned, Epoch(told[0].query_id, batchId), grants, sink.margin_ms(len(grants))))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = [each for each in messages if isinstance(each, StreamTaskWritten)]
        if told:
            with told_whole(), self._open() as sink:
                sink.run(abort(told[0].planned, [each.grant for each in told if each.grant is not None]))


class StreamTaskWritten(TaskWritten):
    def __init__(self, *, query_id: str, **written: Any) -> None:
        super().__init__(**written)
        self.query_id = query_id


def whole(told: Sequence[TaskWritten], expected: int) -> tuple[Plan, list[Grant]]:
    """The plan that all tasks have in common, and what they hold open."""
    planned = told[0].planned
    if len(told) != expected or any(each.planned != planned for each in told):
        raise PipelineError(
            f"{expected} tasks have written to sink {planned.sink_id}, and {len(told)} have told what, of "
            f"{len({each.planned for each in told})} plans: nothing is committed"
        )
    return planned, [each.grant for each in told if each.grant is not None]
