"""What a session is made with, without starting one."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import pytest

from tailrace.spark import spark_session as module
from tailrace.spark.errors import OptionError, SparkMissingError
from tailrace.spark.java import Java
from tailrace.spark.spark_session import cores_of, is_local, session

pytest.importorskip("pyspark")

from tailrace.spark import worker_daemon


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the builder was told; nothing runs."""
    from pyspark.sql import SparkSession

    told: dict[str, str] = {}

    class Builder:
        def config(self, key: str, value: str) -> Builder:
            told[key] = value
            return self

        def getOrCreate(self) -> str:  # noqa: N802  # Spark's name
            return "session"

    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setattr(module, "_running", lambda: None)
    monkeypatch.setattr(module, "find_java", lambda: Java(module.Path("/jdk"), 17, "JAVA_HOME"))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "before")
    monkeypatch.delenv("SPARK_LOCAL_IP")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return told


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local-cluster[2,1,1024]", 2),
        ("local-cluster[2, 3, 1024]", 6),
    ],
)
def test_local_masters(master: str, cores: int) -> None:
    assert is_local(master)
    assert cores_of(master) == cores


@pytest.mark.parametrize("master", ["local[*]", "local[*,4]"])
def test_all_cores_of_the_machine(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 12)
    assert is_local(master)
    assert cores_of(master) == 12


@pytest.mark.parametrize("master", ["spark://a:7077", "yarn", "k8s://https://a", "localhost", "locally[2]"])
def test_other_masters_are_not_local(master: str) -> None:
    assert not is_local(master)


def test_a_local_session(built: dict[str, str]) -> None:
    assert session() == "session"
    assert built["spark.master"] == "local[*]"
    assert built["spark.app.name"] == "tailrace"
    assert built["spark.sql.session.timeZone"] == "UTC"
    assert built["spark.sql.execution.arrow.pyspark.enabled"] == "true"
    assert built["spark.sql.python.filterPushdown.enabled"] == "true"
    assert built["spark.ui.enabled"] == "false"
    assert built["spark.driver.host"] == built["spark.driver.bindAddress"] == "127.0.0.1"
    assert built["spark.python.daemon.module"] == worker_daemon.__name__
    assert "log4j2.properties" in built["spark.driver.extraJavaOptions"]
    assert module.os.environ["PYSPARK_PYTHON"] == module.os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert module.os.environ["JAVA_HOME"] == "/jdk"
    assert module.os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_cluster_keeps_its_python_and_addresses(built: dict[str, str]) -> None:
    session("counts", "spark://a:7077")
    assert (built["spark.master"], built["spark.app.name"]) == ("spark://a:7077", "counts")
    for local in ("spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled", "spark.python.daemon.module"):
        assert local not in built
    assert module.os.environ["PYSPARK_PYTHON"] == "before"
    assert "SPARK_LOCAL_IP" not in module.os.environ


def test_what_is_given_goes_before_what_is_ours(built: dict[str, str]) -> None:
    session(config={"spark.ui.enabled": True, "spark.sql.session.timeZone": "Asia/Tokyo", "spark.executor.cores": 2})
    assert built["spark.ui.enabled"] == "true"
    assert built["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert built["spark.executor.cores"] == "2"


def test_what_was_submitted_goes_before_what_is_ours(built: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    submitted = {"spark.master": "yarn", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.app.name": "nightly"}
    monkeypatch.setattr(module, "_submitted", lambda: submitted)
    session(config={"spark.executor.cores": 4})
    assert not submitted.keys() & built.keys()
    assert built["spark.executor.cores"] == "4"
    assert "spark.driver.extraJavaOptions" not in built
    assert module.os.environ["JAVA_HOME"] == "before", "the JVM runs already"


@pytest.mark.parametrize(("sees", "progress", "shown"), [(1, 1, "true"), (1, 0, "false"), (0, 1, "false")])
def test_bars_are_for_those_who_see_them(
    built: dict[str, str], monkeypatch: pytest.MonkeyPatch, sees: int, progress: int, shown: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: bool(sees))
    session(progress=bool(progress))
    assert built["spark.ui.showConsoleProgress"] == shown


def test_log_settings_of_the_users_stay(built: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    own = "-Dlog4j2.configurationFile=own.properties"
    session(config={"spark.driver.extraJavaOptions": own})
    assert built.pop("spark.driver.extraJavaOptions") == own
    monkeypatch.setenv("SPARK_CONF_DIR", "conf")
    session()
    assert "spark.driver.extraJavaOptions" not in built


def test_what_a_task_raises_is_not_logged_as_well() -> None:
    """It reaches whoever asked, who may tell it in a line."""
    lines = (resources.files("tailrace.spark") / module.LOG_SETTINGS).read_text().splitlines()
    settings = dict(line.split(" = ", 1) for line in lines if not line.startswith("#"))
    names = {value: key.removesuffix(".name") for key, value in settings.items() if key.endswith(".name")}
    for logger in ("executor.Executor", "scheduler.TaskSetManager"):
        assert settings[f"{names[f'org.apache.spark.{logger}']}.level"] == "off"


def test_options_of_the_users_for_java_go_beside_ours(built: dict[str, str]) -> None:
    session(config={"spark.driver.extraJavaOptions": "-Xss4m"})
    assert re.fullmatch(
        r'"-Dlog4j2.configurationFile=file://.*/log4j2.properties" -Xss4m', built["spark.driver.extraJavaOptions"]
    )


@pytest.mark.usefixtures("built")
def test_contradictions_and_connect_servers_are_refused() -> None:
    with pytest.raises(OptionError, match=r"spark\.master is 'local' and, in config, 'yarn'"):
        session(master="local", config={"spark.master": "yarn"})
    with pytest.raises(OptionError, match=r"builder\.remote"):
        session(master="sc://somewhere")


class Conf:
    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.values.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def isModifiable(self, key: str) -> bool:  # noqa: N802  # Spark's name
        return key.startswith("spark.sql.")


class Running:
    def __init__(self, values: dict[str, str]) -> None:
        self.conf = Conf(values)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    session_there = Running({"spark.master": "local[2]", "spark.sql.session.timeZone": "Asia/Tokyo"})
    monkeypatch.setattr(module, "_running", lambda: session_there)
    return session_there


@pytest.mark.parametrize("wishes", [{}, {"master": "local[2]"}, {"app_name": "other"}, {"progress": False}])
def test_a_session_that_is_there_is_returned_as_it_is(running: Running, wishes: Mapping[str, Any]) -> None:
    before = dict(running.conf.values)
    assert session(**wishes) is running
    assert running.conf.values == before


def test_a_session_that_is_there_takes_what_it_can_change(running: Running) -> None:
    assert session(config={"spark.sql.shuffle.partitions": 3}) is running
    assert running.conf.values["spark.sql.shuffle.partitions"] == "3"


def test_a_session_that_is_there_refuses_what_it_cannot(running: Running) -> None:
    before = dict(running.conf.values)
    with pytest.raises(
        OptionError, match=r"cannot change spark\.master: spark\.master is local\[2\]; stop\(\) it first"
    ):
        session(master="local[4]", config={"spark.sql.shuffle.partitions": 3})
    assert running.conf.values == before


def test_without_spark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    really: Callable[..., Any] = builtins.__import__

    def without_spark(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pyspark":
            raise ImportError("No module named 'pyspark'")
        return really(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_spark)
    with pytest.raises(SparkMissingError) as raised:
        session()
    assert raised.value.hint == "pip install 'tailrace[spark]'"
