"""Lets the JVMs of Spark start in less than half the time: an archive of loaded classes, and no optimizing compiler.

A short Spark program spends most of its time loading and compiling Spark's classes. A whole run of the tests makes the
archive in the background, in the virtual environment, once for each Java and PySpark. A JVM that finds no archive, or
one of another Java, loads its classes as usual.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import Final

import pytest

JVM_OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # read by the command that starts a driver's JVM
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
FOLDERS: Final = ("tests/spark/", "tests/unit/spark/")
MANY_TESTS: Final = 200
"""A run with as many Spark tests as this gains more by an archive than it costs."""
MAKER: Final = pytest.StashKey[subprocess.Popen[bytes]]()

PROGRAM: Final = """
from pyspark.sql import SparkSession, functions as f

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(1000).select("id", (f.col("id") % 7).alias("key"), f.col("id").cast("string").alias("text"))
rows.groupBy("key").agg(f.count("*"), f.max("text")).orderBy("key").collect()
rows.mapInArrow(lambda batches: batches, rows.schema).join(rows, "id").toPandas()
spark.createDataFrame([(1, {"a": [1.5]})], "id int, map map<string, array<double>>").selectExpr("to_json(map)").show()
rows.repartition(2).write.parquet(FOLDER + "/rows")
stream = spark.readStream.schema(rows.schema).parquet(FOLDER + "/rows")
query = stream.writeStream.option("checkpointLocation", FOLDER + "/checkpoint")
query.foreachBatch(lambda batch, number: batch.count()).trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def archive_path() -> Path | None:
    """Where the archive is, or will be; None where there is no Spark or no Java."""
    java = shutil.which("java", path=_java_path())
    if java is None or util.find_spec("pyspark") is None:
        return None
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr
    key = hashlib.sha256(java.encode() + version).hexdigest()[:12]
    return Path(sys.prefix) / "spark-classes" / f"{metadata.version('pyspark')}-{key}.jsa"


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.pathsep.join([*([f"{home}/bin"] if home else []), os.environ.get("PATH", os.defpath)])


def make_archive(archive: Path) -> None:
    """Run a program that loads what tests load, and keep its classes. Only one process does it at a time."""
    archive.parent.mkdir(exist_ok=True)
    with (archive.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        made, log = Path(folder) / archive.name, archive.parent / "failed.txt"
        options = f"{QUICK} -XX:ArchiveClassesAtExit={made}"
        variables = {**os.environ, JVM_OPTIONS: options, "PYSPARK_PYTHON": sys.executable}
        program = f"FOLDER = {folder!r}\n{PROGRAM}"
        done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=False)
        if done.returncode == 0 and made.exists():
            made.replace(archive)
            log.unlink(missing_ok=True)
        else:
            log.write_bytes(done.stdout + done.stderr)


def pytest_configure(config: pytest.Config) -> None:
    archive = archive_path()
    options = f"{QUICK} -XX:SharedArchiveFile={archive}" if archive else QUICK
    given = os.environ.get(JVM_OPTIONS, "")
    if options not in given:  # workers have it from the process that started them
        os.environ[JVM_OPTIONS] = f"{given} {options}".strip()


def pytest_collection_finish(session: pytest.Session) -> None:
    spark_tests = sum(item.nodeid.startswith(FOLDERS) for item in session.items)
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if spark_tests >= MANY_TESTS and is_first:
        archive = archive_path()
        if archive is not None and not archive.exists():
            session.config.stash[MAKER] = subprocess.Popen([sys.executable, __file__, str(archive)])


def pytest_unconfigure(config: pytest.Config) -> None:
    maker = config.stash.get(MAKER, None)
    if maker is not None:
        maker.wait()


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]))
