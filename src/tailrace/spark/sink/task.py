"""What a task of the sink has in common, whatever its guarantees: brokers to talk to, and errors that say enough.

Before the first contact our client does not wait for a broker; a task does, since its query may have outlived one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa

from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.producer import Producer
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.rows import RowEncoder, Written, write_rows

MAX_MESSAGE_BYTES: Final = "max.message.bytes"


def open_cluster(options: SinkOptions) -> Cluster:
    """Known to be there. Waits for it as long as one operation may take."""
    cluster = Cluster(options.brokers, client_id=options.client.client_id, timeout_s=options.client.timeout_s)
    deadline, backoff = cluster.deadline(), cluster.backoff()
    while True:
        try:
            cluster.refresh(())
            return cluster
        except TailraceError as error:
            if not error.retriable or deadline.is_over:
                cluster.close()
                raise
        backoff.wait(deadline)


def encoder_for(cluster: Cluster, options: SinkOptions, schema: pa.Schema) -> RowEncoder:
    """Topics that are not there are made, where brokers do that."""
    config = ConfigAdmin(cluster)

    def limit_of(topic: str) -> int | None:
        """None where we are not told: then it is the broker that finds a batch too large."""
        with suppress(TailraceError):
            for entry in config.describe(Resource.topic(topic), [MAX_MESSAGE_BYTES]):
                return int(entry.value) if entry.value is not None and entry.value.isdecimal() else None
        return None

    def partitions_of(topic: str) -> int:
        return len(cluster.topic(topic, may_create=True).partitions)

    return RowEncoder(schema, options, partitions_of, limit_of=limit_of)


@contextmanager
def told_whole() -> Iterator[None]:
    """Spark shows an error's text alone: what to do about it becomes part of that."""
    try:
        yield
    except PipelineError:
        raise
    except TailraceError as error:
        raise PipelineError(f"{error} ({error.hint})" if error.hint else str(error)) from error


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """One task's rows. Nobody is asked anything when there are none."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written(0, 0)
    with told_whole(), open_cluster(options) as cluster:
        encoder = encoder_for(cluster, options, first.schema)
        producer = Producer(
            cluster,
            acks=options.acks,
            idempotent=options.idempotent,
            request_bytes=options.request_bytes,
            buffered_bytes=options.buffered_bytes,
            delivery_timeout_s=options.delivery_timeout_ms / 1000,
        )
        with producer:
            return write_rows(producer, encoder, _again(first, batches))


def _again(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others
