"""One server for all clients, and one driver for each client library.

The server is Tailrace. With `--against-kafka` it is a real Apache Kafka, which shows that a test asks for what Kafka
does; `--against-kafka=HOST:PORT` takes one that runs already.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from client_driver import DRIVERS
from client_servers import Server, kafka_server, our_server

from support.kafka.tools import TOOLS, run_tool

if TYPE_CHECKING:
    from confluent_driver import ConfluentDriver

DRIVER_FIXTURES = ("writer", "admin", "reader", "teller", "transactor")
READERS = ("confluent-kafka", "kafka-python", "aiokafka")  # kafkajs reads only as a member of a group


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    against = request.config.getoption("--against-kafka")
    if against == "start":
        request.getfixturevalue("kafka_jars")
        with kafka_server(tmp_path_factory.mktemp("kafka")) as kafka:
            yield kafka
    elif against:
        yield Server(against, is_ours=False)
    else:
        with our_server() as ours:
            yield ours


@pytest.fixture
def server_of_my_own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """One that the test may stop and start."""
    against = request.config.getoption("--against-kafka")
    if against and against != "start":
        pytest.skip("only a server that is started here can be stopped")
    if against:
        request.getfixturevalue("kafka_jars")
    with kafka_server(tmp_path) if against else our_server() as mine:
        yield mine


@pytest.fixture(scope="session")
def driver_named(server: Server) -> Iterator[Callable[[str], Any]]:
    """A driver by the name of its library, made when it is first asked for."""
    made: dict[str, Any] = {}

    def named(name: str) -> Any:
        if name not in made:
            module, kind = DRIVERS[name]
            try:
                made[name] = getattr(importlib.import_module(module), kind)(server.address)
            except FileNotFoundError as reason:
                pytest.skip(str(reason))
        return made[name]

    yield named
    for driver in made.values():
        driver.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture in DRIVER_FIXTURES:
        if fixture in metafunc.fixturenames:
            names = READERS if fixture == "reader" else tuple(DRIVERS)
            metafunc.parametrize(fixture, names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def writer(request: pytest.FixtureRequest, driver_named: Callable[[str], Any]) -> Any:
    """Each library, to send with."""
    return driver_named(request.param)


@pytest.fixture(scope="session")
def reader(request: pytest.FixtureRequest, driver_named: Callable[[str], Any]) -> Any:
    """Each library that reads by assignment."""
    return driver_named(request.param)


@pytest.fixture(scope="session")
def teller(request: pytest.FixtureRequest, driver_named: Callable[[str], Any]) -> Any:
    """Each library, to ask about offsets."""
    return driver_named(request.param)


@pytest.fixture(scope="session")
def transactor(request: pytest.FixtureRequest, driver_named: Callable[[str], Any]) -> Any:
    """Each library, for groups' offsets and transactions."""
    return driver_named(request.param)


@pytest.fixture(scope="session")
def admin(request: pytest.FixtureRequest, driver_named: Callable[[str], Any]) -> Any:
    """Each library, to administer with."""
    return driver_named(request.param)


@pytest.fixture(scope="session")
def helper(driver_named: Callable[[str], Any]) -> ConfluentDriver:
    """The library that does what a test needs done and does not look at."""
    return driver_named("confluent-kafka")


@pytest.fixture(scope="session")
def all_readers(driver_named: Callable[[str], Any]) -> list[Any]:
    return [driver_named(name) for name in READERS]


@pytest.fixture(scope="session")
def everybody(driver_named: Callable[[str], Any]) -> list[Any]:
    return [driver_named(name) for name in DRIVERS]


@pytest.fixture
def tool(server: Server) -> Callable[..., str]:
    """Runs a tool of Kafka's by the name of its class, with the server's address; what it prints."""

    def run(name: str, *arguments: str, stdin: str | None = None) -> str:
        full = name if name.startswith(("kafka.", "org.")) else TOOLS + name
        output, _ = run_tool(full, "--bootstrap-server", server.address, *arguments, stdin=stdin)
        return output

    return run


@pytest.fixture
def name() -> str:
    """Of a topic that does not exist."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(name: str, helper: ConfluentDriver) -> str:
    """A fresh topic of one partition, that takes what its producers give it."""
    helper.create_topic(name)
    return name
