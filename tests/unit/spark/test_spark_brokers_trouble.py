"""Pieces read from a broker that says what it should not, or says it at the wrong time."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from support.brokers.scripted import HANG_UP, NO_ANSWER, Log, ScriptedBroker
from support.spark.pieces import OFFSET_AND_VALUE, Losses, options_for, rows_of
from support.spark.scripted_pieces import (
    NOT_LEADER_OR_FOLLOWER,
    TOPIC_AUTHORIZATION_FAILED,
    batch_of,
    first_times,
    offset_of,
    one_at_a_time,
    piece,
    policy,
    quick,
    values,
)
from tailrace.client.deadline import Deadline
from tailrace.client.errors import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_ID,
    name_of,
)
from tailrace.client.fetcher import AbortedTransaction
from tailrace.client.offsets import READ_COMMITTED
from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.client_settings import ClientSettings
from tailrace.spark.source.brokers.reader import read_brokers
from tailrace.spark.source.decoding import Decoder

pytestmark = pytest.mark.usefixtures("swift")


# Exactly the piece


@pytest.mark.parametrize(("start", "end"), [(0, 100), (3, 97), (15, 16), (19, 21), (40, 50)])
def test_just_the_offsets_of_the_piece(broker: ScriptedBroker, log: Log, start: int, end: int) -> None:
    assert rows_of(quick(broker), piece(start, end)) == values((start, end))


def test_an_empty_piece_asks_nobody(broker: ScriptedBroker) -> None:
    assert rows_of(quick(broker), piece(5, 5)) == []
    assert not broker.seen


def test_the_next_fetch_is_under_way_while_rows_are_decoded(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)

    class Patient(Decoder):
        def decode(self, buffer: Buffer, aborted: Sequence[AbortedTransaction] = ()) -> Iterator[Any]:
            following = self.next_offset // 10 * 10 + 10
            deadline = Deadline(10)
            while following < 100 and following not in [offset_of(each) for each in broker.requests(FetchRequest)]:
                deadline.check(f"waiting for a fetch from offset {following}")
            return super().decode(buffer, aborted)

    wanted = piece(0, 100)
    assert list(read_brokers(quick(broker), wanted, Patient(OFFSET_AND_VALUE, wanted), Losses())) == []


def test_half_a_batch_at_the_end_of_an_answer_is_fetched_again(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    assert rows_of(quick(broker), piece(3, 97)) == values((3, 97))


def test_less_is_asked_for_when_less_is_left(broker: ScriptedBroker, log: Log) -> None:
    log.batches.clear()
    log.end = 0
    for first in range(0, 150_000, 1000):
        log.append(batch_of(first, 1000))

    def answer(request: FetchRequest) -> FetchResponse:
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        data.records = bytes(data.records or b"")[: request.topics[0].partitions[0].partition_max_bytes]
        return response

    broker.answers[FetchRequest] = answer
    size = sum(map(len, log.batches))
    assert len(rows_of(quick(broker), piece(0, 150_000))) == 150_000
    asked = [request.topics[0].partitions[0].partition_max_bytes for request in broker.requests(FetchRequest)]
    assert sum(asked) < 1.2 * size


def test_a_batch_larger_than_the_fetch_is_fetched_with_more(broker: ScriptedBroker, log: Log) -> None:
    log.batches.clear()
    log.end = 0
    log.append(batch_of(0, 20_000))

    def answer(request: FetchRequest) -> FetchResponse:
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        data.records = bytes(data.records or b"")[: request.topics[0].partitions[0].partition_max_bytes]
        return response

    broker.answers[FetchRequest] = answer
    assert len(rows_of(quick(broker, fetch_bytes=1000), piece(0, 20_000))) == 20_000


# What passes


@pytest.mark.parametrize("code", [NOT_LEADER_OR_FOLLOWER, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_ID, 74, 75])
def test_errors_that_pass_are_waited_out(broker: ScriptedBroker, log: Log, code: int) -> None:
    first_times(broker, 2, lambda request: broker.fetch(request, {0: code}))
    assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))


def test_connections_that_break_are_made_again(broker: ScriptedBroker, log: Log) -> None:
    numbers = itertools.count()
    one_at_a_time(broker, log)
    usual = broker.answers[FetchRequest]
    broker.answers[FetchRequest] = lambda request: HANG_UP if next(numbers) % 3 == 1 else usual(request)
    assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))
    assert broker.connections > 2


def test_a_broker_that_throttles_says_nothing_of_the_partition(broker: ScriptedBroker, log: Log) -> None:
    first_times(broker, 1, lambda _: FetchResponse(throttle_time_ms=10))
    assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))


def test_a_broker_that_does_not_answer_is_asked_again(broker: ScriptedBroker, log: Log) -> None:
    first_times(broker, 1, lambda _: NO_ANSWER)
    options = quick(broker, client=ClientSettings(request_timeout_ms=100, fetch_max_wait_ms=0))
    assert rows_of(options, piece(0, 100)) == values((0, 100))
    assert len(broker.requests(FetchRequest)) == 2


def test_trouble_that_lasts_is_told_with_broker_partition_and_offset(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    usual, numbers = broker.answers[FetchRequest], itertools.count()
    broker.answers[FetchRequest] = lambda request: (
        usual(request) if next(numbers) < 2 else broker.fetch(request, {0: NOT_LEADER_OR_FOLLOWER})
    )
    with pytest.raises(PipelineError) as caught:
        rows_of(quick(broker, poll_timeout_ms=300), piece(0, 100))
    text = str(caught.value)
    assert "t-0 cannot be read from offset 20 on" in text
    assert f"broker 1 at {broker.address}" in text
    assert "NOT_LEADER_OR_FOLLOWER" in text
    assert "0.3 s" in text


def test_what_cannot_pass_is_not_waited_for(broker: ScriptedBroker, log: Log) -> None:
    broker.answers[FetchRequest] = lambda request: broker.fetch(request, {0: TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(PipelineError, match=f"offset 7 .*{name_of(TOPIC_AUTHORIZATION_FAILED)}"):
        rows_of(quick(broker), piece(7, 100))
    assert len(broker.requests(FetchRequest)) == 1


def test_nobody_there_is_told_after_the_poll_timeout() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*reserved.getsockname())
        options = options_for(address, poll_timeout_ms=200, request_timeout_ms=100)
        with pytest.raises(PipelineError, match=f"t-0 cannot be read from offset 3 on, from the brokers at {address}"):
            rows_of(options, piece(3, 100))


def test_a_high_watermark_that_has_to_catch_up_is_waited_for(broker: ScriptedBroker, log: Log) -> None:
    def behind(request: FetchRequest) -> FetchResponse:
        """The log goes to 100, but may be read up to 40 only."""
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        data.high_watermark = data.last_stable_offset = 40
        data.records = b"".join(each for each in log.batches[:4] if offset_of(request) < 40)
        return response

    first_times(broker, 4, behind)
    loss = Losses()
    assert rows_of(quick(broker), piece(20, 60), loss) == values((20, 60))
    assert loss.told == []


def test_an_open_transaction_in_the_piece_is_named_when_it_does_not_end(broker: ScriptedBroker, log: Log) -> None:
    def held(request: FetchRequest) -> FetchResponse:
        response = broker.fetch(request)
        data = response.responses[0].partitions[0]
        data.last_stable_offset = 30
        data.records = b"".join(each for each in log.batches[:3] if offset_of(request) < 30)
        return response

    broker.answers[FetchRequest] = held
    options = quick(broker, poll_timeout_ms=200, isolation=READ_COMMITTED)
    with pytest.raises(PipelineError, match=r"offset 30 on.*a transaction is open since offset 30"):
        rows_of(options, piece(0, 60))


# Damage


def test_damaged_batches_are_named_or_skipped(broker: ScriptedBroker, log: Log) -> None:
    damaged = bytearray(log.batches[4])
    damaged[-3] ^= 1
    log.batches[4] = bytes(damaged)
    policy(broker, "delete")
    wanted, told = piece(0, 100), []
    with pytest.raises(CorruptMessageError, match=r"t-0.*40"):
        rows_of(quick(broker), wanted)
    decoder = Decoder(OFFSET_AND_VALUE, wanted, skips_corrupt=True, on_corrupt=lambda *what: told.append(what))
    loss = Losses()
    found = [*read_brokers(quick(broker), wanted, decoder, loss), *decoder.rest()]
    assert [offset for batch in found for offset in batch.to_pydict()["offset"]] == [*range(40), *range(50, 100)]
    assert [(start, end) for start, end, _ in told] == [(40, 50)]
    assert loss.told == []


def test_what_is_missing_behind_a_damaged_batch_is_damaged_too(broker: ScriptedBroker, log: Log) -> None:
    """Its magic is wrong, and an old message says nothing of the others; a gap would be normal here."""
    damaged = bytearray(log.batches[4])
    damaged[16] = 0
    log.batches[4] = bytes(damaged)
    policy(broker, "compact")
    broker.answers[FetchRequest] = lambda request: _answer_with(broker, request, b"".join(log.batches))
    wanted, told = piece(0, 100), []
    decoder = Decoder(OFFSET_AND_VALUE, wanted, skips_corrupt=True, on_corrupt=lambda *what: told.append(what))
    found = [*read_brokers(quick(broker), wanted, decoder, Losses()), *decoder.rest()]
    assert [offset for batch in found for offset in batch.to_pydict()["offset"]] == [*range(40), *range(50, 100)]
    assert [offset for start, end, _ in told for offset in range(start, end)] == list(range(40, 50))


def _answer_with(broker: ScriptedBroker, request: FetchRequest, records: bytes) -> FetchResponse:
    response = broker.fetch(request)
    response.responses[0].partitions[0].records = records
    return response
