"""Topics and settings through the admin side of each client library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from client_driver import Admin, Message, RefusedError
from client_servers import Server

pytestmark = pytest.mark.compat

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40


def eventually(condition: Callable[[], bool]) -> None:
    """A broker tells what the controller has decided a moment later."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def refusal(ask: Callable[[], object]) -> int:
    with pytest.raises(RefusedError) as refused:
        ask()
    return refused.value.code


def test_a_topic_is_made_shown_and_deleted(admin: Admin, name: str) -> None:
    admin.create_topic(name, partitions=3)
    eventually(lambda: admin.topics().get(name) == 3)
    admin.delete_topic(name)
    eventually(lambda: name not in admin.topics())
    admin.create_topic(name, partitions=1)
    eventually(lambda: admin.topics().get(name) == 1)


def test_a_deleted_topic_leaves_nothing_to_its_successor(admin: Admin, name: str, helper: Any) -> None:
    admin.create_topic(name)
    helper.produce(name, [Message(b"of the first")])
    admin.delete_topic(name)
    eventually(lambda: name not in admin.topics())
    admin.create_topic(name)
    eventually(lambda: name in admin.topics())
    assert helper.produce(name, [Message(b"of the second")]) == [0]


def test_partitions_are_added(admin: Admin, name: str) -> None:
    admin.create_topic(name, partitions=2)
    admin.add_partitions(name, 5)
    eventually(lambda: admin.topics().get(name) == 5)
    assert refusal(lambda: admin.add_partitions(name, 4)) == INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("topic", "partitions", "settings", "code"),
    [
        ("white space", 1, {}, INVALID_TOPIC),
        ("x" * 250, 1, {}, INVALID_TOPIC),
        ("..", 1, {}, INVALID_TOPIC),
        ("no-partitions", 0, {}, INVALID_PARTITIONS),
        ("bad-value", 1, {"retention.ms": "soon"}, INVALID_CONFIG),
        ("bad-key", 1, {"retention.parsecs": "12"}, INVALID_CONFIG),
    ],
    ids=["white space", "long", "dots", "no partitions", "bad value", "bad key"],
)
def test_what_makes_no_sense_is_refused(
    admin: Admin, topic: str, partitions: int, settings: dict[str, str], code: int
) -> None:
    assert refusal(lambda: admin.create_topic(topic, partitions, settings)) == code


def test_a_topic_is_made_once_and_deleted_once(admin: Admin, name: str) -> None:
    admin.create_topic(name)
    assert refusal(lambda: admin.create_topic(name)) == TOPIC_ALREADY_EXISTS
    admin.delete_topic(name)
    eventually(lambda: name not in admin.topics())
    assert refusal(lambda: admin.delete_topic(name)) == UNKNOWN_TOPIC_OR_PARTITION


def test_settings_are_given_shown_and_changed(admin: Admin, name: str) -> None:
    admin.create_topic(name, settings={"cleanup.policy": "compact", "segment.bytes": "1048576"})
    eventually(lambda: name in admin.topics())
    found = admin.settings(name)
    assert found["cleanup.policy"] == "compact"
    assert found["segment.bytes"] == "1048576"
    assert found["min.insync.replicas"] == "1"
    admin.set(name, {"cleanup.policy": "compact,delete", "retention.ms": "60000"})
    eventually(lambda: admin.settings(name)["retention.ms"] == "60000")
    assert admin.settings(name)["cleanup.policy"] == "compact,delete"


def test_a_wrong_setting_is_refused_and_changes_nothing(admin: Admin, name: str) -> None:
    admin.create_topic(name)
    eventually(lambda: name in admin.topics())
    assert refusal(lambda: admin.set(name, {"cleanup.policy": "shred"})) == INVALID_CONFIG
    assert admin.settings(name)["cleanup.policy"] == "delete"


def test_a_smaller_largest_message_holds_at_once(admin: Admin, topic: str, helper: Any) -> None:
    helper.produce(topic, [Message(bytes(5000))])
    admin.set(topic, {"max.message.bytes": "1000"})
    eventually(lambda: admin.settings(topic)["max.message.bytes"] == "1000")
    assert refusal(lambda: helper.produce(topic, [Message(bytes(5000))])) == 10  # MESSAGE_TOO_LARGE
    helper.produce(topic, [Message(bytes(500))])


def test_records_are_deleted_up_to_an_offset(admin: Admin, topic: str, helper: Any) -> None:
    helper.produce(topic, [Message(b"%d" % n) for n in range(10)])
    admin.delete_records(topic, 4)
    assert helper.bounds(topic) == (4, 10)
    assert [each.value for each in helper.read(topic, 2, offset=4)] == [b"4", b"5"]


def test_the_brokers_settings_are_shown(admin: Admin) -> None:
    found = admin.broker_settings()
    assert found["auto.create.topics.enable"] == "false"
    assert found["log.segment.bytes"] == str(1 << 30)


def test_the_cluster_is_described(admin: Admin, server: Server) -> None:
    cluster_id, brokers = admin.cluster()
    assert brokers == [server.address]
    assert cluster_id is not None
    assert len(cluster_id) == 22
