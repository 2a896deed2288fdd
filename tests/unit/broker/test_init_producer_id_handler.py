from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import ask, begin, versions_of
from support.brokers.stub import StubNode, broker
from tailrace.broker.producer_ids import MAX_WAIT_MS, MAX_WAITING, RETRY_BACKOFF_MS
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest

LOAD_IN_PROGRESS, INVALID_REQUEST, INVALID_TIMEOUT = 14, 42, 50
STALE_BROKER_EPOCH = 77


def new_producer(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(**({"transactional_id": None, "transaction_timeout_ms": 1000} | fields))


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.learn(broker(1))
    return node


def give(node: StubNode, first: int, length: int = 10) -> None:
    node.controller.answer(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=length))


def pass_time(node: StubNode, ms: int) -> None:
    node.world.jobs.tick(node.world.clock.now_ms() + ms)


def take(node: StubNode, count: int) -> list[int]:
    return [ask(node, new_producer()).producer_id for _ in range(count)]


@pytest.mark.spec("CO-07")
@pytest.mark.parametrize("version", versions_of(InitProducerIdRequest))
def test_every_version_gives_a_new_id_with_epoch_0(node: StubNode, version: int) -> None:
    answers = begin(node, new_producer(), version)
    assert answers == []
    give(node, 5000)
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [(0, 5000, 0)]
    assert node.controller.sent == [(AllocateProducerIdsRequest(broker_id=1, broker_epoch=101), 0)]


def test_who_comes_meanwhile_waits_for_the_same_block(node: StubNode) -> None:
    first, second = begin(node, new_producer(), 5), begin(node, new_producer(), 5)
    give(node, 0)
    assert (first[0].producer_id, second[0].producer_id) == (0, 1)
    assert len(node.controller.sent) == 1


@pytest.mark.spec("CO-07")
def test_the_next_block_is_there_before_this_one_is_used_up(node: StubNode) -> None:
    begin(node, new_producer(), 5)
    give(node, 100)
    assert take(node, 7) == list(range(101, 108))
    assert len(node.controller.sent) == 1
    assert take(node, 1) == [108]
    assert len(node.controller.sent) == 2
    give(node, 300)
    assert take(node, 3) == [109, 300, 301]


def test_more_wait_than_a_block_holds(node: StubNode) -> None:
    waiting = [begin(node, new_producer(), 5) for _ in range(3)]
    give(node, 0, length=2)
    assert [len(each) for each in waiting] == [1, 1, 0]
    give(node, 50, length=2)
    assert [each[0].producer_id for each in waiting] == [0, 1, 50]


@pytest.mark.parametrize(
    "refusal",
    [AllocateProducerIdsResponse(error_code=STALE_BROKER_EPOCH), AllocateProducerIdsResponse(producer_id_len=0)],
)
def test_without_a_block_the_client_shall_try_again(node: StubNode, refusal: AllocateProducerIdsResponse) -> None:
    answers = begin(node, new_producer(), 5)
    node.controller.answer(refusal)
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [(LOAD_IN_PROGRESS, -1, -1)]
    assert ask(node, new_producer()).error_code == LOAD_IN_PROGRESS
    assert len(node.controller.sent) == 1
    pass_time(node, RETRY_BACKOFF_MS)
    again = begin(node, new_producer(), 5)
    give(node, 7)
    assert again[0].producer_id == 7


def test_a_client_does_not_wait_as_long_as_the_link_to_the_controller(node: StubNode) -> None:
    first = begin(node, new_producer(), 5)
    pass_time(node, MAX_WAIT_MS - 1)
    second = begin(node, new_producer(), 5)
    assert first == second == []
    pass_time(node, 1)
    assert [each[0].error_code for each in (first, second)] == [LOAD_IN_PROGRESS] * 2
    third = begin(node, new_producer(), 5)
    assert len(node.controller.sent) == 1
    give(node, 40)
    assert third[0].producer_id == 40
    pass_time(node, MAX_WAIT_MS)
    assert take(node, 1) == [41]


def test_a_wait_that_is_over_does_not_end_a_later_one(node: StubNode) -> None:
    begin(node, new_producer(), 5)
    give(node, 0, length=1)
    give(node, 1, length=1)
    assert take(node, 1) == [1]
    pass_time(node, MAX_WAIT_MS - 1)
    later = begin(node, new_producer(), 5)
    pass_time(node, 1)
    assert later == []


def test_the_number_of_clients_that_wait_is_bounded(node: StubNode) -> None:
    waiting = [begin(node, new_producer(), 5) for _ in range(MAX_WAITING)]
    assert ask(node, new_producer()).error_code == LOAD_IN_PROGRESS
    give(node, 0, length=MAX_WAITING)
    assert [each[0].producer_id for each in waiting] == list(range(MAX_WAITING))


def test_an_id_that_the_producer_had_makes_no_difference(node: StubNode) -> None:
    answers = begin(node, new_producer(producer_id=5, producer_epoch=3), 5)
    give(node, 0)
    assert (answers[0].producer_id, answers[0].producer_epoch) == (0, 0)


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 3}, {"transactional_id": ""}])
def test_half_of_an_identity(node: StubNode, fields: dict[str, Any]) -> None:
    answer = ask(node, new_producer(**fields))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_transaction_timeout_that_is_not_allowed(node: StubNode, timeout_ms: int) -> None:
    assert (
        ask(node, new_producer(transactional_id="t", transaction_timeout_ms=timeout_ms)).error_code == INVALID_TIMEOUT
    )
