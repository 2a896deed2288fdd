"""Directories as Kafka's StorageTool formats them: the shapes that ours must produce, too.

`SHAPES` has a properties file and a command line for each. `python tools/golden/formatted.py` runs Kafka's tool for all
of them (one JVM each) and replaces tests/golden/kafka-4.3.1-formatted:

    <shape>/<directory>/meta.properties, bootstrap.checkpoint, __cluster_metadata-0/…    as the tool left them

Times and random ids differ from run to run; `tests/support/kafka/formatted.py` compares what is left.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = REPOSITORY / "tests" / "golden" / "kafka-4.3.1-formatted"
KAFKA_SCRIPT: Final = REPOSITORY / "benchmarks" / "peers" / "kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
CLUSTER_ID: Final = "uViM5VGiQUWqVVgvr1gYxQ"
THREE_CONTROLLERS: Final = (
    "1@controller-1.example.com:9093:JEXY6aqzQY-32P5TStzaFg,"
    "2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A,"
    "3@[::1]:9095:07R5amHmR32VDA6jHkGbTA"
)

_COMBINED: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "{root}/a",
}


class Shape(NamedTuple):
    """`{root}` in a value of `properties` is the directory that the data directories are created in."""

    properties: Mapping[str, str]
    arguments: tuple[str, ...]

    def write_properties(self, path: Path, root: Path) -> None:
        lines = (f"{name}={value.replace('{root}', str(root))}\n" for name, value in self.properties.items())
        path.write_text("".join(lines))

    def command(self, properties: Path) -> list[str]:
        """What follows the tool's name, Kafka's and ours."""
        return ["format", "--cluster-id", CLUSTER_ID, "--config", str(properties), *self.arguments]


def _controller(node_id: int) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(node_id),
        "listeners": f"CONTROLLER://127.0.0.1:{9092 + node_id}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9094",
        "log.dirs": "{root}/a",
    }


def _broker(node_id: int) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9094",
        "log.dirs": "{root}/a",
    }


_STATIC: Final = {
    **{name: value for name, value in _COMBINED.items() if name != "controller.quorum.bootstrap.servers"},
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095",
}

SHAPES: Final = {
    "standalone": Shape({**_COMBINED, "log.dirs": "{root}/a,{root}/b"}, ("--standalone",)),
    "advertised": Shape(
        {
            **_COMBINED,
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://0.0.0.0:9093,BACKUP://127.0.0.1:9094",
            "advertised.listeners": "PLAINTEXT://broker-1:9092,BACKUP://controller-1:19094",
            "controller.listener.names": "BACKUP,CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BACKUP:PLAINTEXT",
        },
        ("-s",),
    ),
    "controllers-1": Shape({**_controller(1), "log.dirs": "{root}/a"}, ("--initial-controllers", THREE_CONTROLLERS)),
    "controllers-2": Shape(_controller(2), ("-I", THREE_CONTROLLERS)),
    "controllers-3": Shape(_controller(3), ("--initial-controllers", THREE_CONTROLLERS)),
    "controllers-broker": Shape(_broker(4), ("--initial-controllers", THREE_CONTROLLERS)),
    "joining": Shape(_controller(5), ("--no-initial-controllers",)),
    "broker": Shape(_broker(6), ()),
    "static": Shape(_STATIC, ()),
    "metadata-directory": Shape(
        {**_COMBINED, "log.dirs": "{root}/a,{root}/b", "metadata.log.dir": "{root}/m"}, ("--standalone",)
    ),
    "release": Shape(_STATIC, ("--release-version", "3.9-IV0", "--feature", "group.version=1")),
    "features": Shape(
        _COMBINED,
        (
            "--standalone",
            "--feature",
            "metadata.version=25",
            "-f",
            "eligible.leader.replicas.version=1",
            "--feature",
            "transaction.version=0",
            "--feature",
            "kraft.version=1",
        ),
    ),
}


def format_with_kafka(shape: Shape, root: Path) -> str:
    """Returns what the tool prints."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "server.properties"
        shape.write_properties(properties, root)
        command = [str(KAFKA_SCRIPT), "tool", STORAGE_TOOL, *shape.command(properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{STORAGE_TOOL} exited with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    for name, shape in SHAPES.items():
        print(name)
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        print(format_with_kafka(shape, GOLDEN / name), end="")


if __name__ == "__main__":
    main()
