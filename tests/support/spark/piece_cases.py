"""What is read from a broker, and what the driver asks of it: the same on a Tailrace and on a Kafka.

A test module gives the fixtures `bootstrap` and `cluster`, and names a class of its own for each of these.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator

import pytest

from support.spark.pieces import Losses, batches_of, id_of, options_for, rows_of
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.deadline import Deadline
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.offsets import READ_COMMITTED
from tailrace.client.producer import Producer
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition
from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.errors import DataLossError, MissingTopicError, PipelineError
from tailrace.spark.options.subscription import Assigned, Pattern, Subscription, Topics
from tailrace.spark.source.brokers import BrokerOrigin, links
from tailrace.spark.source.ranges import Bounds, OffsetRange, TimeRange

T0 = 1_700_000_000_000
BATCH_RECORDS = 50
_numbers = itertools.count()


def new_topic(cluster: Cluster, stem: str, partitions: int = 1, **configs: str) -> str:
    settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
    return Admin(cluster).create_topic(f"{stem}-{next(_numbers)}", partitions=partitions, configs=settings).name


def fill(producer: Producer, topic: str, values: Iterable[int], partition: int = 0, key: bytes | None = None) -> None:
    """In batches of fifty; the timestamps go up with the values."""
    wanted = list(values)
    for at in range(0, len(wanted), BATCH_RECORDS):
        batch = [(T0 + value, key, b"v%d" % value) for value in wanted[at : at + BATCH_RECORDS]]
        producer.send_batch(TopicPartition(topic, partition), batch)
    producer.flush()


def values_of(rows: Iterable[tuple[int, bytes]]) -> list[int]:
    return [int(value[1:]) for _, value in rows]


def piece(topic: str, start: int, end: int, topic_id: str | None = None) -> OffsetRange:
    return OffsetRange(TopicPartition(topic, 0), start, end, topic_id)


class PieceCases:
    @pytest.fixture
    def topic(self, cluster: Cluster) -> str:
        return new_topic(cluster, "topic")

    @pytest.mark.parametrize("codec", CODEC_NAMES)
    def test_every_codec(self, bootstrap: str, cluster: Cluster, topic: str, codec: str) -> None:
        with Producer(cluster, codec=codec) as producer:
            fill(producer, topic, range(2000))
        options = options_for(bootstrap, fetch_bytes=3000)
        rows = rows_of(options, piece(topic, 77, 1903, id_of(cluster, topic)))
        assert rows == [(offset, b"v%d" % offset) for offset in range(77, 1903)]

    def test_only_the_end_of_a_log_is_fetched_for_late_times(
        self, bootstrap: str, cluster: Cluster, topic: str
    ) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(1000))
        options = options_for(bootstrap)
        times = TimeRange(first_ms=T0 + 975, last_ms=T0 + 990)
        assert values_of(rows_of(options, piece(topic, 0, 1000), times=times)) == list(range(975, 991))
        assert rows_of(options, piece(topic, 0, 1000), times=TimeRange(first_ms=T0 + 1000)) == []

    def test_markers_are_no_gaps_and_aborted_rows_are_not_read(
        self, bootstrap: str, cluster: Cluster, topic: str
    ) -> None:
        with TransactionalProducer(cluster, f"writes {topic}") as producer:
            for at in range(0, 400, 100):
                producer.begin()
                fill(producer, topic, range(at, at + 100))
                if at % 200:
                    producer.abort()
                else:
                    producer.commit()
            options = options_for(bootstrap, fetch_bytes=2000, isolation=READ_COMMITTED)
            end = 4 * 101
            committed = [*range(100), *range(200, 300)]
            assert values_of(rows_of(options, piece(topic, 0, end))) == committed
            assert values_of(rows_of(options, piece(topic, 130, 250))) == list(range(200, 248))
            assert rows_of(options, piece(topic, 110, 190)) == []
            uncommitted = options_for(bootstrap)
            assert values_of(rows_of(uncommitted, piece(topic, 0, end))) == list(range(400))

    def test_an_open_transaction_ends_what_can_be_read(self, bootstrap: str, cluster: Cluster, topic: str) -> None:
        partition = TopicPartition(topic, 0)
        with TransactionalProducer(cluster, f"writes {topic}") as producer:
            with producer.transaction():
                fill(producer, topic, range(10))
            producer.begin()
            fill(producer, topic, range(10, 20))
            options = options_for(bootstrap, isolation=READ_COMMITTED, poll_timeout_ms=300)
            origin = BrokerOrigin(options)
            assert origin.bounds([partition]) == {partition: Bounds(0, 11)}
            assert values_of(rows_of(options, piece(topic, 0, 11))) == list(range(10))
            with pytest.raises(PipelineError, match="a transaction is open since offset 11"):
                rows_of(options, piece(topic, 0, 15))
            producer.commit()
            deadline = Deadline(30)
            while origin.bounds([partition]) != {partition: Bounds(0, 22)}:
                deadline.check("waiting for the marker")  # a transaction that is decided is ended soon after
            origin.close()
            assert values_of(rows_of(options, piece(topic, 0, 22))) == list(range(20))

    def test_compacted_offsets_are_not_missed(self, bootstrap: str, cluster: Cluster) -> None:
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(1 << 20)}
        topic = f"compacted-{next(_numbers)}"
        Admin(cluster).create_topic(topic, partitions=1, configs=settings)
        end = 40_000
        with Producer(cluster, batch_bytes=4000) as producer:
            for value in range(end):
                producer.send(
                    topic, b"v%d" % value + bytes(50), b"%d" % (value % 10), timestamp_ms=T0 + value, partition=0
                )
        options = options_for(bootstrap)
        deadline = Deadline(60)
        while len(rows := rows_of(options, piece(topic, 0, end, id_of(cluster, topic)))) == end:
            deadline.check("waiting for the cleaner")
        assert [offset for offset, _ in rows] == sorted({offset for offset, _ in rows})
        assert {offset % 10 for offset, _ in rows} == set(range(10))
        assert rows[-1][0] == end - 1
        first = rows[0][0]
        assert first > 0
        assert rows_of(options, piece(topic, 0, first)) == []

    def test_deleted_records_are_lost(self, bootstrap: str, cluster: Cluster, topic: str) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(1000))
        Admin(cluster).delete_records({TopicPartition(topic, 0): 333})
        options, loss = options_for(bootstrap), Losses()
        assert values_of(rows_of(options, piece(topic, 20, 500), loss)) == list(range(333, 500))
        assert loss.told == [(20, 333, "the log begins at 333")]
        with pytest.raises(DataLossError, match=f"{topic}-0: offsets 20 to 332 are lost"):
            rows_of(options, piece(topic, 20, 500))

    def test_a_topic_deleted_and_made_again_is_another(self, bootstrap: str, cluster: Cluster, topic: str) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(100))
            first_id = id_of(cluster, topic)
            options, loss = options_for(bootstrap), Losses()
            assert len(rows_of(options, piece(topic, 0, 100, first_id))) == 100
            Admin(cluster).delete_topic(topic)
            assert rows_of(options, piece(topic, 0, 50, first_id), loss) == []
            assert loss.ranges == [(0, 50)]
            Admin(cluster).create_topic(topic, partitions=1)
        with Producer(cluster) as producer:
            fill(producer, topic, range(500, 700))
        assert rows_of(options, piece(topic, 50, 100, first_id), loss) == []
        assert loss.ranges == [(0, 50), (50, 100)]
        second_id = id_of(cluster, topic)
        assert values_of(rows_of(options, piece(topic, 0, 200, second_id), loss)) == list(range(500, 700))
        assert loss.told[-1][2].endswith(f"its id is {second_id}, not {first_id}")

    def test_a_topic_that_goes_in_the_middle(self, bootstrap: str, cluster: Cluster, topic: str) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(2000))
        options, loss = options_for(bootstrap, fetch_bytes=1500), Losses()
        found = batches_of(options, piece(topic, 0, 2000, id_of(cluster, topic)), loss, rows_per_batch=10)
        offsets = next(found).to_pydict()["offset"]
        Admin(cluster).delete_topic(topic)
        for batch in found:
            offsets += batch.to_pydict()["offset"]
        ((start, end),) = loss.ranges
        assert offsets == list(range(start))
        assert end == 2000

    def test_a_fork_takes_no_link_along(self, bootstrap: str, cluster: Cluster, topic: str) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(100))
        options = options_for(bootstrap)
        assert len(rows_of(options, piece(topic, 0, 100))) == 100
        child = os.fork()
        if not child:
            status = 1
            try:
                status = int(not links.POOL.is_empty or len(rows_of(options, piece(topic, 0, 100))) != 100)
            finally:
                os._exit(status)
        assert len(rows_of(options, piece(topic, 0, 100))) == 100
        assert os.waitpid(child, 0)[1] == 0
        assert len(rows_of(options, piece(topic, 0, 100))) == 100


class OriginCases:
    @pytest.fixture
    def topic(self, cluster: Cluster) -> str:
        return new_topic(cluster, "topic")

    @pytest.fixture
    def origin(self, bootstrap: str) -> Iterator[BrokerOrigin]:
        origin = BrokerOrigin(options_for(bootstrap))
        yield origin
        origin.close()

    def test_partitions_of_named_topics(self, cluster: Cluster, origin: BrokerOrigin) -> None:
        one, two = (new_topic(cluster, "named", count) for count in (1, 3))
        ids = {name: id_of(cluster, name) for name in (one, two)}
        wanted = [TopicPartition(one, 0), *(TopicPartition(two, number) for number in range(3))]
        assert origin.partitions(Topics((two, one))) == {each: ids[each.topic] for each in wanted}
        some = Assigned({two: (0, 2)})
        assert list(origin.partitions(some)) == [TopicPartition(two, 0), TopicPartition(two, 2)]
        Admin(cluster).add_partitions(two, 5)
        assert len(origin.partitions(Topics((two,)))) == 5

    def test_a_pattern_takes_no_internal_topics(self, cluster: Cluster, origin: BrokerOrigin) -> None:
        names = sorted(new_topic(cluster, "matched") for _ in range(2))
        GroupAdmin(cluster).alter_offsets("makes-an-internal-topic", {TopicPartition(names[0], 0): 0})
        assert sorted({each.topic for each in origin.partitions(Pattern("matched-.*"))}) == names
        everything = {each.topic for each in origin.partitions(Pattern(".*"))}
        assert everything >= set(names)
        assert "__consumer_offsets" not in everything
        assert "__consumer_offsets" in {each.topic for each in origin.partitions(Topics(("__consumer_offsets",)))}
        assert origin.partitions(Pattern("nothing-like-this")) == {}

    @pytest.mark.parametrize(
        ("subscription", "text"),
        [
            (Topics(("no-such", "neither")), "topics neither, no-such are not at 127.0.0.1"),
            (Assigned({"no-such": (0,)}), "topic no-such is not at 127.0.0.1"),
            (Assigned({"small": (0, 4)}), "partition small-4 is not at 127.0.0.1"),
        ],
    )
    def test_what_is_not_there_is_named(
        self, cluster: Cluster, origin: BrokerOrigin, subscription: Subscription, text: str
    ) -> None:
        if not origin.partitions(Pattern("small")):
            Admin(cluster).create_topic("small", partitions=1)
        with pytest.raises(MissingTopicError, match=text):
            origin.partitions(subscription)

    def test_bounds_and_times(self, cluster: Cluster, origin: BrokerOrigin) -> None:
        topic = new_topic(cluster, "topic", 2)
        full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
        with Producer(cluster) as producer:
            fill(producer, topic, range(1000))
        Admin(cluster).delete_records({full: 100})
        assert origin.bounds([full, empty]) == {full: Bounds(100, 1000), empty: Bounds(0, 0)}
        assert origin.bounds([]) == {}
        assert origin.at_times({full: T0 + 500, empty: T0}) == {full: 500, empty: None}
        assert origin.at_times({full: T0}) == {full: 100}
        assert origin.at_times({full: T0 + 1000}) == {full: None}
        assert origin.at_times({}) == {}

    def test_markers_are_not_where_reading_may_stop(self, cluster: Cluster, origin: BrokerOrigin, topic: str) -> None:
        """They have the broker's clock: these records are years older."""
        partition, empty = TopicPartition(topic, 0), TopicPartition(new_topic(cluster, "topic"), 0)
        with TransactionalProducer(cluster, f"writes-{topic}") as producer:
            for turn in range(3):
                with producer.transaction():
                    producer.send_batch(partition, [(T0 + 10 * turn + n, None, b"v") for n in range(3)])
        assert origin.at_times({partition: T0 + 5}) == {partition: 3}
        for time_ms, behind in ((T0 + 1, 1), (T0 + 5, 7), (T0 + 15, 11), (T0 + 22, 11), (T0 + 100, None)):
            found = origin.behind_times({partition: time_ms, empty: time_ms})
            assert found == {partition: behind, empty: None}, time_ms
        assert origin.behind_times({empty: T0}) == {empty: None}

    def test_progress_shows_as_a_group_without_lag(self, cluster: Cluster, origin: BrokerOrigin, topic: str) -> None:
        with Producer(cluster) as producer:
            fill(producer, topic, range(120))
        groups, partition = GroupAdmin(cluster), TopicPartition(topic, 0)
        for done in (70, 120):
            origin.commit(f"watches-{topic}", {partition: done})
            (lag,) = groups.lag(groups.describe(f"watches-{topic}"))
            assert (lag.partition, lag.lag) == (partition, 120 - done)
