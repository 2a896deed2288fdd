"""The properties files in deploy/cluster: every setting exists, and nodes start with them."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.page_blocks import ROOT
from tailrace.config.properties import parse_properties
from tailrace.config.server import ServerConfig
from tailrace.testing.child_process import ChildProcess

FILES = sorted((ROOT / "deploy" / "cluster").glob("*.properties"))
TAILRACE = (sys.executable, "-P", "-m", "tailrace")
ROLES = {"broker": ("broker",), "controller": ("controller",), "combined": ("broker", "controller")}


def test_there_is_a_file_for_each_combination_of_roles() -> None:
    assert {file.stem for file in FILES} == ROLES.keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_settings_are_those_of_a_member_of_a_cluster(file: Path) -> None:
    config = ServerConfig.of(parse_properties(file.read_bytes()))
    assert config.unknown == ()
    assert config.process_roles == ROLES[file.stem]
    assert not config.is_founder
    assert len(config.controller_quorum_bootstrap_servers) == 3
    if config.is_controller:
        assert set(config.advertised_controller_listeners) != set(config.controller_listeners)


def on_this_machine(text: str, folder: Path, ports: dict[str, int]) -> str:
    """The file for one controller on this machine: its name stands for every host."""
    text = re.sub(r"(?m)^(controller\.quorum\.bootstrap\.servers=)([^,\n]*).*$", r"\1\2", text)
    text = re.sub(r"://[\w-]*:", "://127.0.0.1:", text)
    text = re.sub(r"\b(?:controller|node)-\d:", "127.0.0.1:", text)
    for port, free in ports.items():
        text = re.sub(rf":{port}\b", f":{free}", text)
    return text.replace("/var/lib/tailrace", str(folder)).replace("metrics.listener=", "#")


def free_ports(*named: str) -> dict[str, int]:
    found = {}
    for name in named:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            found[name] = listener.getsockname()[1]
    return found


@pytest.mark.long
@pytest.mark.parametrize("stems", [("controller", "broker"), ("combined",)], ids="+".join)
def test_nodes_start_with_the_files(stems: tuple[str, ...], tmp_path: Path) -> None:
    ports, nodes = free_ports("9092", "9093"), list[ChildProcess]()
    with (tmp_path / "nodes.log").open("wb") as log:
        try:
            for stem in stems:
                folder = tmp_path / stem
                folder.mkdir()
                file = folder / "server.properties"
                text = (ROOT / "deploy" / "cluster" / f"{stem}.properties").read_text()
                file.write_text(on_this_machine(text, folder, ports))
                first = ["--standalone"] if "controller" in ROLES[stem] else []
                arguments = ["storage", "format", "--config", str(file), "--cluster-id", "uViM5VGiQUWqVVgvr1gYxQ"]
                subprocess.run([*TAILRACE, *arguments, *first], check=True, stdout=subprocess.DEVNULL, timeout=60)
                nodes.append(ChildProcess([*TAILRACE, "serve", "--config", str(file)], log, None))
            for node in nodes:
                node.wait_until_ready(60)
        finally:
            for node in reversed(nodes):
                node.end(signal.SIGTERM)
    assert [node.process.returncode for node in nodes] == [0] * len(stems), (tmp_path / "nodes.log").read_text()
