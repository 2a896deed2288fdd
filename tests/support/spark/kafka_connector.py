"""Spark's own Kafka connector, in a PySpark 4.2.0 environment of its own, with Tailrace's source beside it.

The environment and the jars are made once, in a cache folder (`SPARK_CONNECTOR`, or one below the user's cache). Maven
does not always have the connector's token-provider module in the connector's own version; it hands out tokens, which
nothing here uses, and any version of it will do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("connector_rows.py")
VERSION = "4.2.0"
GROUP = "org.apache.spark"
JARS = (
    f"{GROUP}:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
TOKEN_PROVIDER = f"{GROUP}:spark-token-provider-kafka-0-10_2.13"
TOKEN_PROVIDER_VERSIONS = (VERSION, "4.1.0-preview1", "4.0.0")
PACKAGES = (f"pyspark=={VERSION}", "pandas<3", "pyarrow>=18,<28")
TIMEOUT_S = 500.0


def folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SPARK_CONNECTOR") or Path(cache) / f"spark-connector-{VERSION}")


def why_unavailable() -> str | None:
    """The reason why the connector cannot run here, or None; makes what is not there yet."""
    if shutil.which("java") is None:
        return "Spark's connector needs Java, and there is no java on the PATH"
    if (folder() / "done").exists():
        return None
    if shutil.which("mvn") is None:
        return "Spark's connector is not here yet, and there is no mvn on the PATH to fetch it"
    return _fetched_jars() or _made_environment()


def _fetched_jars() -> str | None:
    for artifact in JARS:
        problem = _fetched(artifact)
        if problem:
            return problem
    problems = []
    for version in TOKEN_PROVIDER_VERSIONS:
        problem = _fetched(f"{TOKEN_PROVIDER}:{version}")
        if problem is None:
            return None
        problems.append(problem)
    return "; ".join(problems)


def _fetched(artifact: str) -> str | None:
    """Only this one, into the folder; why not, or None."""
    command = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:copy"]
    done = _run([*command, f"-Dartifact={artifact}", f"-DoutputDirectory={folder() / 'jars'}"])
    if done.returncode == 0:
        return None
    told = [line for line in done.stdout.splitlines() if "Could not" in line]
    return f"Maven does not have {artifact}: {told[0][-300:] if told else f'exit code {done.returncode}'}"


def _made_environment() -> str | None:
    python = folder() / "venv" / "bin" / "python"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder() / "venv")],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES, *needed],
    ):
        done = _run(command)
        if done.returncode != 0:
            return f"no environment with PySpark {VERSION}: {done.stdout[-500:]}"
    (folder() / "done").touch()
    return None


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def answers(work: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """What both say of the work (see `connector_rows.py`), from one Spark session."""
    question, answer = scratch / "work.json", scratch / "answers.json"
    question.write_text(json.dumps({**work, "jars": [str(path) for path in (folder() / "jars").glob("*.jar")]}))
    python = str(folder() / "venv" / "bin" / "python")
    done = subprocess.run(
        [python, str(SCRIPT), str(question), str(answer)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=scratch,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return json.loads(answer.read_text())
