"""A broker that is told to end, while clients ask and while it has hardly begun."""

from __future__ import annotations

import random

import pytest

from support.brokers.simulated import SimBroker, fetch_request, produce_request
from support.logs.builders import batch
from tailrace.model.errors import NotLeaderOrFollowerError
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.sim.faults import Survival


@pytest.mark.parametrize("is_controlled", ["true", "false"])
def test_who_waits_and_who_comes_later_is_told_to_go_elsewhere(is_controlled: str) -> None:
    """The logs are closed on other threads: nobody may touch them meanwhile."""
    broker = SimBroker(controlled_shutdown_enable=is_controlled).start()
    client, waiting = broker.client(), broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(1, 100))
    asked = waiting.post(fetch_request("orders", 0, max_wait_ms=60_000, min_bytes=1 << 20), 12)
    broker.stop()
    assert waiting.read()[asked].responses[0].partitions[0].error_code == NotLeaderOrFollowerError.code
    assert len(broker.node.purgatory) == 0
    assert client.fetch("orders", 0).error_code == NotLeaderOrFollowerError.code
    assert client.produce("orders", batch(1, 100)).error_code == NotLeaderOrFollowerError.code


@pytest.mark.parametrize("is_controlled", ["true", "false"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_during_the_end_is_there_after_it(seed: int, is_controlled: str) -> None:
    dice = random.Random(seed)
    broker = SimBroker(seed, controlled_shutdown_enable=is_controlled).start()
    client = broker.client()
    client.create_topic("orders")
    acknowledged, ended = 0, []
    broker.node.shutdown(lambda: ended.append(True))
    for _ in range(300):
        if ended:
            break
        asked = client.post(produce_request("orders", batch(1, 100), acks=1), 9)
        answer = client.read().pop(asked).responses[0].partition_responses[0]
        acknowledged += answer.error_code == 0
        assert answer.error_code in (0, NotLeaderOrFollowerError.code)
        if broker.jobs.pending:
            broker.jobs.run_one(dice)
        broker.universe.run_for(dice.choice((0, 10)))
        broker.node.purgatory.expire_due(broker.clock.monotonic_ms())
    assert ended
    broker.lose_power(Survival.NOTHING)
    assert broker.start().client().fetch("orders", 0).high_watermark == acknowledged


def test_no_client_hears_of_a_cluster_without_brokers() -> None:
    """One that did would have nobody left to connect to when the broker is back. It is hung up on before."""
    broker = SimBroker().start()
    client, seen = broker.client(), []

    def hang_up() -> None:
        seen.append("hung up")

    broker.node.on_left.add(hang_up)
    ended: list[bool] = []
    broker.node.shutdown(lambda: ended.append(True))
    while not ended:
        if not seen:
            response = client.ask(MetadataRequest(topics=[]), 12)
            if not seen:
                assert [each.node_id for each in response.brokers] == [1]
        broker.run()
        broker.pass_time(10)
    assert seen == ["hung up"]


@pytest.mark.parametrize("is_new", [True, False])
def test_it_ends_at_any_moment_of_its_start(is_new: bool, caplog: pytest.LogCaptureFixture) -> None:
    for steps in range(45):
        broker = SimBroker(steps)
        if not is_new:
            client = broker.start().client()
            client.create_topic("orders", 3)
            client.produce("orders", batch(1, 100))
            broker.kill()
        dice, ended = random.Random(steps), []
        broker.begin()
        for _ in range(steps):
            if broker.jobs.pending:
                broker.jobs.run_one(dice)
            else:
                broker.universe.run_for(10)
        broker.node.shutdown(lambda ended=ended: ended.append(True))  # type: ignore[misc]
        for _ in range(40):
            broker.run()
            broker.pass_time(50)
        assert ended == [True]
        assert broker.failure is None
        assert "cannot register" not in caplog.text, "an ended broker does not ask to be let in"
        broker.start()
        assert is_new or broker.client().fetch("orders", 0).high_watermark == 1
