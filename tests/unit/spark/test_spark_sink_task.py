"""One task of the sink, against a broker that says what it is told to, and against ours. No Spark is started."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from support.brokers.scripted import ScriptedBroker

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import tailrace  # noqa: E402
from tailrace.client.cluster import Cluster  # noqa: E402
from tailrace.client.consumer import Consumer  # noqa: E402
from tailrace.client.errors import BrokerUnreachableError  # noqa: E402
from tailrace.client.offsets import READ_COMMITTED  # noqa: E402
from tailrace.client.transactional_producer import TransactionalProducer  # noqa: E402
from tailrace.protocol.messages.describe_configs import (  # noqa: E402
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest  # noqa: E402
from tailrace.protocol.messages.produce import ProduceRequest  # noqa: E402
from tailrace.record.reader import Record, application_records  # noqa: E402
from tailrace.spark.errors import PipelineError  # noqa: E402
from tailrace.spark.options.client_settings import ClientSettings  # noqa: E402
from tailrace.spark.options.sink import SinkOptions  # noqa: E402
from tailrace.spark.sink.batch_writer import BatchSink, RowsWritten  # noqa: E402
from tailrace.spark.sink.rows import write_rows  # noqa: E402
from tailrace.spark.sink.stream_writer import AtLeastOnceSink  # noqa: E402
from tailrace.spark.sink.task import encoder_for, open_cluster, write_at_least_once  # noqa: E402

AT_ONCE = ClientSettings(request_timeout_ms=1)


def rows_of(count: int, value_bytes: int = 10, **more: list[Any]) -> Any:
    values = [(b"%d" % at).ljust(value_bytes, b".") for at in range(count)]
    return pa.record_batch({"key": [b"%d" % at for at in range(count)], "value": values, **more})


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        limit_is(broker, None)
        yield broker


@pytest.fixture(scope="module")
def broker() -> Iterator[tailrace.Broker]:
    with tailrace.Broker() as broker:
        yield broker


def limit_is(broker: ScriptedBroker, limit: str | None, error_code: int = 0) -> None:
    def answer(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=error_code,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[DescribeConfigsResourceResult(name="max.message.bytes", value=limit)],
                )
                for each in request.resources
            ]
        )

    broker.answers[DescribeConfigsRequest] = answer


def read(cluster: Cluster, topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    with Consumer(cluster, isolation=READ_COMMITTED) as consumer:
        consumer.assign_topic(topic)
        ends = consumer.ends()
        while any(at < ends[each] for each, at in consumer.positions.items()):
            for run in consumer.poll(1):
                found.setdefault(run.partition.partition, []).extend(run.records())
    return found


def test_rows_are_written_once_by_an_idempotent_producer(scripted: ScriptedBroker) -> None:
    logs = scripted.add_topic("orders", 2)
    options = SinkOptions(scripted.address, "orders", batch_bytes=1000)
    written = write_at_least_once(options, iter([rows_of(100), rows_of(0), rows_of(50)]))
    batches = [data for log in logs for data in log.batches]
    assert written == (150, sum(map(len, batches)))
    assert sum(1 for data in batches for _ in application_records(data)) == 150
    assert len(scripted.requests(InitProducerIdRequest)) == 1
    assert all(request.acks == -1 for request in scripted.requests(ProduceRequest))


def test_fewer_acks_are_not_idempotent(scripted: ScriptedBroker) -> None:
    (log,) = scripted.add_topic("orders")
    options = SinkOptions(scripted.address, "orders", acks=1, idempotent=False)
    assert write_at_least_once(options, iter([rows_of(3)])).rows == 3
    assert [request.acks for request in scripted.requests(ProduceRequest)] == [1]
    assert scripted.requests(InitProducerIdRequest) == []
    assert sum(1 for data in log.batches for _ in application_records(data)) == 3


def test_a_task_without_rows_asks_nobody(scripted: ScriptedBroker) -> None:
    assert write_at_least_once(SinkOptions(scripted.address, "orders"), iter([rows_of(0)])) == (0, 0)
    assert scripted.connections == 0


def test_batches_are_no_larger_than_the_topic_takes(scripted: ScriptedBroker) -> None:
    (log,) = scripted.add_topic("orders")
    limit_is(scripted, "700")
    write_at_least_once(SinkOptions(scripted.address, "orders"), iter([rows_of(100)]))
    assert 600 < max(map(len, log.batches)) <= 700


def test_a_row_larger_than_the_topic_takes_is_not_even_sent(scripted: ScriptedBroker) -> None:
    scripted.add_topic("orders")
    limit_is(scripted, "700")
    with pytest.raises(PipelineError) as told:
        write_at_least_once(SinkOptions(scripted.address, "orders"), iter([rows_of(1, 1000)]))
    assert str(told.value) == (
        "cannot deliver 1 records of 1071 bytes to orders-0: "
        "the topic takes no batch of more than 700 bytes (raise its max.message.bytes)"
    )
    assert scripted.requests(ProduceRequest) == []


@pytest.mark.parametrize(("limit", "error_code"), [("much", 0), (None, 29)])
def test_a_limit_that_nobody_tells_is_none(scripted: ScriptedBroker, limit: str | None, error_code: int) -> None:
    (log,) = scripted.add_topic("orders")
    limit_is(scripted, limit, error_code)
    write_at_least_once(SinkOptions(scripted.address, "orders"), iter([rows_of(100)]))
    assert len(log.batches) == 1


def test_what_the_broker_refuses_names_partition_and_size(scripted: ScriptedBroker) -> None:
    scripted.add_topic("orders")
    scripted.answers[ProduceRequest] = lambda request: scripted.produce(request, 10)
    with pytest.raises(PipelineError) as told:
        write_at_least_once(SinkOptions(scripted.address, "orders"), iter([rows_of(1, 2_000_000)]))
    assert str(told.value) == (
        "cannot deliver 1 records of 2000075 bytes to orders-0: MESSAGE_TOO_LARGE "
        "(send smaller batches or raise max.message.bytes)"
    )


def test_a_full_disk_is_waited_for_and_then_told(scripted: ScriptedBroker) -> None:
    """A broker that cannot write says KAFKA_STORAGE_ERROR: its partitions may move to another one."""
    scripted.add_topic("orders")
    refusals = []

    def refuse(request: ProduceRequest) -> object:
        refusals.append(request)
        return scripted.produce(request, 56, "No space left on device")

    scripted.answers[ProduceRequest] = refuse
    with pytest.raises(
        PipelineError, match=r"cannot deliver 3 records of .* bytes to orders-0: No space left on device"
    ):
        write_at_least_once(SinkOptions(scripted.address, "orders", delivery_timeout_ms=200), iter([rows_of(3)]))
    assert len(refusals) > 1


def test_no_broker_at_all_is_told_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(PipelineError, match=f"no broker at {address}.*check the address"):
        write_at_least_once(SinkOptions(address, "orders", client=AT_ONCE), iter([rows_of(3)]))


def test_a_broker_that_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch, scripted: ScriptedBroker) -> None:
    class Late(Cluster):
        attempts = 0

        def refresh(self, *args: Any, **more: Any) -> Any:
            Late.attempts += 1
            if Late.attempts < 3:
                raise BrokerUnreachableError("not yet")
            return super().refresh(*args, **more)

    monkeypatch.setattr("tailrace.spark.sink.task.Cluster", Late)
    with open_cluster(SinkOptions(scripted.address, "orders")) as cluster:
        assert cluster.brokers
    assert Late.attempts == 3


def test_a_missing_topic_is_told_by_name(scripted: ScriptedBroker) -> None:
    with pytest.raises(PipelineError, match="topic missing: there is no such topic"):
        write_at_least_once(
            SinkOptions(scripted.address, "missing", client=ClientSettings(request_timeout_ms=100)), iter([rows_of(3)])
        )


def test_an_error_of_the_query_goes_on_as_it_is(scripted: ScriptedBroker) -> None:
    scripted.add_topic("orders")

    def rows() -> Iterator[Any]:
        yield rows_of(3)
        raise ZeroDivisionError("in the query")

    with pytest.raises(ZeroDivisionError, match="in the query"):
        write_at_least_once(SinkOptions(scripted.address, "orders"), rows())
    assert scripted.requests(ProduceRequest) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_our_broker_takes_every_codec(broker: tailrace.Broker, codec: str) -> None:
    topic = broker.create_topic(f"codec-{codec}", 3)
    options = SinkOptions(broker.bootstrap_servers, topic, codec=codec, batch_bytes=1 << 14)
    assert write_at_least_once(options, iter([rows_of(1000), rows_of(1000)])).rows == 2000
    with Cluster(broker.bootstrap_servers) as cluster:
        found = read(cluster, topic)
    values = sorted(bytes(record.value or b"") for records in found.values() for record in records)
    assert values == sorted(2 * rows_of(1000)["value"].to_pylist())


def test_a_value_that_our_broker_does_not_take(broker: tailrace.Broker) -> None:
    topic = broker.create_topic("small-values", 1, **{"max.message.bytes": 2000})
    options = SinkOptions(broker.bootstrap_servers, topic)
    assert write_at_least_once(options, iter([rows_of(500, 100)])).rows == 500
    with pytest.raises(
        PipelineError, match=r"1 records of 30\d\d bytes to small-values-0.*raise its max.message.bytes"
    ):
        write_at_least_once(options, iter([rows_of(1, 3000)]))


def test_rows_belong_to_a_transaction(broker: tailrace.Broker) -> None:
    topic = broker.create_topic("transactions", 2)
    options = SinkOptions(broker.bootstrap_servers, topic, batch_bytes=2000)
    with open_cluster(options) as cluster, TransactionalProducer(cluster, "sink-0-0") as producer:
        producer.begin()
        write_rows(producer, encoder_for(cluster, options, rows_of(1).schema), [rows_of(100)])
        assert read(cluster, topic) == {}
        producer.abort()
        producer.begin()
        write_rows(producer, encoder_for(cluster, options, rows_of(1).schema), [rows_of(30)])
        producer.commit()
        found = read(cluster, topic)
    assert sorted(bytes(record.key or b"") for records in found.values() for record in records) == sorted(
        b"%d" % at for at in range(30)
    )


@pytest.mark.parametrize("kind", [BatchSink, AtLeastOnceSink])
def test_writers_travel_to_executors(broker: tailrace.Broker, kind: type[BatchSink] | type[AtLeastOnceSink]) -> None:
    from pyspark.sql.types import BinaryType, StructType

    topic = broker.create_topic(f"travels-{kind.__name__}")
    writer = kind(
        SinkOptions(broker.bootstrap_servers, topic), StructType().add("key", BinaryType()).add("value", BinaryType())
    )
    told = pickle.loads(pickle.dumps(writer)).write(iter([rows_of(5)]))
    assert pickle.loads(pickle.dumps(told)).rows == 5
    assert isinstance(told, RowsWritten)
    with Cluster(broker.bootstrap_servers) as cluster:
        assert len(read(cluster, topic)[0]) == 5
