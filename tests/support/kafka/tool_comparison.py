"""Kafka's tools on two clusters that are built alike, one of Apache Kafka and one of Tailrace.

A command is a text such as `quorum {servers} describe --status`. The names in braces are replaced for each cluster.
What is printed is made comparable: ports, folders and directory ids become the names of nodes,
offsets and times `n`. An error message of a server becomes `words`: each vendor has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from support.kafka.mixed_cluster import Clusters, MixedCluster
from support.kafka.tools import TOOLS, try_tool

COMMANDS: Final = {
    "features": TOOLS + "FeatureCommand",
    "quorum": TOOLS + "MetadataQuorumCommand",
    "cluster": TOOLS + "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
}
SERVERS: Final = "{servers}"
"""In a command: it is run once with a broker, and once with a controller."""
NOISE: Final = re.compile(r"SLF4J|Picked up |\s+(at|\.\.\.) |\s*$")
MASKS: Final = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"(org\.apache\.kafka\.common\.errors\.\w+): .*"), r"\1: words"),
    (re.compile(r"^((Could|Can) not \w+ \S+( to \d+)?\.) .*"), r"\1 words"),
    (re.compile(r"( Epoch:) \d+$"), r"\1 n"),
    (re.compile(r"^((LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs):) \d+$"), r"\1 n"),
    (re.compile(r"^(\d+ directory of \d+)( \d+){4} (?=\w+$)"), r"\1 n n n n "),
)


class Printed(NamedTuple):
    """By a command: lines of output and errors, without stack traces."""

    command: str
    exit_code: int
    output: list[str]
    errors: list[str]


def printed(cluster: MixedCluster, command: str) -> Printed:
    tool, *words = command.split()
    names = _names(cluster)
    run = try_tool(COMMANDS[tool], *(word.format_map(names) for word in words))
    return Printed(command, run.exit_code, *(_comparable(cluster, text) for text in (run.output, run.errors)))


def _names(cluster: MixedCluster) -> dict[str, str]:
    names: dict[str, str] = {}
    for node_id, node in cluster.nodes.items():
        names |= {f"broker{node_id}": node.broker_address, f"controller{node_id}": node.controller_address}
        names |= {f"properties{node_id}": str(node.properties), f"directory{node_id}": node.directory_id}
    return names


def _comparable(cluster: MixedCluster, text: str) -> list[str]:
    for node_id, node in cluster.nodes.items():
        text = text.replace(str(node.properties), f"properties of {node_id}")
        text = text.replace(str(node.folder), f"folder of {node_id}")
        text = text.replace(node.directory_id, f"directory of {node_id}")
        for port, name in ((node.port, "broker"), (node.port + 1, "controller")):
            text = re.sub(rf"(?<!\d){port}(?!\d)", f"port of {name} {node_id}", text)
    return [_masked(line) for line in text.splitlines() if not NOISE.match(line)]


def _masked(line: str) -> str:
    for pattern, replacement in MASKS:
        line = pattern.sub(replacement, line.rstrip())
    return line


def run_on_both(clusters: Clusters, commands: Iterable[str]) -> list[tuple[Printed, Printed]]:
    """In their order, each at the same time on both clusters: what it prints with Kafka, and with Tailrace."""
    chosen = [each for command in commands for each in _with_servers(command)]
    return [clusters.do(lambda cluster, command=command: printed(cluster, command)) for command in chosen]


def _with_servers(command: str) -> list[str]:
    if SERVERS not in command:
        return [command]
    options = ("--bootstrap-server {broker1}", "--bootstrap-controller {controller1}")
    return [command.replace(SERVERS, option) for option in options]
