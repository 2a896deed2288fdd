"""How the broker for tests is started and ended, with a stand-in for the server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from tailrace.testing import child_process
from tailrace.testing.broker import Broker, BrokerStartError

STUB = Path(__file__).with_name("stub_server.py")


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "COMMAND", (sys.executable, str(STUB)))


def can_connect(broker: Broker) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", broker.port)) == 0


def is_alive(pid: int) -> bool:
    """Zombies are dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_root_package_has_it() -> None:
    assert tailrace.Broker is Broker
    with pytest.raises(AttributeError, match="no attribute 'Borker'"):
        tailrace.Borker  # noqa: B018


def test_it_listens_within_the_block_and_leaves_nothing_behind() -> None:
    with Broker() as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert can_connect(broker)
        assert broker.is_running
        pid, data_dir = broker.pid, broker.data_dir
        assert pid is not None
        assert data_dir.is_dir()
    assert not is_alive(pid)
    assert not data_dir.exists()
    assert broker.pid is None


def test_settings_reach_the_server_in_kafkas_spelling() -> None:
    with Broker({"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.log.split() == [
            "group.initial.rebalance.delay.ms=0",
            "num.partitions=3",
            "auto.create.topics.enable=false",
        ]


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_directory_and_port_stay_over_a_restart(end: Callable[[Broker], None]) -> None:
    with Broker() as broker:
        port = broker.port
        end(broker)
        assert not broker.is_running
        assert not can_connect(broker)
        broker.start()
        assert broker.port == port
        assert can_connect(broker)
        assert (broker.data_dir / "starts").read_text() == "xx"


def test_nobody_gets_the_port_of_a_broker_that_is_down() -> None:
    with Broker() as broker:
        broker.kill()
        with socket.socket() as other, pytest.raises(OSError):
            other.bind(("127.0.0.1", broker.port))


def test_a_data_directory_that_was_given_stays(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        assert broker.data_dir == tmp_path
    assert (tmp_path / "starts").exists()


def test_a_failed_start_shows_what_the_server_said() -> None:
    broker = Broker({"stub": "fail"})
    with pytest.raises(BrokerStartError) as failure, broker:
        pass
    assert "ended with exit code 1 before it was ready" in str(failure.value)
    assert "error: num.partitions=none is not a number" in str(failure.value)
    assert not broker.is_running


def test_a_server_that_is_never_ready_is_ended() -> None:
    with (
        pytest.raises(BrokerStartError, match=r"not ready within 0\.5 s"),
        Broker({"stub": "silent"}, start_timeout_s=0.5),
    ):
        pass


def test_a_server_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "STOP_TIMEOUT_SECONDS", 0.2)
    with Broker({"stub": "stubborn"}) as broker:
        pid = broker.pid
        assert pid is not None
        with pytest.raises(TimeoutError, match="SIGTERM"):
            broker.stop()
        assert not is_alive(pid)


def test_one_that_ended_by_itself_can_be_started_again() -> None:
    with Broker() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not broker.is_running)
        broker.start()
        assert can_connect(broker)


def test_a_second_start_is_refused() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="running already"):
        broker.start()


PARENT = """
import os, sys, time
from tailrace.testing.broker import Broker
Broker.COMMAND = (sys.executable, sys.argv[1])
broker = Broker(data_dir=sys.argv[2] or None)
broker.start()
if sys.argv[3] == "forks" and os.fork() == 0:
    time.sleep(60)
print(broker.pid, broker.data_dir, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("forks", ["", "forks"])
@pytest.mark.parametrize("keeps", [False, True])
def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path, keeps: bool, forks: str) -> None:
    given = str(tmp_path) if keeps else ""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(STUB), given, forks],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    pid, data_dir = parent.stdout.readline().split()
    assert is_alive(int(pid))
    parent.kill()
    parent.wait()
    wait_until(lambda: not is_alive(int(pid)))
    assert Path(data_dir).exists() is keeps
    if forks:
        os.killpg(parent.pid, signal.SIGKILL)
    parent.stdout.close()


def test_it_survives_the_thread_that_started_it() -> None:
    from threading import Thread

    broker = Broker()
    thread = Thread(target=broker.start)
    thread.start()
    thread.join()
    try:
        assert can_connect(broker)
    finally:
        broker.close()
