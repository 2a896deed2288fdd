"""The sink of a batch query with `transactional=true`: all rows become visible, or none.

The protocol is that of streams, with one epoch for each write; they are numbered. Batch writes and streams under one
`sinkId` have nothing to do with each other. If the driver dies before the decision nothing of it is ever seen, and
readers wait for the open transactions until they time out, or the next write under the same `sinkId`. If it dies after
the decision and before all transactions are committed, a part can be read. The next write under the same `sinkId`
commits the rest before it begins, as long as transactions live (the broker's transaction.max.timeout.ms), and refuses
to begin after that, until `acceptPartialEpoch` has the number of the write that is given up. Without a `sinkId` nobody
looks for the decision, and it is deleted when all is committed: what is not committed then is lost, and that is the
window that is left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.exactly_once.decision import WRITES, Epoch
from tailrace.spark.sink.exactly_once.driver import abort, commit
from tailrace.spark.sink.exactly_once.names import batch_sink
from tailrace.spark.sink.exactly_once.planned_sink import PlannedSink
from tailrace.spark.sink.exactly_once.stream_writer import whole
from tailrace.spark.sink.exactly_once.writing import TaskWritten, write_in_transaction
from tailrace.spark.sink.task import told_whole


class TransactionalBatchSink(PlannedSink, DataSourceArrowWriter):
    """Made and pickled once on the driver; the same one writes in tasks and commits."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema, batch_sink(options.sink_id, uuid.uuid4().hex))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        assert self._planned is not None
        return write_in_transaction(self._options, self._planned, self._timeout_ms, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        told = [each for each in messages if isinstance(each, TaskWritten)]
        if not told:
            return
        planned, grants = whole(told, len(messages))
        epoch = Epoch(WRITES, planned.decided.batch_id + 1 if planned.decided else 0)
        is_only = self._options.sink_id is None
        with told_whole(), self._open() as sink:
            sink.run(commit(planned, epoch, grants, sink.margin_ms(len(grants)), is_only=is_only))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._planned is None:
            return
        told = [each for each in messages if isinstance(each, TaskWritten)]
        with told_whole(), self._open() as sink:
            sink.run(abort(self._planned, [each.grant for each in told if each.grant is not None]))
