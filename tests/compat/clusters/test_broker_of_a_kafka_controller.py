"""A Tailrace broker in a cluster whose controller, and other broker, is Apache Kafka."""

from __future__ import annotations

import pytest

from support.kafka.cluster_clients import (
    admin_client,
    assert_no_lag,
    consume,
    create_topic,
    leaders,
    produce,
    results,
)
from support.kafka.mixed_cluster import KafkaNode, MixedCluster, TailraceNode, wait_for

pytestmark = [pytest.mark.compat, pytest.mark.long]

VALUES = sorted(f"value-{number}" for number in range(300))


@pytest.mark.spec("RP-18")
def test_broker_joins_serves_leaves_and_returns(cluster: MixedCluster) -> None:
    kafka = cluster.add(KafkaNode, 1, "broker,controller", cluster.voters(1))
    ours = cluster.add(TailraceNode, 2, "broker", cluster.voters(1), broker_session_timeout_ms="4000")
    kafka.settings["broker.session.timeout.ms"] = "4000"
    for node in (kafka, ours):
        node.start()
    ours.wait_until_serving()
    kafka.wait_until_serving()

    admin = admin_client(kafka.broker_address)
    create_topic(admin, "shared", [[2], [1], [2]])
    produce(kafka.broker_address, "shared", VALUES[:150])
    produce(ours.broker_address, "shared", VALUES[150:])
    for number in range(4):  # __consumer_offsets has partitions on either broker
        servers = (kafka, ours)[number % 2].broker_address
        assert consume(servers, "shared", len(VALUES), f"group-{number}") == VALUES
    assert assert_no_lag(ours.broker_address)[2].status == "Observer"

    ours.stop()
    assert "requested and been granted a controlled shutdown" in kafka.log_text
    assert "Fencing broker 2 at epoch" not in kafka.log_text  # its session has not run out
    wait_for(lambda: leaders(admin, "shared") == {1: 1}, "the partitions of the stopped broker have no leader")
    for reason in ("stop", "kill"):
        ours.start()
        wait_for(lambda: leaders(admin, "shared") == {0: 2, 1: 1, 2: 2}, "the broker leads its partitions again")
        assert consume(ours.broker_address, "shared", len(VALUES), f"after-{reason}") == VALUES
        ours.kill()
    assert "handleBrokerUncleanShutdown" in kafka.log_text  # told by the epoch that the killed broker did not send

    ours.start()
    wait_for(lambda: len(leaders(admin, "shared")) == 3, "the broker is back")
    kafka.stop()
    kafka.start()
    kafka.wait_until_serving(1)
    wait_for(lambda: leaders(admin, "shared") == {0: 2, 1: 1, 2: 2}, "all partitions have leaders")
    assert consume(ours.broker_address, "shared", len(VALUES), "after-controller") == VALUES
    results(admin.delete_topics(["shared"]))
    wait_for(lambda: not list((ours.folder / "log").glob("shared-?")), "our broker deletes its logs")
    assert_no_lag(ours.broker_address)
    cluster.assert_healthy()
