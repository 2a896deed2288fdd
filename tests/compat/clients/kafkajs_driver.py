"""kafkajs, the JavaScript client: one Node process that takes JSON lines. Its packages come from npm, once.

It reads records only as a member of a group, so that it writes and administers here, and reads from the beginning.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from client_driver import Message, TransactionalWriter, refusal

PROGRAM = Path(__file__).with_name("kafkajs_driver.js")
# kafkajs itself has gzip only. The other codecs here come ready to run: nothing is compiled or fetched from elsewhere.
PACKAGES = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "lz4-napi@2.10.0", "@bokuweb/zstd-wasm@0.0.27")
INSTALL_TIMEOUT_S = 120


@cache
def modules() -> Path:
    """The folder with the packages, filled from npm the first time. Raises `FileNotFoundError` with the reason."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise FileNotFoundError("kafkajs needs Node, and there is no node or no npm on the PATH")
    cache_root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache_root) / "tailrace" / "-".join(each.replace("/", "+") for each in PACKAGES)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # one at a time: tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            command = [
                npm,
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--prefix",
                str(folder),
                *PACKAGES,
            ]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
            except subprocess.TimeoutExpired:
                raise FileNotFoundError(f"npm did not fetch kafkajs within {INSTALL_TIMEOUT_S} s") from None
            if done.returncode != 0:
                raise FileNotFoundError(f"npm cannot fetch kafkajs: {done.stderr.strip()[-500:]}")
            (folder / "done").touch()
    return folder / "node_modules"


class KafkaJsDriver:
    name = "kafkajs"

    def __init__(self, address: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(PROGRAM), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "NODE_PATH": str(modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
            text=True,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def _call(self, call: str, *args: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": call, "args": args}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the Node process ended with {self._process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            assert answer["code"] > 0, answer["error"]
            raise refusal(answer["code"], answer["error"])
        return answer["result"]

    # Records

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        acks: int = -1,
        partition: int | None = 0,
    ) -> list[int]:
        first = self._call("produce", topic, _values(messages), codec, idempotent, acks, partition)
        return list(range(first, first + len(messages))) if first is not None else []

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """It says the log's end where there is none."""
        return int(self._call("offsetAt", topic, timestamp_ms))

    def bounds(self, topic: str) -> tuple[int, int]:
        low, high = self._call("bounds", topic)
        return low, high

    def read_until(self, topic: str, last: bytes, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        values = self._call("readUntil", topic, _text(last), not committed, partition, f"reader-{uuid.uuid4().hex}")
        return [base64.b64decode(value) for value in values]

    # Groups and transactions

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return dict(self._call("committed", group, topic))

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._call("commit", group, topic, offsets)

    def groups(self) -> set[str]:
        return set(self._call("groups"))

    def group_state(self, group: str) -> tuple[str, int]:
        state, members = self._call("groupState", group)
        return state.upper(), members

    def delete_group(self, group: str) -> None:
        self._call("deleteGroup", group)

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalWriter:
        return _TransactionalProducer(self, transactional_id, timeout_ms)

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self._call("createTopic", topic, partitions, settings or {})

    def delete_topic(self, topic: str) -> None:
        self._call("deleteTopic", topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("addPartitions", topic, total)

    def topics(self) -> dict[str, int]:
        found: dict[str, int] = self._call("topics")
        return found

    def settings(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = self._call("settings", topic)
        return found

    def broker_settings(self) -> dict[str, str]:
        found: dict[str, str] = self._call("brokerSettings")
        return found

    def set(self, topic: str, settings: Mapping[str, str]) -> None:
        """By AlterConfigs, which replaces everything that was set before."""
        self._call("set", topic, settings)

    def delete_records(self, topic: str, before_offset: int) -> None:
        self._call("deleteRecords", topic, before_offset)

    def cluster(self) -> tuple[str | None, list[str]]:
        cluster_id, brokers = self._call("cluster")
        return cluster_id, brokers


class _TransactionalProducer:
    """kafkajs asks for its producer id when the first transaction begins."""

    def __init__(self, driver: KafkaJsDriver, transactional_id: str, timeout_ms: int) -> None:
        self._call = driver._call
        self._number = self._call("transactional", transactional_id, timeout_ms)

    def begin(self) -> None:
        self._call("begin", self._number)

    def produce(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
        self._call("send", self._number, topic, _values(messages), partition)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._call("sendOffsets", self._number, group, topic, offsets)

    def commit(self) -> None:
        self._call("end", self._number, "commit")

    def abort(self) -> None:
        self._call("end", self._number, "abort")

    def close(self) -> None:
        self._call("close", self._number)


def _values(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {
            "value": _text(message.value),
            "key": _text(message.key),
            "timestamp": message.timestamp_ms,
            "headers": [(name, _text(value)) for name, value in message.headers],
        }
        for message in messages
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
