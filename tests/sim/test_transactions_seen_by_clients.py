"""Transactions from their producer to a read_committed consumer, with the coordinators in between, and crashes."""

from __future__ import annotations

import random

import pytest

from support.brokers.simulated import SimBroker
from support.clients.sim_transactions import (
    FEW_PARTITIONS,
    SimProducer,
    codes_of,
    committed_offset,
    fetch_committed,
    find,
    marker_request,
    producers_of,
    write_marker,
)
from support.logs.builders import batch
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.sim.faults import Survival

BOTH = pytest.mark.parametrize("is_new", [False, True])


@pytest.fixture
def broker() -> SimBroker:
    made = SimBroker(**FEW_PARTITIONS).start()
    made.client().create_topic("orders", 2)
    return made


def producer(broker: SimBroker, name: str = "mine", *, is_new: bool) -> SimProducer:
    made = SimProducer(broker.client(), name, is_new=is_new)
    assert made.initialise() == 0
    return made


class TestWhatAConsumerSees:
    @pytest.mark.spec("CO-08", "LS-31")
    @BOTH
    @pytest.mark.parametrize("commit", [True, False])
    def test_all_of_a_transaction_or_nothing(self, broker: SimBroker, is_new: bool, commit: bool) -> None:
        writer, reader = producer(broker, is_new=is_new), broker.client()
        assert writer.write("orders", 0, 3) == 0
        assert writer.write("orders", 1, 2) == 0
        reader.produce("orders", bytes(batch(1)))
        seen = fetch_committed(reader, "orders")
        assert (seen.high_watermark, seen.last_stable_offset, seen.offsets) == (4, 0, [])
        assert writer.end(commit=commit) == 0
        one, two = fetch_committed(reader, "orders"), fetch_committed(reader, "orders", partition=1)
        assert (one.last_stable_offset, two.last_stable_offset) == (5, 3)
        assert one.offsets == ([0, 1, 2, 3] if commit else [3])
        assert two.offsets == ([0, 1] if commit else [])
        assert one.aborted == ([] if commit else [(writer.id, 0)])

    @pytest.mark.spec("LS-19", "LS-31")
    @BOTH
    def test_it_sees_no_further_than_the_first_open_transaction(self, broker: SimBroker, is_new: bool) -> None:
        first, second = producer(broker, "a", is_new=is_new), producer(broker, "b", is_new=is_new)
        reader = broker.client()
        reader.produce("orders", bytes(batch(1)))
        assert first.write("orders") == 0
        assert second.write("orders") == 0
        assert second.end(commit=True) == 0
        assert fetch_committed(reader, "orders").offsets == [0]
        assert first.end(commit=False) == 0
        seen = fetch_committed(reader, "orders")
        assert (seen.offsets, seen.last_stable_offset) == ([0, 2], 5)

    @pytest.mark.spec("LS-19")
    def test_a_fetch_from_the_middle_is_told_what_was_aborted_across_segments(self) -> None:
        broker = SimBroker(**FEW_PARTITIONS).start()
        broker.client().create_topic("orders", configs={"segment.bytes": "1048576"})
        writer, reader = producer(broker, is_new=True), broker.client()
        assert writer.write("orders") == 0
        log = broker.node.replicas.partition("orders", 0).log
        assert log is not None
        for _ in range(3):
            log.roll()
            reader.produce("orders", bytes(batch(1)))
            assert writer.write("orders") == 0
        assert writer.end(commit=False) == 0
        for offset in range(7):
            seen = fetch_committed(reader, "orders", offset)
            assert seen.aborted == [(writer.id, 0)]
            assert seen.offsets == ([offset] if offset % 2 else [])  # to the end of a segment

    @pytest.mark.spec("LS-29", "LS-30")
    @BOTH
    def test_a_producers_state_survives_a_restart_in_its_transaction(self, broker: SimBroker, is_new: bool) -> None:
        writer = producer(broker, is_new=is_new)
        assert writer.write("orders") == 0
        resent = writer.batch("orders", 0, 2)
        assert writer.write_only("orders", resent) == 0
        broker.stop()
        broker.start()
        writer.client = reader = broker.client()
        find(writer.client, 1, writer.transactional_id)
        (state,) = producers_of(reader, "orders")
        assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (writer.epoch, 2, 0)
        assert writer.write_only("orders", resent) == 0  # a duplicate
        assert fetch_committed(reader, "orders").high_watermark == 3
        assert writer.end(commit=True) == 0
        assert fetch_committed(reader, "orders").offsets == [0, 1, 2]


class TestOffsetsInATransaction:
    @pytest.mark.spec("CO-08")
    @BOTH
    @pytest.mark.parametrize("commit", [True, False])
    def test_they_count_when_it_is_committed(self, broker: SimBroker, is_new: bool, commit: bool) -> None:
        writer, reader = producer(broker, is_new=is_new), broker.client()
        assert writer.write("orders", 1) == 0
        assert writer.commit_offset("copiers", "orders", 42) == 0
        assert committed_offset(reader, "copiers", "orders") == -88  # UNSTABLE_OFFSET_COMMIT
        assert committed_offset(reader, "copiers", "orders", is_stable=False) == -1
        assert writer.end(commit=commit) == 0
        assert committed_offset(reader, "copiers", "orders") == (42 if commit else -1)

    @pytest.mark.spec("CO-09")
    def test_who_is_not_in_the_transaction_commits_none(self, broker: SimBroker) -> None:
        writer, reader = producer(broker, is_new=False), broker.client()
        find(reader, 0, "copiers")
        assert writer.commit_offset_only("copiers", "orders", 42) == 120
        assert writer.write("orders", 1) == 0
        assert writer.commit_offset_only("copiers", "orders", 42) == 120
        assert writer.end(commit=True) == 0
        assert writer.commit_offset_only("copiers", "orders", 42) == 120
        assert committed_offset(reader, "copiers", "orders") == -1
        for index in range(3):
            log = broker.node.replicas.partition(CONSUMER_OFFSETS, index).log
            assert log is not None
            assert not log.producers.ongoing


class TestLateBatches:
    @pytest.mark.spec("CO-09")
    @pytest.mark.parametrize("version", [9, 11])
    @pytest.mark.parametrize("commit", [True, False])
    def test_of_a_client_that_adds_its_partitions(self, broker: SimBroker, version: int, commit: bool) -> None:
        writer, reader = producer(broker, is_new=False), broker.client()
        assert writer.write("orders") == 0
        late = writer.batch("orders", 0, 1)
        assert writer.end(commit=commit) == 0
        before = fetch_committed(reader, "orders")
        assert writer.write_only("orders", late, version=version) == (48 if version < 11 else 120)
        after = fetch_committed(reader, "orders")
        assert (after.high_watermark, after.last_stable_offset) == (before.high_watermark, before.high_watermark)

    @pytest.mark.spec("CO-09")
    @pytest.mark.parametrize("commit", [True, False])
    def test_of_a_client_with_an_epoch_for_each_transaction(self, broker: SimBroker, commit: bool) -> None:
        writer, reader = producer(broker, is_new=True), broker.client()
        assert writer.write("orders") == 0
        late, elsewhere = writer.batch("orders", 0, 1), writer.batch("orders", 1, 1)
        assert writer.end(commit=commit) == 0
        assert writer.write_only("orders", late) == 47
        assert writer.write_only("orders", elsewhere, 1) == 47  # where the log knows nothing of the producer
        assert fetch_committed(reader, "orders").last_stable_offset == 2
        assert fetch_committed(reader, "orders", partition=1).high_watermark == 0
        assert writer.write("orders") == 0  # the next one goes on
        assert writer.end(commit=True) == 0
        assert fetch_committed(reader, "orders").offsets == ([0, 2] if commit else [2])

    @pytest.mark.spec("CO-09")
    @BOTH
    def test_of_a_producer_that_another_took_over_from(self, broker: SimBroker, is_new: bool) -> None:
        zombie, reader = producer(broker, is_new=is_new), broker.client()
        assert zombie.write("orders") == 0
        late = zombie.batch("orders", 0, 1)
        heir = SimProducer(broker.client(), "mine", is_new=is_new)
        assert heir.initialise() == 51  # the zombie's transaction is aborted first
        assert heir.initialise() == 0
        assert zombie.write_only("orders", late) == 47
        assert zombie.end(commit=True) in (47, 90)
        assert heir.write("orders") == 0
        assert heir.end(commit=True) == 0
        seen = fetch_committed(reader, "orders")
        assert (seen.offsets, seen.last_stable_offset) == ([2], 4)

    @pytest.mark.spec("CO-09")
    def test_after_a_timeout(self, broker: SimBroker) -> None:
        writer = SimProducer(broker.client(), "mine", is_new=True)
        assert writer.initialise(timeout_ms=5_000) == 0
        assert writer.write("orders") == 0
        late = writer.batch("orders", 0, 1)
        for _ in range(40):
            broker.pass_time(500)
        reader = broker.client()
        assert fetch_committed(reader, "orders").last_stable_offset == 2
        assert writer.write_only("orders", late) == 47
        assert fetch_committed(reader, "orders").last_stable_offset == 2


class TestTransactionsThatHang:
    """As old brokers left them behind: open in a partition, and unknown to the coordinator."""

    @pytest.fixture
    def hanging(self) -> SimBroker:
        made = SimBroker(**FEW_PARTITIONS, transaction_partition_verification_enable="false").start()
        made.client().create_topic("orders", 2)
        writer = producer(made, is_new=False)
        assert writer.write_only("orders", writer.batch("orders", 0, 2)) == 0
        return made

    @pytest.mark.spec("CO-10")
    def test_one_is_found_and_aborted(self, hanging: SimBroker) -> None:
        admin = hanging.client()
        admin.produce("orders", bytes(batch(1)))
        assert fetch_committed(admin, "orders").last_stable_offset == 0
        (state,) = producers_of(admin, "orders")
        assert (state.current_txn_start_offset, state.last_sequence, state.coordinator_epoch) == (0, 1, -1)
        assert state.last_timestamp > 0
        # What `TransactionsCommand abort --start-offset` sends, with the coordinator epoch that the partition has seen
        codes = write_marker(admin, state.producer_id, state.producer_epoch, {"orders": [0]}, version=1)
        assert codes == {("orders", 0): 0}
        (state,) = producers_of(admin, "orders")
        assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 0)
        seen = fetch_committed(admin, "orders")
        assert (seen.offsets, seen.last_stable_offset) == ([2], 4)


class TestMarkers:
    @pytest.mark.spec("CO-08")
    def test_each_partition_has_its_own_error(self, broker: SimBroker) -> None:
        writer, admin = producer(broker, is_new=False), broker.client()
        assert writer.write("orders") == 0
        codes = write_marker(admin, writer.id, writer.epoch, {"orders": [0, 1, 7], "none": [0]})
        assert codes == {("orders", 0): 0, ("orders", 1): 0, ("orders", 7): 3, ("none", 0): 3}

    @pytest.mark.spec("CO-08")
    def test_fenced_coordinators_and_producers_end_nothing(self, broker: SimBroker) -> None:
        writer, admin = producer(broker, is_new=False), broker.client()
        here = {"orders": [0]}
        assert writer.write("orders") == 0
        assert write_marker(admin, writer.id, writer.epoch, here, coordinator_epoch=5) == {("orders", 0): 0}
        assert write_marker(admin, writer.id, writer.epoch, here, coordinator_epoch=4) == {("orders", 0): 52}
        assert write_marker(admin, writer.id, writer.epoch + 2, here, coordinator_epoch=5) == {("orders", 0): 0}
        assert write_marker(admin, writer.id, writer.epoch + 1, here, coordinator_epoch=5) == {("orders", 0): 47}

    def test_those_of_version_2_must_raise_the_epoch(self, broker: SimBroker) -> None:
        writer, admin = producer(broker, is_new=True), broker.client()
        here = {"orders": [0]}
        assert writer.write("orders") == 0
        assert write_marker(admin, writer.id, writer.epoch, here, transaction_version=2) == {("orders", 0): 47}
        assert fetch_committed(admin, "orders").last_stable_offset == 0
        assert write_marker(admin, writer.id, writer.epoch + 1, here, transaction_version=2) == {("orders", 0): 0}
        assert fetch_committed(admin, "orders").last_stable_offset == 2

    @pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1)])
    def test_of_no_producer_are_refused(self, broker: SimBroker, producer_id: int, epoch: int) -> None:
        assert write_marker(broker.client(), producer_id, epoch, {"orders": [0]}) == {("orders", 0): -1}
        assert fetch_committed(broker.client(), "orders").high_watermark == 0

    def test_none_at_all(self, broker: SimBroker) -> None:
        assert write_marker(broker.client(), 5, 0, {}) == {}

    @pytest.mark.spec("CO-08")
    def test_they_are_answered_when_they_are_committed(self) -> None:
        broker = SimBroker(**FEW_PARTITIONS).start()
        client = broker.client()
        client.create_topic("flushed", configs={"flush.messages": "1"})
        sent = client.post(marker_request(5, 0, {"flushed": [0]}), 1)
        assert sent not in client.read()
        broker.run()
        assert codes_of(client.read()[sent]) == {("flushed", 0): 0}

    @pytest.mark.spec("CO-08")
    def test_in_the_offsets_topic_the_group_coordinator_writes_them(self, broker: SimBroker) -> None:
        writer, admin = producer(broker, is_new=False), broker.client()
        assert writer.commit_offset("copiers", "orders", 42) == 0
        index = broker.node.groups.partition_for("copiers")
        codes = write_marker(admin, writer.id, writer.epoch, {CONSUMER_OFFSETS: [index, 99]}, commit=True)
        assert codes == {(CONSUMER_OFFSETS, index): 0, (CONSUMER_OFFSETS, 99): 3}
        assert committed_offset(admin, "copiers", "orders") == 42

    @pytest.mark.spec("CO-08")
    @BOTH
    @pytest.mark.parametrize("commit", [True, False])
    def test_a_crash_between_decision_and_markers_is_made_up_for(
        self, broker: SimBroker, is_new: bool, commit: bool
    ) -> None:
        writer = producer(broker, is_new=is_new)
        assert writer.write("orders", 0) == 0
        assert writer.write("orders", 1) == 0
        assert writer.commit_offset("copiers", "orders", 42) == 0
        coordinator = next(each for each in broker.node.transactions.machines() if each.transactions)
        coordinator.markers._send = lambda orders, done: None  # as if the process died now
        assert writer.end(commit=commit) == 0
        assert fetch_committed(broker.client(), "orders").last_stable_offset == 0
        broker.kill()
        broker.start()
        broker.pass_time(100)
        reader = broker.client()
        for partition in (0, 1):
            seen = fetch_committed(reader, "orders", partition=partition)
            assert seen.last_stable_offset == seen.high_watermark > 1
            assert seen.offsets == ([0] if commit else [])
        assert committed_offset(reader, "copiers", "orders") == (42 if commit else -1)


@pytest.mark.spec("CO-08", "CO-09")
@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_crashes_in_the_middle_of_transactions(is_new: bool, seed: int) -> None:
    """Whatever a producer was told holds, and what it was told nothing of is all there or not at all."""
    dice = random.Random(seed)
    broker = SimBroker(seed, **FEW_PARTITIONS).start()
    broker.client().create_topic("orders", 2)
    committed: list[set[int]] = [set(), set()]
    for _ in range(12):
        writer = SimProducer(broker.client(), "mine", is_new=is_new)
        while (code := writer.initialise()) == 51:
            broker.pass_time(100)
        assert code == 0
        for _ in range(dice.randrange(1, 4)):
            written: list[set[int]] = [set(), set()]
            for partition in (0, 1):
                before = fetch_committed(broker.client(), "orders", partition=partition).high_watermark
                count = dice.randrange(1, 4)
                assert writer.write("orders", partition, count) == 0
                written[partition] = set(range(before, before + count))
            if dice.random() < 0.3:
                break  # without a word
            commit = dice.random() < 0.6
            assert writer.end(commit=commit) == 0
            if commit:
                committed = [had | new for had, new in zip(committed, written, strict=True)]
        if dice.random() < 0.5:
            broker.kill()
        else:
            broker.stop()
            broker.lose_power(Survival.ANY)
        broker.start()
    heir = SimProducer(broker.client(), "mine", is_new=is_new)
    while heir.initialise() == 51:
        broker.pass_time(100)
    for partition in (0, 1):
        seen = fetch_committed(broker.client(), "orders", partition=partition)
        assert seen.last_stable_offset == seen.high_watermark
        assert set(seen.offsets) == committed[partition]
