"""Members of a group come, go and die while records keep coming: each is handled, each partition has one owner."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from client_servers import Server
from group_members import Feeder, Kind, Members

pytestmark = pytest.mark.compat

PARTITIONS = 6
CLASSIC = Kind("confluent-kafka")
COOPERATIVE = Kind("confluent-kafka", {"partition.assignment.strategy": "cooperative-sticky"})
CONSUMER = Kind("confluent-kafka", {"group.protocol": "consumer"})
RANGE_OF_KAFKA_PYTHON = Kind("kafka-python", {"assignor": "range"})
RANGE_OF_AIOKAFKA = Kind("aiokafka", {"assignor": "range"})

# The first three join, the first of them dies and the second leaves; then the fourth joins.
CASTS = {
    "confluent classic": (CLASSIC,) * 4,
    "confluent consumer": (CONSUMER,) * 4,
    "kafka-python": (Kind("kafka-python"),) * 4,
    "aiokafka": (Kind("aiokafka"),) * 4,
    "kafkajs": (Kind("kafkajs"),) * 4,
}
LONG_CASTS = {
    "confluent cooperative": (COOPERATIVE,) * 4,
    "confluent consumer range": (Kind("confluent-kafka", {**CONSUMER.settings, "group.remote.assignor": "range"}),) * 4,
    "kafka-python sticky": (Kind("kafka-python", {"assignor": "sticky"}),) * 4,
    "three libraries": (CLASSIC, RANGE_OF_KAFKA_PYTHON, RANGE_OF_AIOKAFKA, RANGE_OF_KAFKA_PYTHON),
    "upgraded": (CLASSIC, RANGE_OF_KAFKA_PYTHON, CONSUMER, CONSUMER),
    "downgraded": (CONSUMER, CONSUMER, CLASSIC, RANGE_OF_KAFKA_PYTHON),
}


@pytest.mark.parametrize(
    "cast",
    [
        *(pytest.param(cast, id=name) for name, cast in CASTS.items()),
        *(pytest.param(cast, id=name, marks=pytest.mark.long) for name, cast in LONG_CASTS.items()),
    ],
)
def test_three_join_one_dies_one_leaves_one_joins(
    cast: tuple[Kind, ...], name: str, helper: Any, server: Server
) -> None:
    helper.create_topic(name, partitions=PARTITIONS)
    feeder = Feeder(server.address, name, PARTITIONS)
    try:
        with Members(server.address, f"g-{uuid.uuid4().hex[:8]}", name) as members:
            first, second, third = (members.join(kind) for kind in cast[:3])
            members.wait_until_owners_are([first, second, third], PARTITIONS)
            first.kill()
            members.wait_until_owners_are([second, third], PARTITIONS)
            second.leave()
            members.wait_until_owners_are([third], PARTITIONS)
            fourth = members.join(cast[3])
            members.wait_until_owners_are([third, fourth], PARTITIONS)
            counts = feeder.stop()
            members.wait_until_handled(counts, [third, fourth])
            members.leave([third, fourth])
            assert members.faults(counts) == []
    finally:
        feeder.stop()
