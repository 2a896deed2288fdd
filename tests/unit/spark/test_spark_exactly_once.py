"""The steps of the exactly-once sink on our broker, a child process: what the storm does with a model, end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import tailrace
from support.kafka.killable import KafkaVictim
from support.spark.exactly_once_sink import Sink
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, NoAnswerError, class_of, error_of
from tailrace.client.outgoing import Identity
from tailrace.client.transaction_end import TransactionEnds
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.decision import (
    DECIDED,
    ENDED,
    MOST_QUERIES,
    PARTIAL,
    WRITES,
    Decision,
    Epoch,
    Grant,
    merged,
)
from tailrace.spark.sink.exactly_once.driver import (
    LateEpochError,
    PartialEpochError,
    TakenOverError,
    abort,
    commit,
)
from tailrace.spark.sink.exactly_once.effects import INVALID_PRODUCER_ID_MAPPING, End, ReadLast
from tailrace.spark.sink.exactly_once.ledger import FIRST_WINDOW
from tailrace.spark.sink.exactly_once.names import batch_sink, driver_id, partition_of, pattern_of_tasks, task_id

NOT_OPEN = class_of(48)
FENCED = class_of(90)


@pytest.fixture(scope="module")
def running(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker runs: ours, or with --against-kafka a real one."""
    settings = {"transaction.max.timeout.ms": "120000", "transaction.state.log.num.partitions": "3"}
    if pytestconfig.getoption("--against-kafka"):
        with KafkaVictim(tmp_path_factory.mktemp("kafka"), settings) as kafka:
            kafka.launch()
            yield kafka.bootstrap_servers
    else:
        with tailrace.Broker(settings) as broker:
            yield broker.bootstrap_servers


@pytest.fixture
def sink(running: str) -> Sink:
    return Sink(running)


def test_batches_follow_each_other_under_the_same_ids(sink: Sink) -> None:
    ids = set()
    for batch in range(3):
        planned = sink.plan()
        grants = [sink.write(planned, partition, b"%d-%d" % (batch, partition)) for partition in range(2)]
        sink.commit(planned, batch, *grants)
        ids.update(each.id for each in grants)
        assert [each.identity.epoch for each in grants] == [batch, batch]
    assert len(ids) == 2
    assert sink.read() == [b"0-0", b"0-1", b"1-0", b"1-1", b"2-0", b"2-1"]


def test_a_twin_gets_another_id_and_is_swept(sink: Sink) -> None:
    planned = sink.plan()
    sink.commit(planned, 0, sink.write(planned, 0, b"first"))
    planned = sink.plan()
    one, two = sink.write(planned, 0, b"one"), sink.write(planned, 0, b"two")
    assert one.id == planned.heirs[0].id != two.id
    sink.commit(planned, 1, two)
    assert sink.read() == [b"first", b"two"]


def test_who_planned_first_cannot_decide(sink: Sink) -> None:
    old = sink.plan()
    left = sink.write(old, 0, b"old")
    new = sink.plan()
    with pytest.raises(TakenOverError, match=f"another driver has planned for sink {sink.id}"):
        sink.commit(old, 0, left)
    sink.commit(new, 0, sink.write(new, 0, b"new"))
    assert sink.read() == [b"new"]


def test_what_is_decided_is_committed_by_the_next_plan(sink: Sink) -> None:
    planned = sink.plan()
    grants = [sink.write(planned, partition, b"%d" % partition) for partition in range(3)]
    sink.commit_until(planned, 7, grants, End(grants[1].id, grants[1].identity, is_commit=True))
    following = sink.plan()
    assert following.decided == Epoch("q", 7)
    assert [partition_of(each.id) for each in following.heirs] == [0, 1, 2]
    assert sink.read() == [b"0", b"1", b"2"]
    assert following.is_done(Epoch("q", 7))
    assert not following.is_done(Epoch("q", 8))
    assert not following.is_done(Epoch("another", 7))
    with pytest.raises(PipelineError, match="the checkpoint is older"):
        following.is_done(Epoch("q", 6))


def test_what_is_not_decided_is_aborted_with_the_next_batch(sink: Sink) -> None:
    planned = sink.plan()
    grant = sink.write(planned, 0, b"never")
    sink.commit_until(planned, 0, [grant], End(driver_id(sink.id), planned.driver, is_commit=True))
    following = sink.plan()
    assert following.decided is None
    sink.commit(following, 0, sink.write(following, 1, b"once"))
    assert sink.read() == [b"once"]


def test_a_failed_batch_is_given_up(sink: Sink) -> None:
    planned = sink.plan()
    grant = sink.write(planned, 0, b"never")
    with sink.open() as cluster:
        cluster.run(abort(planned, [grant]))
    assert sink.read() == []
    with pytest.raises(TakenOverError):
        sink.commit(planned, 0, grant)


def test_giving_up_leaves_what_is_decided(sink: Sink) -> None:
    planned = sink.plan()
    grants = [sink.write(planned, partition, b"%d" % partition) for partition in range(2)]
    sink.commit_until(planned, 0, grants, End(grants[1].id, grants[1].identity, is_commit=True))
    with sink.open() as cluster:
        cluster.run(abort(planned, grants))
    sink.plan()
    assert sink.read() == [b"0", b"1"]


def test_too_little_time_is_left(sink: Sink) -> None:
    planned = sink.plan()
    grants = [sink.write(planned, partition, b"late") for partition in range(2)]
    with pytest.raises(
        LateEpochError, match=r"has only \d+ ms left of 120000, and 121000 ms are needed to decide and end 2"
    ):
        sink.commit(planned, 3, *grants, margin_ms=106_000)
    assert sink.read() == []
    planned = sink.plan()
    assert planned.decided is None
    sink.commit(planned, 3, sink.write(planned, 0, b"in time"))
    assert sink.read() == [b"in time"]


def test_a_part_that_is_lost_is_told_until_it_is_accepted(sink: Sink) -> None:
    planned = sink.plan()
    grants = [sink.write(planned, partition, b"%d" % partition) for partition in range(2)]
    sink.commit_until(planned, 5, grants, End(grants[1].id, grants[1].identity, is_commit=True))
    with Cluster(sink.address) as cluster:  # as if its time had run out
        sink.ends(cluster).end(grants[1].id, grants[1].identity, is_commit=False)
    for _ in range(2):
        with pytest.raises(PartialEpochError) as told:
            sink.plan()
        assert re.search(rf"Committed: {grants[0].id}\. Lost: {grants[1].id}\.", str(told.value))
        assert "acceptPartialEpoch=5" in str(told.value)
    with pytest.raises(PartialEpochError):
        sink.plan(accepted=4)
    assert sink.plan(accepted=5).decided == Epoch("q", 5)
    assert sink.plan().decided == Epoch("q", 5)
    assert sink.read() == [b"0"]


def test_two_queries_in_turn(sink: Sink) -> None:
    """The first was killed behind its decision, before Spark noted that the batch is done."""
    for query in ("first", "second"):
        planned = sink.plan()
        sink.commit(planned, 0, sink.write(planned, 0, query.encode()), query=query)
    planned = sink.plan()
    assert planned.is_done(Epoch("first", 0))
    assert planned.is_done(Epoch("second", 0))
    with pytest.raises(PipelineError, match="tasks have written batch 0 of query first"):
        sink.commit(planned, 0, sink.write(planned, 0, b"again"), query="first")
    sink.plan()
    assert sink.read() == [b"first", b"second"]


def test_killed_tasks_of_a_failed_batch_leave_nothing_open(sink: Sink) -> None:
    planned = sink.plan()
    told = sink.write(planned, 0, b"told")
    sink.write(planned, 1, b"killed before it told")
    with sink.open() as cluster:
        cluster.run(abort(planned, [told]))
        assert sink.ends(cluster.cluster).open_ids(pattern_of_tasks(sink.id)) == []
    assert sink.read() == []


def test_planning_aborts_what_a_dead_driver_left(sink: Sink) -> None:
    sink.write(sink.plan(), 0, b"left")
    sink.plan()
    with Cluster(sink.address) as cluster:
        assert sink.ends(cluster).open_ids(pattern_of_tasks(sink.id)) == []


def test_sweeping_that_fails_behind_a_committed_batch_only_warns(
    sink: Sink, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(ends: TransactionEnds, pattern: str) -> list[str]:
        raise NoAnswerError("broker 2 is away")

    planned = sink.plan()
    grant = sink.write(planned, 0, b"x")
    monkeypatch.setattr(TransactionEnds, "open_ids", away)
    sink.commit(planned, 0, grant)
    assert sink.plan().decided == Epoch("q", 0)
    assert "not aborted yet: broker 2 is away" in caplog.text
    assert sink.read() == [b"x"]


def test_ids_that_have_expired_are_not_told_as_lost(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are committed, and nobody could write that they are for a week."""
    planned = sink.plan()
    grants = [sink.write(planned, partition, b"%d" % partition) for partition in range(2)]
    sink.commit_until(planned, 0, grants, End(grants[1].id, grants[1].identity, is_commit=True))

    def forgetful(ends: TransactionEnds, name: str, identity: Identity, *, is_commit: bool) -> Identity:
        if name == grants[1].id:
            raise error_of(INVALID_PRODUCER_ID_MAPPING)
        return real(ends, name, identity, is_commit=is_commit)

    real = TransactionEnds.end
    with monkeypatch.context() as patch:
        patch.setattr(TransactionEnds, "end", forgetful)
        with pytest.raises(PartialEpochError) as told:
            sink.plan()
    assert f"Committed: {grants[0].id}. Lost: nothing. Committed or lost, which" in str(told.value)
    assert f"have expired: {grants[1].id}." in str(told.value)
    assert sink.plan(accepted=0).decided == Epoch("q", 0)


def test_an_heir_that_has_expired_is_left(sink: Sink) -> None:
    planned = sink.plan()
    sink.commit(planned, 0, sink.write(planned, 0, b"x"))
    planned = sink.plan()
    (heir,) = planned.heirs
    stranger = heir._replace(identity=heir.identity._replace(producer_id=heir.identity.producer_id + 1000))
    grant = sink.write(replace(planned, heirs=(stranger,)), 0, b"y")
    assert grant.id != heir.id
    sink.commit(planned, 1, grant)
    assert sink.read() == [b"x", b"y"]


def test_a_sink_of_one_write_leaves_no_record(sink: Sink) -> None:
    planned = sink.plan()
    grant = sink.write(planned, 0, b"x")
    with sink.open() as cluster:
        cluster.run(commit(planned, Epoch(WRITES, 0), [grant], 1000, is_only=True))
        assert cluster.carry_out(ReadLast()) is None
    following = sink.plan()
    assert (following.decided, following.heirs) == (None, ())
    assert sink.read() == [b"x"]


def test_an_epoch_without_rows_is_not_decided(sink: Sink) -> None:
    planned = sink.plan()
    sink.commit(planned, 0)
    assert sink.plan().decided is None


def test_a_decision_behind_many_of_other_sinks(sink: Sink) -> None:
    planned = sink.plan()
    sink.commit(planned, 1, sink.write(planned, 0, b"x"))
    with sink.open() as cluster:
        ledger: Any = cluster._ledger
        partition = ledger._partition()
        with TransactionalProducer(cluster.cluster, f"other-{sink.id}") as producer, producer.transaction():
            for _ in range(3 * FIRST_WINDOW):
                producer.send(partition.topic, b"{}", b"other", partition=partition.partition)
    assert sink.plan().decided == Epoch("q", 1)


class TestEnds:
    """`client.transaction_end`."""

    def test_an_end_is_answered_again_until_the_id_is_taken(self, sink: Sink) -> None:
        grant = sink.write(sink.plan(), 0, b"x")
        with Cluster(sink.address) as cluster:
            ends = sink.ends(cluster)
            assert ends.open_ids(pattern_of_tasks(sink.id)) == [grant.id]
            (seen,) = ends.look([grant.id, "nobody"]).values()
            assert (seen.identity, seen.is_open, seen.timeout_ms) == (grant.identity, True, 120_000)
            following = ends.end(grant.id, grant.identity, is_commit=True)
            assert following == Identity(grant.identity.producer_id, grant.identity.epoch + 1)
            assert ends.end(grant.id, grant.identity, is_commit=True) == following
            with pytest.raises(NOT_OPEN):
                ends.end(grant.id, grant.identity, is_commit=False)
            with pytest.raises(NOT_OPEN):
                ends.end(grant.id, following, is_commit=True)
            ends.take(grant.id, 1000)
            with pytest.raises(FENCED):
                ends.end(grant.id, grant.identity, is_commit=True)
            assert not ends.look([grant.id])[grant.id].is_open

    def test_the_longest_timeout_is_the_brokers(self, sink: Sink) -> None:
        with Cluster(sink.address) as cluster:
            assert sink.ends(cluster).longest_timeout_ms() == 120_000

    def test_a_handed_over_transaction_is_not_the_producers_any_more(self, sink: Sink) -> None:
        with Cluster(sink.address) as cluster:
            producer = TransactionalProducer(cluster, f"own-{sink.id}")
            producer.begin()
            with pytest.raises(ClientError, match="in a transaction already"):
                producer.adopt(Identity(1, 1))
            producer.send(sink.topic, b"x")
            identity = producer.hand_over()
            producer.close()
            assert sink.ends(cluster).look([f"own-{sink.id}"])[f"own-{sink.id}"].is_open
            sink.ends(cluster).end(f"own-{sink.id}", identity, is_commit=False)


class TestDecision:
    GRANT = Grant("a-3-00ff", Identity(7, 2), Identity(8, 1))

    @pytest.mark.parametrize("state", [DECIDED, ENDED, PARTIAL])
    def test_there_and_back(self, state: str) -> None:
        others = (Epoch("p", 3), Epoch("o", 9))
        decision = Decision(Epoch("q", 4), state, (self.GRANT,), (self.GRANT,), ("a-3-00ff",), ("b",), others)
        assert Decision.from_json(decision.to_json()) == decision

    @pytest.mark.parametrize(
        "text",
        [b"", b"{}", b"[]", b"3", b"\xff", b'{"version":1,"state":"odd"}', b'{"version":1,"state":"ended","query":1}'],
    )
    def test_what_is_none(self, text: bytes) -> None:
        with pytest.raises(PipelineError, match="last decision is none"):
            Decision.from_json(text)

    def test_a_newer_version(self) -> None:
        with pytest.raises(PipelineError, match="a newer Tailrace"):
            Decision.from_json(b'{"version":2}')

    def test_the_last_batches_of_other_queries_are_kept(self) -> None:
        last = Decision(Epoch("a", 0), ENDED)
        for number in range(2 * MOST_QUERIES):
            epoch = Epoch(f"q{number}", number)
            last = Decision(epoch, ENDED, others=last.before(epoch))
        assert last.others == tuple(Epoch(f"q{each}", each) for each in range(MOST_QUERIES - 1, 2 * MOST_QUERIES - 1))
        again = Epoch(f"q{MOST_QUERIES}", 1000)
        assert again.query_id not in {each.query_id for each in last.before(again)}
        assert last.before(again)[-1] == last.epoch

    def test_one_heir_of_a_partition(self) -> None:
        newer, other = self.GRANT._replace(id="a-3-11"), self.GRANT._replace(id="a-1-22")
        assert merged([self.GRANT, other], [newer]) == (other, newer)


def test_batches_have_nothing_in_common_with_streams() -> None:
    for name in (batch_sink("a", "w"), batch_sink(None, "a")):
        assert name != "a"
        assert not re.fullmatch(pattern_of_tasks("a"), task_id(name, 1, bytes(8)))
        assert not re.fullmatch("[a-zA-Z0-9._-]+", name), "it could be a sinkId"
    assert batch_sink("a", "one") == batch_sink("a", "two")


@pytest.mark.parametrize("other", ["a-1", "a-1-2", "a.", "ab", "a-1-0123456789abcdef", "b-a", "a-driver"])
def test_no_two_sinks_have_an_id_in_common(other: str) -> None:
    nonce = bytes(range(8))
    mine, others = pattern_of_tasks("a"), pattern_of_tasks(other)
    assert re.fullmatch(mine, task_id("a", 1, nonce))
    assert not re.fullmatch(mine, task_id(other, 1, nonce))
    assert not re.fullmatch(others, task_id("a", 1, nonce))
    assert not re.fullmatch(mine, driver_id(other))
    assert partition_of(task_id(other, 12, nonce)) == 12
