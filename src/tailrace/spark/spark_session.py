"""A Spark session that works: with a Java, this interpreter in its workers, and what the source and sink go well with.

On a laptop nothing has to be installed or set before. On a cluster, whose machines have their own Python and Java, only
settings of the session are made, and what `spark-submit` was given goes before all of them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.spark.errors import OptionError, SparkMissingError
from tailrace.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP_NAME: Final = "tailrace"
MASTER: Final = "local[*]"
LOOPBACK: Final = "127.0.0.1"
TASKS_PER_CORE: Final = 2
"""Of a shuffle on a local master. Spark's 200 take a stream seconds for a handful of rows."""

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
LOG_SETTINGS: Final = "log4j2.properties"
LOG_OPTION: Final = "-Dlog4j2.configurationFile"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
WORKER_DAEMON: Final = "tailrace.spark.worker_daemon"
"""Workers end quietly when Spark needs no more of their rows. On a cluster nodes may not have this module."""

_LOCAL = re.compile(r"local(?:\[(?P<cores>[^\],]+).*\]|-cluster\[(?P<workers>\d+),\s*(?P<each>\d+),.*\])?")


def session(
    app_name: str | None = None,
    master: str | None = None,
    config: Mapping[str, object] | None = None,
    *,
    progress: bool = True,
) -> SparkSession:
    """The session that is there already, or a new one.

    `master` is `local[*]` where neither this nor `spark-submit` says otherwise. `config` are Spark's own settings, and
    go before ours. `progress` shows bars while jobs run, on a terminal and in a notebook. A session that is there keeps
    its settings but for those in `config`; what a running session cannot change is refused.
    """
    wanted = {key: _text(value) for key, value in (config or {}).items()}
    for key, value in (("spark.master", master), ("spark.app.name", app_name)):
        if value is not None and wanted.setdefault(key, value) != value:
            raise OptionError(f"{key} is {value!r} and, in config, {wanted[key]!r}; give it once")
    running = _running()
    return _started(wanted, progress=progress) if running is None else _adjusted(running, wanted)


# A session that is there


def _running() -> SparkSession | None:
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissingError(f"Spark is not installed: {error}") from error
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()  # made by another thread, or only a context so far
    return active


def _adjusted(running: SparkSession, wanted: Mapping[str, str]) -> SparkSession:
    changed = {key: value for key, value in wanted.items() if running.conf.get(key, None) != value}
    changed.pop("spark.app.name", None)  # a name is no reason to refuse a session
    fixed = sorted(key for key in changed if not running.conf.isModifiable(key))
    if fixed:
        found = ", ".join(f"{key} is {running.conf.get(key, None)}" for key in fixed)
        raise OptionError(
            f"a session is running already, and cannot change {', '.join(fixed)}: {found}; stop() it first"
        )
    for key, value in changed.items():
        running.conf.set(key, value)
    return running


# A new session


def _started(wanted: Mapping[str, str], *, progress: bool) -> SparkSession:
    from pyspark.sql import SparkSession

    submitted = _submitted()
    master = wanted.get("spark.master") or submitted.get("spark.master") or MASTER
    if master.startswith("sc://"):
        raise OptionError(f"master {master!r} is a Spark Connect server; take SparkSession.builder.remote({master!r})")
    ours = {**SETTINGS, "spark.master": master, "spark.app.name": APP_NAME, **_shown(progress=progress)}
    if is_local(master):
        _prepare_local_environment()
        ours |= _local_settings(master)
    settings = {key: value for key, value in ours.items() if key not in submitted} | dict(wanted)
    if not _is_submitted():
        os.environ["JAVA_HOME"] = str(find_java().home)
        settings |= _quiet(wanted.get(JAVA_OPTIONS, ""))
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def is_local(master: str) -> bool:
    """Whether everything runs on this machine and for this program alone."""
    return _LOCAL.fullmatch(master) is not None


def cores_of(master: str) -> int:
    """Of a local master: how many tasks run at a time."""
    found = _LOCAL.fullmatch(master)
    if found is None or found["workers"]:
        return int(found["workers"]) * int(found["each"]) if found else 1
    cores = found["cores"] or "1"
    return int(cores) if cores.isdecimal() else os.cpu_count() or 1


def _is_submitted() -> bool:
    """By `spark-submit`, which starts the JVM first and this program from it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> dict[str, str]:
    """What `spark-submit` was given, with the cluster's defaults; nothing for a program started by itself."""
    if not _is_submitted():
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _prepare_local_environment() -> None:
    """For the JVM, which hands it on. Workers must be this interpreter: another one has neither us nor our version."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def _local_settings(master: str) -> dict[str, str]:
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.python.daemon.module": WORKER_DAEMON,
        "spark.sql.shuffle.partitions": str(max(TASKS_PER_CORE * cores_of(master), 2)),
    }


def _shown(*, progress: bool) -> dict[str, str]:
    """Bars where somebody sees them."""
    somebody_sees = sys.stderr.isatty() or "ipykernel" in sys.modules
    return {"spark.ui.showConsoleProgress": _text(progress and somebody_sees)}


def _quiet(options: str) -> dict[str, str]:
    """Errors only, of a JVM that is started here with these options of the user's. Log settings of their own stay."""
    log_settings = resources.files("tailrace.spark") / LOG_SETTINGS
    has_own = "SPARK_CONF_DIR" in os.environ or LOG_OPTION in options
    if has_own or not isinstance(log_settings, Path):
        return {}
    return {JAVA_OPTIONS: f'"{LOG_OPTION}={log_settings.as_uri()}" {options}'.strip()}


def _text(value: object) -> str:
    """As Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
