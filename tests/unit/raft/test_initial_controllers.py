"""`--initial-controllers`: which lists are taken, and as which voters."""

from __future__ import annotations

import pytest

from golden.formatted import THREE_CONTROLLERS
from tailrace.config.table import ConfigError
from tailrace.model.ids import DirectoryId
from tailrace.raft.initial_controllers import initial_controller, initial_controllers
from tailrace.raft.voters import QuorumEndpoint, Voter

ID = "JEXY6aqzQY-32P5TStzaFg"
OTHER_ID = "MvDxzVmcRsaTz33bUuRU6A"


def test_voters_are_sorted_by_node_id_and_have_one_endpoint_each() -> None:
    parts = THREE_CONTROLLERS.split(",")
    voters = initial_controllers(" , ".join(reversed(parts)) + ",", "CONTROLLER")
    assert voters == initial_controllers(THREE_CONTROLLERS, "CONTROLLER")
    assert [voter.node_id for voter in voters] == [1, 2, 3]
    endpoint = QuorumEndpoint("CONTROLLER", "controller-1.example.com", 9093)
    assert voters[0] == Voter(1, DirectoryId.parse(ID), (endpoint,))


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("Controller-1", "Controller-1"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]", "0:0:0:0:0:0:0:1"),
        ("[2001:DB8::a:0]", "2001:db8:0:0:0:0:a:0"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("[fe80::1%2]", "fe80::1%2"),
    ],
)
def test_addresses_are_written_as_java_writes_them(host: str, written: str) -> None:
    (voter,) = initial_controllers(f"1@{host}:9093:{ID}", "C")
    assert voter.endpoints == (QuorumEndpoint("C", written, 9093),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        (",", "is empty"),
        ("1", "not of the form"),
        (f"host:9093:{ID}", "not of the form"),
        (f"@host:9093:{ID}", "not of the form"),
        (f"-1@host:9093:{ID}", "not of the form"),
        (f"x@host:9093:{ID}", "not of the form"),
        (f"2147483648@host:9093:{ID}", "not of the form"),
        (f"1@host:{ID}", "not of the form"),
        (f"1@:9093:{ID}", "not of the form"),
        (f"1@[::1:9093:{ID}", "not of the form"),
        (f"1@::1:9093:{ID}", "not of the form"),
        (f"1@host:65536:{ID}", "not of the form"),
        (f"1@host:0:{ID}", "has no port"),
        ("1@host:9093:short", "not of the form"),
        ("1@host:9093:" + "A" * 22, "is reserved"),
        ("1@host:9093:" + "é" * 22, "not of the form"),
        (f"1@a:1:{ID},1@b:1:{OTHER_ID}", "the same node id"),
        (f"1@a:1:{ID},2@b:1:{ID}", "the same directory id"),
        (f"1@a:1:{ID},2@a:1:{OTHER_ID}", "the same address"),
    ],
)
def test_what_is_not_a_list_of_controllers_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        initial_controllers(text, "CONTROLLER")


def test_a_single_controller_needs_a_port() -> None:
    directory_id = DirectoryId.parse(ID)
    assert initial_controller(1, directory_id, "C", "h", 1) == Voter(1, directory_id, (QuorumEndpoint("C", "h", 1),))
    with pytest.raises(ConfigError, match="controller 1, h:0, has no port"):
        initial_controller(1, directory_id, "C", "h", 0)
