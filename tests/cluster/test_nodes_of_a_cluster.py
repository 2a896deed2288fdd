"""Three controllers and two brokers on one simulated network, as they are in processes."""

from __future__ import annotations

from functools import partial

import pytest

from support.universe.node_cluster import BROKERS, CONTROLLERS, PORT, Cluster, formatted, name_of, settings_of
from tailrace.config.server import ServerConfig
from tailrace.protocol.record_frame import encode_metadata_record
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.process import Process
from tailrace.sim.universe import Universe


@pytest.fixture(params=range(3))
def cluster(request: pytest.FixtureRequest) -> Cluster:
    cluster = Cluster(request.param)
    cluster.until(cluster.are_brokers_ready, "brokers are registered and unfenced")
    return cluster


def test_brokers_register_and_forward_what_controllers_decide(cluster: Cluster) -> None:
    assert cluster.create_topic("orders", through=11) == 0
    assert cluster.create_topic("orders", through=12) == 36  # TOPIC_ALREADY_EXISTS

    def is_everywhere() -> bool:
        return all("orders" in cluster.node(each).image.topics for each in (*CONTROLLERS, *BROKERS))

    cluster.until(is_everywhere, "all nodes know the topic")
    for index, broker in enumerate(BROKERS):
        partition = partial(cluster.node(broker).replicas.partition, "orders", index)
        cluster.until(lambda partition=partition: partition().is_leader, "the replica leads")
    assert {*cluster.node(1).image.brokers} == set(BROKERS)
    cluster.until(lambda: {*cluster.node(12).image.controllers} == set(CONTROLLERS), "controllers are registered")


@pytest.mark.spec("RP-21")
def test_a_killed_active_controller_is_replaced_and_no_command_is_lost(cluster: Cluster) -> None:
    first = cluster.active()
    assert first is not None
    assert cluster.create_topic("before", through=11) == 0
    cluster.machine(first).restart_delay_ms = None
    cluster.machine(first).kill()
    took_ms = cluster.until(lambda: cluster.active() not in (None, first), "another active controller")
    assert took_ms < 1_500
    assert cluster.create_topic("after", through=12) == 0
    cluster.machine(first).start()

    def images() -> list[list[bytes]]:
        programs = [cluster.program(each) for each in (*CONTROLLERS, *BROKERS)]
        found = [program.node.image for program in programs if program is not None]
        return [[encode_metadata_record(*record) for record in image.records()] for image in found]

    cluster.until(lambda: len(images()) == 5 and all(each == images()[0] for each in images()), "all images agree")
    assert {"before", "after"} == cluster.node(first).image.topics.keys()


def test_brokers_go_on_without_controllers_and_recover_without_restart(cluster: Cluster) -> None:
    assert cluster.create_topic("orders", through=11) == 0
    cluster.until(lambda: "orders" in cluster.node(11).image.topics, "the broker knows the topic")
    cluster.until(lambda: cluster.node(11).replicas.partition("orders", 0).is_leader, "the replica leads")
    for each in CONTROLLERS:
        cluster.machine(each).restart_delay_ms = None
        cluster.machine(each).kill()
    cluster.universe.run_for(15_000)
    processes = [cluster.machine(each).process for each in BROKERS]
    assert cluster.node(11).replicas.partition("orders", 0).is_leader
    for each in CONTROLLERS:
        cluster.machine(each).start()
    cluster.until(lambda: cluster.active() is not None, "an active controller")
    assert cluster.create_topic("later", through=12) == 0
    assert [cluster.machine(each).process for each in BROKERS] == processes


def test_a_member_founds_no_cluster_of_its_own() -> None:
    cluster = Cluster(1, is_formatted=False)
    cluster.universe.run_for(2_000)
    assert any("is not formatted" in str(event) for event in cluster.universe.log.events)
    assert cluster.active() is None


def impostor(process: Process) -> NodeProgram:
    """Another broker with the id of broker 11, on its own disk."""
    formatted(process.env, 11)
    settings = {"listeners": f"PLAINTEXT://impostor:{PORT}", "initial.broker.registration.timeout.ms": "5000"}
    return NodeProgram(process, ServerConfig.of(settings_of(11) | settings))


def test_a_broker_with_an_id_in_use_changes_nothing(cluster: Cluster) -> None:
    assert cluster.create_topic("orders", through=11) == 0
    cluster.universe.run_for(1_000)
    before = dict(cluster.node(12).image.topics["orders"].partitions)
    epoch = cluster.node(11).broker_epoch
    machine = cluster.universe.add_machine("impostor", impostor)
    machine.start()
    cluster.until(lambda: machine.process is None, "the other broker ends", 20_000)
    cluster.universe.run_for(1_000)
    assert cluster.node(12).image.topics["orders"].partitions == before
    assert cluster.node(12).image.brokers[11].epoch == epoch
    assert cluster.create_topic("clicks", through=11) == 0


def waiting(roles: str, process: Process) -> NodeProgram:
    """A node that is started before there is a quorum."""
    formatted(process.env, 11)
    settings = settings_of(11) | {"process.roles": roles, "initial.broker.registration.timeout.ms": "5000"}
    if roles != "broker":
        settings["controller.quorum.voters"] += f",11@{name_of(11)}:{PORT + 1}"
        settings["listeners"] += f",CONTROLLER://{name_of(11)}:{PORT + 1}"
    return NodeProgram(process, ServerConfig.of(settings))


@pytest.mark.spec("RP-18")
def test_a_broker_without_controllers_ends_and_says_what_to_do() -> None:
    universe = Universe(1)
    machine = universe.add_machine(name_of(11), partial(waiting, "broker"))
    machine.start()
    universe.run_for(4_900)
    assert machine.process is not None
    universe.run_for(200)
    assert machine.process is None
    reason = "broker 11 could not register in 5000 ms: no active controller is known"
    assert any(reason in str(event) for event in universe.log.events)


def test_a_voter_waits_for_the_quorum_as_long_as_it_takes() -> None:
    universe = Universe(1)
    machine = universe.add_machine(name_of(11), partial(waiting, "broker,controller"))
    machine.start()
    universe.run_for(20_000)
    assert machine.process is not None


def test_a_broker_waits_for_controllers_that_start_in_time(cluster: Cluster) -> None:
    for each in (*CONTROLLERS, 11):
        cluster.machine(each).restart_delay_ms = None
        cluster.machine(each).kill()
    cluster.machine(11).start()
    process = cluster.machine(11).process
    cluster.universe.run_for(50_000)
    for each in CONTROLLERS:
        cluster.machine(each).start()
    cluster.until(cluster.are_brokers_ready, "brokers are registered and unfenced")
    cluster.universe.run_for(60_000)
    assert cluster.machine(11).process is process
