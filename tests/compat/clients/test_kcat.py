"""kcat, the command line tool on librdkafka, from the distribution's package: an older librdkafka than Python's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from client_driver import CODECS, TIMEOUT_S, Message
from client_servers import Server

T0 = 1_700_000_000_000

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat on the PATH (Debian has it: kcat)"),
]


@pytest.fixture
def kcat(server: Server) -> Any:
    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", server.address, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def lines(first: int, count: int) -> str:
    return "".join(f"key-{n % 5}:value {n} {'x' * 80}\n" for n in range(first, first + count))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["", "idempotent"])
def test_what_kcat_writes_it_and_others_read(
    kcat: Any, topic: str, codec: str, idempotent: bool, all_readers: list[Any]
) -> None:
    options = ["-X", "enable.idempotence=true"] if idempotent else []
    kcat("-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", *options, stdin=lines(0, 500))
    printed = kcat("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s\n").splitlines()
    assert printed == [f"{n} {line}" for n, line in enumerate(lines(0, 500).splitlines())]
    for reader in all_readers:
        records = reader.read(topic, 500)
        assert [b"%d %b:%b" % (each.offset, each.key, each.value) for each in records] == [
            line.encode() for line in printed
        ]


def test_headers_and_tombstones(kcat: Any, topic: str, helper: Any) -> None:
    kcat(
        "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "source=web", "-H", "kind=test", stdin="gone:\nhere:yes\n"
    )
    first, second = helper.read(topic, 2)
    assert (first.key, first.value, first.headers) == (b"gone", None, (("source", b"web"), ("kind", b"test")))
    assert (second.key, second.value) == (b"here", b"yes")
    shown = [json.loads(line) for line in kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J").splitlines()]
    assert [each["payload"] for each in shown] == [None, "yes"]
    assert shown[0]["headers"] == ["source", "web", "kind", "test"]


def test_a_file_as_one_large_record(kcat: Any, topic: str, helper: Any, tmp_path: Path) -> None:
    content = bytes(range(1, 251)) * 8000
    (tmp_path / "large").write_bytes(content)
    kcat("-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=4000000", str(tmp_path / "large"))
    assert [each.value for each in helper.read(topic, 1)] == [content]


def test_offsets_times_and_the_end(kcat: Any, topic: str, helper: Any) -> None:
    helper.produce(topic, [Message(b"%d" % n, None, T0 + 10 * n) for n in range(100)])

    def read(*options: str) -> list[int]:
        printed = kcat("-C", "-t", topic, "-p", "0", "-e", "-q", *options)
        return [int(line) for line in printed.split()]

    assert read("-o", "95") == [95, 96, 97, 98, 99]
    assert read("-o", "-3") == [97, 98, 99]
    assert read("-o", "20", "-c", "2") == [20, 21]
    assert read("-o", f"s@{T0 + 971}") == [98, 99]
    assert read("-o", f"s@{T0 + 100}", "-o", f"e@{T0 + 121}") == [10, 11, 12]
    assert kcat("-Q", "-t", f"{topic}:0:{T0 + 505}").split() == [topic, "[0]", "offset", "51"]
    assert kcat("-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "100"]
    assert kcat("-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]


def test_metadata(kcat: Any, name: str, helper: Any, server: Server) -> None:
    helper.create_topic(name, partitions=3)
    found = json.loads(kcat("-L", "-J", "-t", name))
    (broker,) = found["brokers"]
    assert broker["name"] == server.address
    (topic,) = found["topics"]
    assert [each["leader"] for each in topic["partitions"]] == [broker["id"]] * 3
    assert [each["isrs"] for each in topic["partitions"]] == [[{"id": broker["id"]}]] * 3
