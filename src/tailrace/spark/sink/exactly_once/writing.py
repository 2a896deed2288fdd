"""What a task does with its rows, and what it tells the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.exactly_once.decision import Epoch, Grant
from tailrace.spark.sink.exactly_once.driver import Plan
from tailrace.spark.sink.exactly_once.names import NONCE_BYTES
from tailrace.spark.sink.exactly_once.task import acquire
from tailrace.spark.sink.exactly_once.transactions import SinkCluster
from tailrace.spark.sink.rows import Written, write_rows
from tailrace.spark.sink.task import encoder_for, open_cluster, told_whole


@dataclass
class TaskWritten(WriterCommitMessage):
    """All rows of a task are in its transaction, which is open; without rows, or where the batch is decided already,
    it has none. The plan is without what there may be much of."""

    planned: Plan
    grant: Grant | None
    rows: int = 0
    bytes: int = 0


def epoch_of_task(planned: Plan) -> Epoch:
    """Which batch of which query this task belongs to, as Spark tells its tasks."""
    context = task_context()
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    if query_id is None or batch_id is None:
        raise PipelineError(f"a task of sink {planned.sink_id} is not told its query and its batch: is it a stream?")
    return Epoch(query_id, int(batch_id))


def task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PipelineError("rows of an exactly-once sink are written by Spark's tasks only")
    return context


def write_in_transaction(
    options: SinkOptions, planned: Plan, timeout_ms: int, batches: Iterator[pa.RecordBatch]
) -> TaskWritten:
    first = next((batch for batch in batches if batch.num_rows), None)
    light = replace(planned, heirs=(), others=())
    if first is None:
        return TaskWritten(light, None)
    with told_whole(), SinkCluster(open_cluster(options), planned.sink_id, timeout_ms) as sink:
        grant = sink.run(acquire(planned, task_context().partitionId(), lambda: os.urandom(NONCE_BYTES)))
        producer = TransactionalProducer(
            sink.cluster,
            grant.id,
            transaction_timeout_ms=sink.timeout_ms,
            request_bytes=options.request_bytes,
            buffered_bytes=options.buffered_bytes,
            delivery_timeout_s=options.delivery_timeout_ms / 1000,
        )
        producer.adopt(grant.identity)
        producer.begin()
        try:
            written = _write(producer, sink, options, first, batches)
            producer.hand_over()
        except BaseException:
            with suppress(TailraceError):  # what went wrong first is what counts
                producer.close()
            raise
        return TaskWritten(light, grant, *written)


def _write(
    producer: TransactionalProducer,
    sink: SinkCluster,
    options: SinkOptions,
    first: pa.RecordBatch,
    others: Iterator[pa.RecordBatch],
) -> Written:
    def all_of_them() -> Iterator[pa.RecordBatch]:
        yield first
        yield from others

    return write_rows(producer, encoder_for(sink.cluster, options, first.schema), all_of_them())
