"""Batches that are written whole or not at all, as Spark's driver goes about them: pickled, then committed or not."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql.types import StringType, StructField, StructType

import tailrace
from support.spark.exactly_once_sink import Sink
from tailrace.client.cluster import Cluster
from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.exactly_once.batch import TransactionalBatchSink
from tailrace.spark.sink.exactly_once.decision import WRITES, Epoch
from tailrace.spark.sink.exactly_once.driver import PartialEpochError, Plan
from tailrace.spark.sink.exactly_once.effects import End, ReadLast
from tailrace.spark.sink.exactly_once.names import pattern_of_tasks
from tailrace.spark.sink.exactly_once.writing import TaskWritten

SCHEMA = StructType([StructField("value", StringType())])


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    with tailrace.Broker() as broker:
        yield broker.bootstrap_servers


class Batches(Sink):
    """Batch writes under one `sinkId`, or each for itself."""

    def __init__(self, address: str, *, is_named: bool) -> None:
        super().__init__(address)
        sink_id = self.id if is_named else None
        self.options = SinkOptions(brokers=address, topic=self.topic, transactional=True, sink_id=sink_id)

    def begin(self, accepted: int | None = None) -> tuple[TransactionalBatchSink, Plan]:
        options = replace(self.options, accept_partial_epoch=accepted)
        writer = pickle.loads(pickle.dumps(TransactionalBatchSink(options, SCHEMA)))
        assert writer._planned is not None
        self.id = writer._sink_id
        return writer, writer._planned

    def run(self, value: bytes, accepted: int | None = None) -> None:
        writer, planned = self.begin(accepted)
        light = replace(planned, heirs=(), others=())
        writer.commit([TaskWritten(light, self.write(planned, 0, value)), TaskWritten(light, None)])


def test_writes_are_numbered(running: str) -> None:
    batches = Batches(running, is_named=True)
    for number in range(3):
        batches.run(b"%d" % number)
        _, planned = batches.begin()
        assert planned.decided == Epoch(WRITES, number)
        assert planned.others == ()
    assert batches.read() == [b"0", b"1", b"2"]


def test_a_stream_with_the_same_sink_id_goes_on(running: str) -> None:
    stream = Sink(running)
    planned = stream.plan()
    grant = stream.write(planned, 0, b"stream")
    batches = Batches(running, is_named=True)
    batches.options = replace(batches.options, sink_id=stream.id, topic=stream.topic)
    batches.topic = stream.topic
    batches.run(b"batch")
    stream.commit(planned, 0, grant)
    assert stream.read() == [b"batch", b"stream"]


@pytest.mark.parametrize("is_named", [True, False])
def test_nothing_is_open_when_no_task_has_told(running: str, is_named: bool) -> None:
    batches = Batches(running, is_named=is_named)
    writer, planned = batches.begin()
    batches.write(planned, 0, b"killed before it told")
    writer.abort([None])
    with Cluster(running) as cluster:
        assert batches.ends(cluster).open_ids(pattern_of_tasks(batches.id)) == []
    assert batches.read() == []


def test_a_write_of_its_own_leaves_no_record(running: str) -> None:
    batches = Batches(running, is_named=False)
    batches.run(b"x")
    with batches.open() as cluster:
        assert cluster.carry_out(ReadLast()) is None
    assert batches.read() == [b"x"]


def test_a_loss_is_accepted_by_the_number_of_the_write(running: str) -> None:
    batches = Batches(running, is_named=True)
    batches.run(b"0")
    _, planned = batches.begin()
    grant = batches.write(planned, 0, b"1")
    end = End(grant.id, grant.identity, is_commit=True)
    batches.commit_until(planned, 1, [grant], end, query=WRITES)
    with Cluster(running) as cluster:  # as if its time had run out
        batches.ends(cluster).end(grant.id, grant.identity, is_commit=False)
    for accepted in (None, 0):
        with pytest.raises(PartialEpochError, match=r"^write 1 was decided .* acceptPartialEpoch=1 is given"):
            batches.begin(accepted)
    batches.run(b"2", accepted=1)
    assert batches.read() == [b"0", b"2"]
