"""Produce requests of transactions, and a coordinator that answers when the test likes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from support.brokers.simulated import BROKER, SimBroker, SimClient
from support.logs.builders import batch, in_transaction, marker, produced_by
from tailrace.broker.txn_verification import Question
from tailrace.model.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    TailraceError,
    TransactionAbortableError,
)
from tailrace.model.ids import TopicPartition
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.reader import application_records
from tailrace.storage.origin import Origin

PRODUCER = 7
ADDS, CONFIRMS = 12, 9
"""Versions of Produce."""


class Scripted:
    """A coordinator to which every transaction is known; or one that keeps silent until `answer`."""

    def __init__(self, broker: SimBroker) -> None:
        broker.node.txn_verification.ask = self._ask
        self.asked: list[Question] = []
        self.is_silent = False
        self.refusals: dict[int, TailraceError] = {}
        """By partition."""
        self._waiting: list[Callable[[], None]] = []

    def _ask(self, question: Question, answer: Callable[[Mapping[TopicPartition, TailraceError]], None]) -> None:
        self.asked.append(question)

        def tell() -> None:
            refusals = self.refusals
            answer({each: refusals[each.partition] for each in question.partitions if each.partition in refusals})

        if self.is_silent:
            self._waiting.append(tell)
        else:
            tell()

    def answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell()


class Rig:
    def __init__(self, **settings: str) -> None:
        self.broker = SimBroker(**settings).start()
        self.client = self.broker.client()
        self.client.create_topic("orders", 2)
        self.coordinator = Scripted(self.broker)

    def post(
        self, *sets: tuple[int, bytes], version: int = CONFIRMS, client: SimClient | None = None, **fields: Any
    ) -> int:
        return (client or self.client).post(produce(*sets, **fields), version)

    def ask(self, *sets: tuple[int, bytes], version: int = CONFIRMS, **fields: Any) -> list[tuple[int, int]]:
        """Error code and first offset for each."""
        return answer_of(self.client.ask(produce(*sets, **fields), version))

    def read(self) -> list[bytes]:
        """Values of partition 0, whatever becomes of their transactions."""
        return [bytes(each.value or b"") for each in application_records(self.client.fetch("orders", 0).records)]

    def end(self, partition: int = 0, *, epoch: int = 0, transaction_version: int = 0) -> None:
        here = self.broker.node.replicas.partition("orders", partition)
        data = marker(PRODUCER, commit=True, epoch=epoch)
        (result,) = here.append([data], -1, Origin.COORDINATOR, transaction_version=transaction_version)
        assert result.error is None


def produce(*sets: tuple[int, bytes], transactional_id: str | None = "mine", acks: int = -1) -> ProduceRequest:
    parts = [PartitionProduceData(index=index, records=bytes(records)) for index, records in sets]
    topic = TopicProduceData(name="orders", partition_data=parts)
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[topic])


def answer_of(response: Any) -> list[tuple[int, int]]:
    return [(part.error_code, part.base_offset) for part in response.responses[0].partition_responses]


def first(sequence: int = 0, *, epoch: int = 0, producer: int = PRODUCER, **fields: Any) -> bytes:
    return bytes(in_transaction(producer, sequence, epoch=epoch, **fields))


def offsets(rig: Rig, partition: int = 0) -> int:
    log = rig.broker.node.replicas.partition("orders", partition).log
    assert log is not None
    return log.log_end_offset


@pytest.mark.spec("CO-09")
@pytest.mark.parametrize(("version", "adds"), [(9, False), (11, False), (12, True)])
def test_the_coordinator_is_asked_before_the_first_batch_and_not_again(version: int, adds: bool) -> None:
    rig = Rig()
    assert rig.ask((0, first(epoch=3)), version=version) == [(0, 0)]
    assert rig.ask((0, first(1, epoch=3)), version=version) == [(0, 1)]
    assert rig.ask((0, first(1, epoch=3)), version=version) == [(0, 1)]  # again
    (question,) = rig.coordinator.asked
    assert question.producer == ("mine", PRODUCER, 3)
    assert (question.partitions, question.adds) == ((TopicPartition("orders", 0),), adds)
    rig.end(epoch=4, transaction_version=2)
    assert rig.ask((0, first(epoch=4)), version=version) == [(0, 3)]
    assert len(rig.coordinator.asked) == 2


@pytest.mark.parametrize(
    ("error", "of_9", "of_11", "of_12"),
    [
        (TransactionAbortableError("x"), 48, 120, 120),
        (ProducerFencedError("x"), 47, 47, 47),
        (InvalidTxnStateError("x"), 48, 48, 48),
        (InvalidProducerIdMappingError("x"), 49, 49, 49),
        (CoordinatorLoadInProgressError("x"), 19, 19, 19),
        (CoordinatorNotAvailableError("x"), 19, 19, 19),
        (NotCoordinatorError("x"), 19, 19, 19),
        (ConcurrentTransactionsError("x"), 19, 19, 51),
    ],
)
@pytest.mark.spec("CO-09")
def test_what_the_client_hears_when_the_coordinator_refuses(
    error: TailraceError, of_9: int, of_11: int, of_12: int
) -> None:
    rig = Rig(add_partitions_to_txn_retry_backoff_max_ms="0")
    rig.coordinator.refusals = {0: error}
    codes = [rig.ask((0, first()), version=version) for version in (9, 11, 12)]
    assert codes == [[(of_9, -1)], [(of_11, -1)], [(of_12, -1)]]
    assert offsets(rig) == 0
    rig.coordinator.refusals = {}
    assert rig.ask((0, first())) == [(0, 0)]


def test_one_partition_may_be_refused_and_the_other_taken() -> None:
    rig = Rig()
    rig.coordinator.refusals = {0: TransactionAbortableError("x")}
    assert rig.ask((0, first()), (1, first())) == [(48, -1), (0, 0)]
    failures, times = rig.broker.node.txn_verification.read_metrics()
    assert (failures.name, getattr(failures, "value", None)) == ("VerificationFailureRate", 1)
    assert (times.name, sum(getattr(times, "counts", ()))) == ("VerificationTimeMs", 1)


def test_only_partitions_without_the_transaction_are_asked_for() -> None:
    rig = Rig()
    rig.ask((0, first()))
    assert rig.ask((0, first(1)), (1, first())) == [(0, 1), (0, 0)]
    assert rig.coordinator.asked[1].partitions == (TopicPartition("orders", 1),)


class TestACoordinatorThatTakesItsTime:
    @pytest.mark.spec("CO-09")
    def test_nothing_overtakes_on_the_connection(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        sent = [
            rig.post((0, bytes(batch(1))), transactional_id=None),
            rig.post((0, first())),
            rig.post((0, first(1))),
            rig.post((1, bytes(batch(1))), transactional_id=None),
        ]
        rig.broker.run()
        assert list(rig.client.read()) == sent[:1]
        assert (offsets(rig), offsets(rig, 1)) == (1, 0)
        rig.coordinator.answer()
        rig.broker.run()
        assert list(rig.client.read()) == sent
        assert [answer_of(rig.client.answers[each]) for each in sent] == [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 0)]]

    def test_other_connections_go_on(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        held = rig.post((0, first()))
        other = rig.broker.client()
        assert other.produce("orders", bytes(batch(1))).base_offset == 0
        rig.coordinator.answer()
        assert answer_of(rig.client.read()[held]) == [(0, 1)]

    def test_the_records_are_kept_when_the_buffer_is_used_again(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        channel = rig.broker.node.open_channel(SimClient(rig.broker), BROKER.name, "10.0.0.1")
        frame = b"".join(bytes(part) for part in encode_request(produce((0, first(value_bytes=50))), 9, 1, "x"))
        buffer = bytearray(frame)
        assert channel.receive(memoryview(buffer), 0, len(buffer)) == len(buffer)
        buffer[:] = bytes(len(buffer))
        rig.coordinator.answer()
        assert rig.read() == [bytes([0]) * 50]
        assert offsets(rig) == 1

    def test_a_client_that_leaves_has_sent_what_it_has_sent(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        rig.post((0, first()))
        rig.client.leave()
        rig.coordinator.answer()
        assert offsets(rig) == 1

    def test_without_acknowledgements_the_next_request_is_taken_when_it_is_written(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        rig.post((0, first()), acks=0)
        second = rig.post((0, first(1)))
        assert offsets(rig) == 0
        rig.coordinator.answer()
        rig.broker.run()
        assert answer_of(rig.client.read()[second]) == [(0, 1)]

    @pytest.mark.parametrize("is_silent", [False, True])
    def test_without_acknowledgements_a_refusal_ends_the_connection(self, is_silent: bool) -> None:
        rig = Rig()
        rig.coordinator.is_silent = is_silent
        rig.coordinator.refusals = {0: InvalidTxnStateError("x")}
        rig.post((0, first()), acks=0)
        rig.coordinator.answer()
        assert rig.client.is_closed
        assert offsets(rig) == 0

    @pytest.mark.spec("CO-09")
    def test_an_answer_that_comes_after_the_end_of_the_transaction_opens_nothing(self) -> None:
        rig = Rig()
        rig.coordinator.is_silent = True
        sent = rig.post((0, first()))
        rig.end()
        rig.coordinator.answer()
        assert answer_of(rig.client.read()[sent]) == [(48, -1)]
        partition = rig.broker.node.replicas.partition("orders", 0)
        assert partition.log is not None
        assert not partition.log.producers.ongoing


class TestATransactionThatIsBeingEnded:
    def test_it_is_waited_for(self) -> None:
        rig = Rig()
        rig.coordinator.refusals = {0: ConcurrentTransactionsError("x")}
        sent = rig.post((0, first()), version=ADDS)
        rig.broker.pass_time(19)
        assert len(rig.coordinator.asked) == 1
        rig.coordinator.refusals = {}
        rig.broker.pass_time(1)
        assert len(rig.coordinator.asked) == 2
        assert answer_of(rig.client.read()[sent]) == [(0, 0)]

    def test_but_not_for_ever(self) -> None:
        rig = Rig()
        rig.coordinator.refusals = {0: ConcurrentTransactionsError("x")}
        sent = rig.post((0, first()), version=ADDS)
        for _ in range(5):
            assert sent not in rig.client.read()
            rig.broker.pass_time(20)
        assert answer_of(rig.client.read()[sent]) == [(51, -1)]
        assert len(rig.coordinator.asked) == 6


def test_batches_of_several_producers_in_one_request_are_refused() -> None:
    rig = Rig()
    assert rig.ask((0, first()), (1, first(producer=8))) == [(49, -1), (49, -1)]
    assert not rig.coordinator.asked
    assert (offsets(rig), offsets(rig, 1)) == (0, 0)


def test_a_fenced_producer_is_told_without_a_question() -> None:
    rig = Rig()
    rig.ask((0, first(epoch=2)))
    rig.end(epoch=3, transaction_version=2)
    assert rig.ask((0, first(1, epoch=2)), version=ADDS) == [(47, -1)]
    assert len(rig.coordinator.asked) == 1


def test_wrong_acks_are_told_after_the_verification() -> None:
    rig = Rig()
    assert rig.ask((0, first()), acks=7) == [(21, -1)]
    rig.coordinator.refusals = {0: TransactionAbortableError("x")}
    assert rig.ask((0, first()), acks=7) == [(48, -1)]


def test_what_is_no_transactional_batch_is_not_verified() -> None:
    rig = Rig()
    assert rig.ask((0, bytes(batch(1)))) == [(0, 0)]
    assert rig.ask((0, bytes(produced_by(PRODUCER, 0)))) == [(0, 1)]
    assert rig.ask((0, b"no batch at all" * 10)) == [(2, -1)]
    assert rig.ask((5, first())) == [(3, -1)]
    assert not rig.coordinator.asked


def test_verification_can_be_switched_off_for_clients_that_add_partitions_themselves() -> None:
    rig = Rig(transaction_partition_verification_enable="false")
    assert rig.ask((0, first())) == [(0, 0)]
    assert not rig.coordinator.asked
    assert rig.ask((1, first()), version=ADDS) == [(0, 0)]
    assert len(rig.coordinator.asked) == 1


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_answers_a_connection_is_served_in_its_own(seed: int) -> None:
    dice = random.Random(seed)
    rig = Rig()
    clients = [rig.broker.client() for _ in range(3)]
    sent: list[tuple[SimClient, int, int]] = []
    for number in range(60):
        rig.coordinator.is_silent = dice.random() < 0.5
        partition = dice.randrange(2)
        records = first(producer=number) if dice.random() < 0.6 else bytes(batch(1))
        client = dice.choice(clients)
        transactional_id = f"of-{number}" if dice.random() < 0.9 else None
        sent.append(
            (client, partition, rig.post((partition, records), client=client, transactional_id=transactional_id))
        )
        if dice.random() < 0.3:
            rig.coordinator.answer()
        if dice.random() < 0.3:
            rig.broker.run()
    rig.coordinator.is_silent = False
    for _ in range(60):
        rig.coordinator.answer()
        rig.broker.run()
    for client in clients:
        own = [(partition, number) for each, partition, number in sent if each is client]
        assert list(client.read()) == [number for _, number in own]
        for partition in (0, 1):
            answers = [answer_of(client.answers[number])[0] for each, number in own if each == partition]
            taken = [offset for code, offset in answers if not code]
            assert taken == sorted(set(taken))
