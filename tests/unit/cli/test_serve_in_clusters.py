"""What `tailrace serve` refuses as a member of a cluster: one line with the reason, and a hint."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tailrace.cli.output import CommandError
from tailrace.cli.serve_settings import server_config
from tailrace.env.real import RealFiles
from tailrace.model.ids import DirectoryId
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

CLUSTER_ID, OTHER_CLUSTER_ID = "uViM5VGiQUWqVVgvr1gYxQ", "AAAAAAAAAAAAAAAAAAAAAg"
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9193,127.0.0.1:9194",
}
BROKER = CONTROLLER | {"process.roles": "broker", "node.id": "2", "listeners": "PLAINTEXT://127.0.0.1:0"}


def config_file(folder: Path, settings: Mapping[str, str]) -> Path:
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


@pytest.mark.parametrize(
    ("settings", "error", "hint"),
    [
        (CONTROLLER | {"process.roles": "broker"}, "process.roles has no controller", "add controller"),
        (CONTROLLER | {"controller.listener.names": "C"}, "none is among listeners", "such as C://:9093"),
        (CONTROLLER | {"controller.listener.names": ""}, "must be given", "controller.listener.names=CONTROLLER"),
        (CONTROLLER | {"process.roles": "broker,controller"}, "at least one must not be", "PLAINTEXT://:9092"),
        (
            CONTROLLER | {"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"},
            "PLAINTEXT is not in controller.listener.names",
            "add broker to process.roles",
        ),
        (CONTROLLER | {"controller.quorum.bootstrap.servers": ""}, "must be given, or", "HOST:PORT,HOST:PORT"),
        (CONTROLLER | {"controller.quorum.voters": "3@h:9093"}, "must contain this node, 1", "add 1@HOST:PORT"),
        (BROKER | {"controller.quorum.voters": "2@h:9093"}, "2, which is not a controller", "another node.id"),
        ({**CONTROLLER, "process.roles": "observer"}, "must be broker, controller or both", "correct the setting"),
        ({key: value for key, value in CONTROLLER.items() if key != "node.id"}, "node.id: must be", "another number"),
    ],
)
def test_contradictory_settings_are_refused(tmp_path: Path, settings: dict[str, str], error: str, hint: str) -> None:
    with pytest.raises(CommandError) as caught:
        server_config(str(config_file(tmp_path, settings)), {}, None, None)
    assert error in str(caught.value)
    assert hint in caught.value.hint


def formatted(node_id: int, cluster_id: str) -> Callable[[Path], None]:
    def write(directory: Path) -> None:
        directory.mkdir(parents=True)
        meta = MetaProperties(cluster_id, node_id, DirectoryId(directory.name.encode().ljust(16, b"\1")[:16]))
        meta.write(RealFiles(), str(directory / META_PROPERTIES_FILE), 0)

    return write


@pytest.mark.long
def test_a_member_of_a_cluster_explains_why_it_does_not_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = {
            "unformatted": (BROKER, {}, "is not formatted, and this node belongs to a cluster", "storage format"),
            "foreign-node": (BROKER, {"a": formatted(7, CLUSTER_ID)}, "belongs to node 7, not 2", "check node.id"),
            "foreign-cluster": (
                BROKER,
                {"a": formatted(2, CLUSTER_ID), "b": formatted(2, OTHER_CLUSTER_ID)},
                f"belongs to cluster {OTHER_CLUSTER_ID}, not {CLUSTER_ID}",
                "check node.id and log.dirs",
            ),
            "taken-port": (
                CONTROLLER | {"listeners": f"CONTROLLER://127.0.0.1:{port}"},
                {"a": formatted(1, CLUSTER_ID)},
                f"cannot listen on CONTROLLER://127.0.0.1:{port}: Address already in use",
                "stop the process that uses it",
            ),
        }
        running = {}
        for name, (settings, directories, _, _) in cases.items():
            folder = tmp_path / name
            folder.mkdir()
            for directory, write in directories.items():
                write(folder / directory)
            log_dirs = ",".join(str(folder / each) for each in directories or "a")
            file = config_file(folder, settings | {"log.dirs": log_dirs})
            arguments = [sys.executable, "-P", "-m", "tailrace", "serve", "--config", str(file)]
            running[name] = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name, process in running.items():
            output, errors = process.communicate(timeout=60)
            _, _, error, hint = cases[name]
            assert (process.returncode, output) == (1, ""), (name, errors)
            first, second = errors.splitlines()
            assert first.startswith("error: ")
            assert error in first
            assert second.startswith("hint: ")
            assert hint in second
