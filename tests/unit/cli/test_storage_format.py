"""`tailrace storage format`: the files that Kafka's tool writes, and everything that is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from golden.formatted import CLUSTER_ID, GOLDEN, SHAPES, THREE_CONTROLLERS, Shape
from support.kafka.formatted import content
from tailrace.cli.main import main

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["storage", *arguments])
        return code, *capsys.readouterr()

    return command


def properties(folder: Path, shape: str = "standalone", **changes: str | None) -> str:
    """Of a shape, with `log_dirs=…` for log.dirs and so on; None leaves a setting out."""
    settings: dict[str, Any] = {
        **SHAPES[shape].properties,
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    path = folder / "server.properties"
    Shape({name: value for name, value in settings.items() if value is not None}, ()).write_properties(path, folder)
    return str(path)


def arguments(config: str, *more: str) -> list[str]:
    return ["format", "--cluster-id", CLUSTER_ID, "--config", config, *more]


@pytest.mark.spec("RP-26")
@pytest.mark.parametrize("name", SHAPES)
def test_the_files_are_those_of_kafkas_tool(tmp_path: Path, run: Run, name: str) -> None:
    shape = SHAPES[name]
    path = tmp_path / "server.properties"
    shape.write_properties(path, tmp_path / "ours")
    code, output, errors = run(*shape.command(path))
    assert (code, errors) == (0, "")
    assert content(tmp_path / "ours", THREE_CONTROLLERS) == content(GOLDEN / name, THREE_CONTROLLERS)
    assert output.count("directory path=") == output.count('state="formatted now"') > 0


def test_every_file_of_kafka_is_compared() -> None:
    compared = [name for shape in SHAPES for name in content(GOLDEN / shape)]
    assert sum(name.endswith(".checkpoint") for name in compared) == len(list(GOLDEN.rglob("*.checkpoint"))) > 20


def test_json_says_what_was_formatted(tmp_path: Path, run: Run) -> None:
    config = properties(tmp_path, "controllers-2")
    _, output, _ = run(*arguments(config, "-I", THREE_CONTROLLERS, "--json"))
    metadata, directory = map(json.loads, output.splitlines())
    assert metadata["kraft_version"] == 1
    assert metadata["features"]["metadata.version"] == 30
    assert metadata["controllers"] == [
        "1@controller-1.example.com:9093:JEXY6aqzQY-32P5TStzaFg",
        "2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A",
        "3@[0:0:0:0:0:0:0:1]:9095:07R5amHmR32VDA6jHkGbTA",
    ]
    assert directory == {
        "type": "directory",
        "path": f"{tmp_path}/a",
        "holds": "metadata",
        "state": "formatted now",
        "cluster_id": CLUSTER_ID,
        "node_id": 2,
        "directory_id": "MvDxzVmcRsaTz33bUuRU6A",
    }


@pytest.mark.spec("RP-26")
def test_formatted_directories_are_refused_or_left_as_they_are(tmp_path: Path, run: Run) -> None:
    config = properties(tmp_path, log_dirs="{root}/a")
    assert run(*arguments(config, "-s"))[0] == 0
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    config = properties(tmp_path, log_dirs="{root}/a,{root}/b")
    code, output, errors = run(*arguments(config, "-s"))
    assert (code, output) == (1, "")
    assert errors == (
        f"error: {tmp_path}/a is formatted already\n"
        "hint: pass --ignore-formatted to format only the other directories\n"
    )
    assert not (tmp_path / "b").exists()
    code, output, _ = run(*arguments(config, "-s", "--ignore-formatted"))
    assert code == 0
    assert f"path={tmp_path}/a holds=metadata state=formatted " in output
    assert f'path={tmp_path}/b holds=data state="formatted now" ' in output
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before
    assert run(*arguments(config, "-s", "-g"))[0] == 0


REFUSALS = {
    "no quorum": ("standalone", {}, (), "the controllers of the cluster are not given"),
    "two quorums": ("static", {}, ("-s",), "--standalone and controller.quorum.voters exclude each other"),
    "voters twice": ("static", {}, ("-I", THREE_CONTROLLERS), "--initial-controllers and controller.quorum.voters"),
    "no controller": ("broker", {}, ("-s",), "--standalone: process.roles has no controller"),
    "scram": ("standalone", {}, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=b]"), "no SCRAM authentication yet"),
    "no port": ("standalone", {"listeners": "P://:9092,CONTROLLER://h:0"}, ("-s",), "h:0, has no port"),
    "empty list": ("controllers-1", {}, ("-I", " , "), "the list of initial controllers is empty"),
    "bad controller": ("controllers-1", {}, ("-I", "1@host:9093"), "not of the form ID@HOST:PORT:DIRECTORY-ID"),
    "bad cluster id": ("standalone", {}, ("-s", "-t", "a b"), "cluster id 'a b'"),
    "unknown feature": ("standalone", {}, ("-s", "-f", "nope=1"), "there is no feature nope"),
    "unknown level": ("standalone", {}, ("-s", "-f", "share.version=7"), "share.version cannot be 7"),
    "no level": ("standalone", {}, ("-s", "-f", "share.version"), "not of the form FEATURE=LEVEL"),
    "unstable": ("standalone", {}, ("-s", "-f", "metadata.version=31"), "metadata.version cannot be 31"),
    "feature twice": ("standalone", {}, ("-s", "-f", "share.version=1", "-f", "share.version=0"), "a feature twice"),
    "unknown release": ("standalone", {}, ("-s", "-r", "4.9"), "there is no release 4.9"),
    "old release": ("standalone", {}, ("-s", "-r", "3.2"), "there is no release 3.2"),
    "release twice": ("standalone", {}, ("-s", "-r", "4.0", "-f", "metadata.version=25"), "exclude each other"),
    "dependency": (
        "standalone",
        {},
        ("-s", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"),
        "eligible.leader.replicas.version=1 requires metadata.version=23 (4.0-IV1), and the cluster has "
        "metadata.version=21 (3.9-IV0)",
    ),
    "kraft.version 0": ("standalone", {}, ("-s", "-f", "kraft.version=0"), "kraft.version cannot be 0"),
    "kraft.version 1": ("static", {}, ("-f", "kraft.version=1"), "kraft.version cannot be 1"),
    "roles": ("standalone", {"process_roles": None}, ("-s",), "process.roles: must be given"),
    "node id": ("standalone", {"node_id": None}, ("-s",), "node.id: must be given"),
    "no listener": ("standalone", {"listeners": "P://:9092"}, ("-s",), "controller.listener.names=CONTROLLER: none"),
    "broker listens": ("broker", {"listeners": "P://:9092,CONTROLLER://:1"}, (), "CONTROLLER is a controller listener"),
    "not a voter": ("static", {"node_id": "4"}, (), "controller.quorum.voters: must contain this node, 4"),
    "broker votes": ("broker", {"controller_quorum_voters": "6@h:1"}, (), "contains this node, 6, which is not"),
    "no servers": ("broker", {"controller_quorum_bootstrap_servers": None}, (), "bootstrap.servers: must be given"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_creates_nothing(tmp_path: Path, run: Run, name: str) -> None:
    shape, changes, more, text = REFUSALS[name]
    config = properties(tmp_path, shape, **changes)
    code, output, errors = run(*arguments(config, *more))
    assert (code, output) == (1, "")
    assert errors.startswith("error: ")
    assert text in errors
    assert "\nhint: " in errors
    assert os.listdir(tmp_path) == ["server.properties"]


@pytest.mark.spec("RP-26")
def test_directories_of_others_are_refused_by_format(tmp_path: Path, run: Run) -> None:
    assert run(*arguments(properties(tmp_path, log_dirs="{root}/a"), "-s"))[0] == 0
    both = "{root}/a,{root}/b"
    other = properties(tmp_path, log_dirs=both, node_id="2")
    assert "a belongs to node 1, not 2\nhint: " in run(*arguments(other, "-s", "-g"))[2]
    same = properties(tmp_path, log_dirs=both)
    assert f"a belongs to cluster {CLUSTER_ID}, not other\nhint: " in run(*arguments(same, "-sg", "-t", "other"))[2]
    (tmp_path / "b").write_text("")
    assert "b is not a directory\nhint: " in run(*arguments(same, "-s", "-g"))[2]
    missing = run(*arguments(str(tmp_path / "absent"), "-s"))[2]
    assert missing == f"error: cannot read {tmp_path}/absent: No such file or directory\n" + (
        "hint: check the path and its permissions\n"
    )


def test_an_unreadable_directory_does_not_keep_the_others_from_being_formatted(tmp_path: Path, run: Run) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.properties").write_text("version=7\n")
    code, output, errors = run(*arguments(properties(tmp_path), "-s"))
    assert code == 0
    assert 'a holds=metadata state="formatted now"' in output
    assert "b holds=data state=unreadable" in output
    assert errors.startswith(f"error: not formatted: {tmp_path}/b/meta.properties has version '7', not 1\nhint: ")
    config = properties(tmp_path, log_dirs="{root}/b")
    assert "none of the directories can be read" in run(*arguments(config, "-s"))[2]
    config = properties(tmp_path, log_dirs="{root}/c", metadata_log_dir="{root}/b")
    code, output, errors = run(*arguments(config, "-s"))
    assert (code, output) == (1, "")
    assert "meta.properties has version '7'" in errors


def test_security_settings_do_not_keep_directories_from_being_formatted(tmp_path: Path, run: Run) -> None:
    config = properties(
        tmp_path,
        listeners="SASL_SSL://:9092,CONTROLLER://h:9093",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        ssl_keystore_password="secret",
        unknown_setting="1",
    )
    assert run(*arguments(config, "-s"))[0] == 0
