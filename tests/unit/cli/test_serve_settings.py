"""What `tailrace serve` makes of a file and arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.cli.output import CommandError
from tailrace.cli.serve_settings import server_config

FILE = """\
process.roles=broker,controller
node.id=7
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092
controller.quorum.voters=7@127.0.0.1:9093
log.dirs=/somewhere
"""


def test_arguments_go_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(FILE)
    config = server_config(str(file), {"num.partitions": "5"}, "/elsewhere", "127.0.0.1:1234")
    assert config.node_id == 7
    assert config.num_partitions == 5
    assert config.broker.directories == ("/elsewhere",)
    assert [str(each) for each in config.listeners] == ["CONTROLLER://127.0.0.1:9093", "PLAINTEXT://127.0.0.1:1234"]


def test_without_a_file_it_is_one_node_on_this_machine() -> None:
    config = server_config(None, {}, None, None)
    assert {each.host for each in config.listeners} == {"127.0.0.1"}
    assert config.offsets_topic_replication_factor == 1


@pytest.mark.parametrize("key", ["ssl.keystore.location", "authorizer.class.name", "sasl.enabled.mechanisms"])
def test_security_that_does_not_exist_stops_the_start(key: str) -> None:
    with pytest.raises(CommandError, match=key):
        server_config(None, {key: "x"}, None, None)


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(CommandError, match=r"num\.partitions"):
        server_config(None, {"num.partitions": "many"}, None, None)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="cannot read"):
        server_config("/no/such/file", {}, None, None)
