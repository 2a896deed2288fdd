"""Brokers and a controller in other processes, over the simulated network: registration, heartbeats, forwarding."""

from __future__ import annotations

import random
from itertools import count

import pytest

from suite.seeds import parametrized_seeds
from support.universe.remote_brokers import BrokerSide, RemoteBrokers
from tailrace.broker.controller_channel import SUPERSEDED_MS
from tailrace.broker.lifecycle import Stage
from tailrace.model.errors import RegistrationTimeoutError
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest

TOPIC_ALREADY_EXISTS, TIMED_OUT = 36, 7
SESSION_MS = 9_000


def registered(seed: int = 1, **settings: str) -> tuple[RemoteBrokers, BrokerSide]:
    cluster = RemoteBrokers(seed, controllers=2, **settings)
    cluster.elect()
    cluster.add("broker-1", 11)
    reach(cluster, "broker-1", 2_000)
    return cluster, cluster.side("broker-1")


def reach(cluster: RemoteBrokers, name: str, within_ms: int) -> None:
    cluster.universe.run_until_reached(lambda: cluster.is_registered(name), within_ms, f"{name} is unfenced")


def fenced(cluster: RemoteBrokers, broker_id: int) -> bool:
    return cluster.controllers.image.brokers[broker_id].is_fenced


@pytest.mark.spec("RP-18")
def test_a_broker_registers_is_unfenced_and_sends_heartbeats() -> None:
    cluster, side = registered()
    registration = cluster.controllers.image.brokers[11]
    cluster.universe.run_for(60_000)
    assert cluster.controllers.image.brokers[11] == registration
    assert (side.is_unfenced, side.is_registered) == (True, True)


def test_a_client_of_the_broker_creates_a_topic() -> None:
    cluster, side = registered()
    side.create_topic("t")
    side.create_topic("t")
    side.create_topic("u")
    cluster.universe.run_for(1_000)
    assert cluster.created == {"t": TOPIC_ALREADY_EXISTS, "u": 0}
    assert {"t", "u"} <= cluster.controllers.image.topics.keys()


def test_producer_ids_come_from_the_controller() -> None:
    cluster, side = registered()
    other = cluster.add("broker-2", 12)
    reach(cluster, "broker-2", 2_000)
    for _ in range(5):
        side.take_producer_id()
        cluster.side(other.name).take_producer_id()
    cluster.universe.run_for(1_000)
    assert len(set(cluster.producer_ids)) == 10


def test_a_broker_waits_for_its_first_controller() -> None:
    cluster = RemoteBrokers(1)
    cluster.add("broker-1", 11)
    cluster.universe.run_for(30_000)
    cluster.elect()
    reach(cluster, "broker-1", SESSION_MS + 1_000)
    assert cluster.errors == []


def test_a_broker_that_finds_no_controller_ends() -> None:
    cluster = RemoteBrokers(1)
    machine = cluster.add("broker-1", 11)
    cluster.universe.run_for(60_100)
    assert [type(error) for error in cluster.errors] == [RegistrationTimeoutError]
    assert machine.process is None


@pytest.mark.spec("RP-18", "RP-41")
def test_an_id_that_is_taken_is_refused_until_its_session_ends() -> None:
    cluster, _ = registered()
    epoch = cluster.controllers.image.brokers[11].epoch
    cluster.add("impostor", 11)
    cluster.universe.run_for(30_000)
    assert cluster.controllers.image.brokers[11].epoch == epoch
    cluster.machines["broker-1"].kill()
    reach(cluster, "impostor", 2 * SESSION_MS + 1_000)
    registration = cluster.controllers.image.brokers[11]
    assert registration.epoch > epoch
    assert [endpoint.host for endpoint in registration.endpoints] == ["impostor"]


def test_a_second_process_with_an_id_ends_with_the_reason() -> None:
    cluster, side = registered(initial_broker_registration_timeout_ms="10000")
    cluster.add("impostor", 11)
    cluster.universe.run_for(20_000)
    (error,) = cluster.errors
    assert "DUPLICATE_BROKER_REGISTRATION" in str(error)
    assert side.is_registered


def test_a_killed_broker_comes_back_when_its_session_has_ended() -> None:
    cluster, _ = registered()
    machine = cluster.machines["broker-1"]
    machine.kill()
    machine.start()
    reach(cluster, "broker-1", 2 * SESSION_MS + 1_000)
    assert cluster.errors == []


@pytest.mark.spec("RP-18")
def test_a_broker_is_fenced_while_it_is_cut_off_and_unfenced_afterwards() -> None:
    cluster, side = registered()
    epoch = side.lifecycle.broker_epoch
    for link in cluster.universe.network.between(["broker-1"], ["controller-0"]):
        link.is_cut = True
    cluster.universe.run_until_reached(lambda: fenced(cluster, 11), SESSION_MS + 1_000, "the broker is fenced")
    cluster.universe.run_for(20_000)
    cluster.universe.network.heal()
    reach(cluster, "broker-1", 2 * SESSION_MS + 1_000)
    assert side.lifecycle.broker_epoch == epoch


def test_a_broker_that_was_unregistered_registers_again() -> None:
    cluster, side = registered()
    epoch = side.lifecycle.broker_epoch
    side.link.send(UnregisterBrokerRequest(broker_id=11), 0, lambda response: None)
    cluster.universe.run_until_reached(lambda: side.lifecycle.broker_epoch != epoch, 5_000, "a new registration")
    reach(cluster, "broker-1", 5_000)


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_requests_survive_a_restart_of_the_controller(is_power_lost: bool) -> None:
    cluster, side = registered()
    epoch, machine = side.lifecycle.broker_epoch, cluster.controllers.machines[0]
    side.create_topic("before")
    cluster.universe.run_for(1)
    if is_power_lost:
        machine.lose_power()
    else:
        machine.kill()
    side.create_topic("after")
    cluster.universe.run_for(4_000)
    assert side.waits > 0
    machine.power_up()
    cluster.universe.run_until_reached(lambda: side.waits == 0, 40_000, "all requests end")
    assert cluster.created["before"] in (0, TOPIC_ALREADY_EXISTS)
    assert cluster.created["after"] == 0
    reach(cluster, "broker-1", 2 * SESSION_MS)
    assert side.lifecycle.broker_epoch == epoch


def test_a_controller_that_is_not_active_is_left_for_the_one_that_is() -> None:
    cluster, side = registered()
    cluster.elect(1)
    side.create_topic("t")
    cluster.universe.run_for(3_000)
    assert side.waits == 1
    cluster.elect(0)
    cluster.universe.run_for(100)
    assert cluster.created == {"t": 0}
    cluster.universe.run_for(20_000)
    assert side.is_registered


def test_a_paused_controller_does_not_hold_up_its_successor() -> None:
    cluster, side = registered()
    cluster.controllers.machines[1].pause()
    cluster.elect(1)
    side.create_topic("t")
    cluster.universe.run_for(3_000)
    cluster.elect(0)
    cluster.universe.run_for(SUPERSEDED_MS + 100)
    assert cluster.created == {"t": 0}
    assert side.is_registered


def test_heartbeats_do_not_wait_for_forwarded_requests() -> None:
    cluster, side = registered()
    for link in cluster.universe.network.between(["broker-1"], ["controller-0"]):
        link.rules.min_delay_us = 400_000
    for number in range(50):
        side.create_topic(f"t{number}")
    for _ in range(300):
        cluster.universe.run_for(100)
        assert side.is_registered
    assert side.waits > 0
    cluster.universe.run_for(20_000)
    assert (side.waits, set(cluster.created.values())) == (0, {0})


def test_forwarded_requests_end_without_a_controller() -> None:
    cluster, side = registered()
    cluster.controllers.machines[0].kill()
    for number in range(20):
        side.create_topic(f"t{number}")
        cluster.universe.run_for(100)
    cluster.universe.run_for(60_000)
    assert side.waits == 0
    assert set(cluster.created.values()) == {TIMED_OUT}


def test_controlled_shutdown_with_a_controller_and_without() -> None:
    cluster, side = registered()
    gone: list[str] = []
    side.lifecycle.shutdown(lambda: gone.append("first"))
    cluster.universe.run_for(1_000)
    assert gone == ["first"]
    assert fenced(cluster, 11)
    cluster.add("broker-2", 12)
    reach(cluster, "broker-2", 2_000)
    cluster.controllers.machines[0].kill()
    cluster.side("broker-2").lifecycle.shutdown(lambda: gone.append("second"))
    cluster.universe.run_for(SESSION_MS - 2_500)
    assert gone == ["first"]
    cluster.universe.run_for(3_000)
    assert gone == ["first", "second"]
    assert cluster.side("broker-2").lifecycle.stage is Stage.GONE


@parametrized_seeds(6, 2)
def test_brokers_recover_from_any_mixture_of_faults(seed: int) -> None:
    rng = random.Random(seed)
    cluster = RemoteBrokers(seed, controllers=2, initial_broker_registration_timeout_ms="100000000")
    names = ["broker-1", "broker-2"]
    cluster.elect()
    for node_id, name in enumerate(names, 11):
        cluster.add(name, node_id)
        reach(cluster, name, 2_000)
    numbers = count()
    for _ in range(40):
        _strike(cluster, rng, names)
        for name in names:
            if cluster.machines[name].is_running:
                cluster.side(name).create_topic(f"t{next(numbers)}")
                cluster.side(name).take_producer_id()
        cluster.universe.run_for(rng.choice([10, 300, 2_000, 8_000]))
    _heal(cluster, names)
    for name in names:
        reach(cluster, name, 60_000)
    cluster.universe.run_for(60_000)
    assert [cluster.side(name).waits for name in names] == [0, 0]
    assert cluster.errors == []
    assert len(set(cluster.producer_ids)) == len(cluster.producer_ids)
    acknowledged = {name for name, code in cluster.created.items() if code in (0, TOPIC_ALREADY_EXISTS)}
    assert acknowledged <= cluster.controllers.image.topics.keys()
    for name in names:
        cluster.side(name).create_topic(f"last-{name}")
    cluster.universe.run_for(1_000)
    assert {cluster.created[f"last-{name}"] for name in names} == {0}


def _strike(cluster: RemoteBrokers, rng: random.Random, names: list[str]) -> None:
    controller, network = cluster.controllers.machines[0], cluster.universe.network
    fault = rng.randrange(9)
    if fault == 0:
        controller.kill()
    elif fault == 1:
        controller.lose_power()
    elif fault == 2:
        controller.pause()
    elif fault == 3:
        cluster.elect(1)
    elif fault == 4:
        cluster.quorum.lose()
    elif fault == 5:
        for link in network.between([rng.choice(names)], ["controller-0"]):
            link.is_cut = rng.random() < 0.7
    elif fault == 6:
        for link in network.between([rng.choice(names)], ["controller-0"]):
            link.rules.loss_probability = 0.2
            link.rules.mean_extra_delay_us = 300_000
    elif fault == 7:
        cluster.machines[rng.choice(names)].kill()
    else:
        _heal(cluster, names)


def _heal(cluster: RemoteBrokers, names: list[str]) -> None:
    cluster.universe.network.heal()
    for machine in (cluster.controllers.machines[0], *(cluster.machines[name] for name in names)):
        machine.resume()
        machine.power_up()
    cluster.elect()
