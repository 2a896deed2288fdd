"""Run the own tests of a client library against a server that runs already; nothing of them is kept here.

    python tools/foreign_suites.py kafka-python|aiokafka|confluent-kafka SOURCE HOST:PORT [ARGUMENT OF PYTEST]…

SOURCE is the library's unpacked source, with its tests; the library itself, pytest and what its tests need must be
installed (`--help` names it). The suites expect to start servers with Docker or scripts of their own. A plugin, this
file once more, answers in their place that there is one, and leaves out what needs TLS, SASL, a schema registry or a
second broker. The server wants the settings of `SETTINGS`, which is what the suites give theirs.

Prints passed, failed and skipped, and the name of each test that did not pass.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",  # 2 for aiokafka
    "offsets.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
}
ADDRESS = "FOREIGN_SUITES_ADDRESS"
KAFKA_VERSION = "4.3.1"
LOOP = ("-o", "asyncio_default_fixture_loop_scope=function", "-W", "default")  # their pytest is an older one


class Suite(NamedTuple):
    needs: str
    arguments: tuple[str, ...]
    environment: dict[str, str]


SUITES = {
    "kafka-python": Suite(
        "kafka-python pytest pytest-mock pytest-timeout python-snappy lz4 zstandard crc32c",
        ("test/integration", "--ignore=test/integration/test_ssl_integration.py"),
        {"KAFKA_VERSION": KAFKA_VERSION},
    ),
    "aiokafka": Suite(
        "aiokafka pytest pytest-mock pytest-asyncio pytest-timeout cramjam",
        ("tests", "--ignore=tests/test_sasl.py", "-m", "not ssl", "--docker-image", f"any:2.13_{KAFKA_VERSION}", *LOOP),
        {},
    ),
    "confluent-kafka": Suite(
        "confluent-kafka[avro,json,protobuf,schemaregistry] pytest pytest-asyncio pytest-timeout requests-mock respx",
        (
            *(f"tests/integration/{part}" for part in ("admin", "consumer", "producer", "share_consumer")),
            *("-k", "not schema_registry and not sasl_cluster"),
        ),
        {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"},
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [f"{name}: pip install {suite.needs}" for name, suite in SUITES.items()]
            + [f"the server: {name}={value}" for name, value in SETTINGS.items()]
        ),
    )
    parser.add_argument("library", choices=SUITES)
    parser.add_argument("source", type=Path)
    parser.add_argument("address")
    arguments, more = parser.parse_known_args()
    suite = SUITES[arguments.library]
    result = Path.cwd() / f"{arguments.library}.xml"
    environment = {
        **os.environ,
        **suite.environment,
        ADDRESS: arguments.address,
        "KAFKA_URI": f"kafka://{arguments.address}",
        "BROKERS": arguments.address,
        "PYTHONPATH": str(Path(__file__).resolve().parent),
    }
    options = ["-q", "--timeout=180", "-p", "no:cacheprovider", "-p", "foreign_suites", f"--junitxml={result}"]
    command = [sys.executable, "-m", "pytest", *suite.arguments, *options, *more]
    subprocess.run(command, cwd=arguments.source, env=environment, check=False)
    return _told(result)


def _told(result: Path) -> int:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ElementTree.parse(result).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        counts[outcome] += 1
        if outcome != "passed":
            print(f"{outcome} {case.get('classname')}.{case.get('name')}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


# The plugin. aiokafka's tests ask Docker for a server; confluent-kafka's import what would start one.


def _stand_in() -> None:
    """For the modules with which they would; before any conftest of theirs is loaded."""
    for name in ("docker", "docker.models", "docker.models.containers", "trivup", "trivup.clusters"):
        sys.modules.setdefault(name, types.ModuleType(name))
    docker = sys.modules["docker"]
    docker.models = SimpleNamespace(containers=SimpleNamespace(Container=object))  # type: ignore[attr-defined]
    docker.from_env = lambda: SimpleNamespace(close=lambda: None)  # type: ignore[attr-defined]
    cluster = types.ModuleType("trivup.clusters.KafkaCluster")
    cluster.KafkaCluster = object  # type: ignore[attr-defined]
    sys.modules["trivup.clusters.KafkaCluster"] = cluster


def _server() -> Any:
    host, _, port = os.environ[ADDRESS].rpartition(":")
    return SimpleNamespace(
        host=host, port=int(port), hosts=[os.environ[ADDRESS]], ssl_port=0, sasl_plain_port=0, sasl_ssl_port=0
    )


ANSWERS = {
    "kafka_image": lambda: KAFKA_VERSION,
    "kafka_server": _server,
    "ssl_folder": lambda: pytest.skip("needs TLS"),
    "acl_manager": lambda: None,
    "kerberos_utils": lambda: None,
    "kafka_config": lambda: None,
}


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    answer = ANSWERS.get(fixturedef.argname)
    if answer is None or not fixturedef.baseid.startswith("tests"):
        return None
    # `setup_test_class` of aiokafka wants the folder for all its tests, also for those that use no TLS.
    wants_folder = fixturedef.argname == "ssl_folder" and request._pyfuncitem.get_closest_marker("ssl") is None
    value = Path() if wants_folder else answer()
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value if value is not None else False


if __name__ == "__main__":
    sys.exit(main())
_stand_in()
