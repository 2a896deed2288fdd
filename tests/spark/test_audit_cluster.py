"""The same audit on threads of one JVM, on a local cluster, and on a standalone master with two workers.

What is found is the same everywhere. The program runs in a process of its own: a process has one session at most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.audit.scripted_audit import damage
from support.logs.data_dirs import DataDirectory
from support.spark.standalone import output_of, standalone
from tailrace.config.log import LogConfig

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parents[1] / "support" / "audit" / "cluster_program.py"
LARGE = LogConfig(segment_bytes=1 << 20, segment_index_bytes=80_000, index_interval_bytes=500)
RECORDS = 600


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Two brokers of one cluster; one of them has a damaged batch, a superseded key, and a record that is another."""
    first = DataDirectory(tmp_path / "first", node=1)
    first.add("large-0", RECORDS, config=LARGE)
    first.add("small-0")
    first.add("keys-0")
    first.cleaned(keys_0=first.bases("keys-0")[2])
    damage(first / "large-0" / f"{0:020d}.log", 50_000)
    second = DataDirectory(tmp_path / "second", node=2)
    second.add("large-0", RECORDS, config=LARGE)
    second.add("small-0", config=LARGE)
    return [str(first), str(second)]


def run_program(master: str, executors: int, folder: Path, paths: list[str]) -> dict[str, Any]:
    arguments = (master, str(executors), str(folder / "state"), *paths)
    found: dict[str, Any] = output_of(PROGRAM, folder, *arguments)
    return found


def check(found: dict[str, Any], paths: list[str]) -> None:
    first, second = found["first"], found["second"]
    shown = {(Path(each["file"]).parts[-3:-1], each["rule"]) for each in first["findings"]}
    assert (("first", "large-0"), "crc") in shown
    assert (("first", "keys-0"), "superseded-key") in shown
    assert {place for place, _ in shown} == {("first", "large-0"), ("first", "keys-0")}
    (crc,) = [each for each in first["findings"] if each["rule"] == "crc"]
    assert crc["offset"] is not None
    assert 0 < crc["position"] <= 50_000
    assert first["topics"]["large"]["records"] == 2 * RECORDS - 1
    assert first["partitions"] == 5
    assert second["findings"] == first["findings"]
    assert second["skipped_segments"] > 0
    assert second["read_bytes"] < first["read_bytes"]
    assert sorted(found["rows"], key=str) == sorted(first["findings"], key=str)
    assert {"list", "read", "confirm"} <= set(found["told"])


def test_on_threads(paths: list[str], tmp_path: Path) -> None:
    check(run_program("local[2]", 0, tmp_path, paths), paths)


def test_on_a_local_cluster(paths: list[str], tmp_path: Path) -> None:
    check(run_program("local-cluster[2,1,1024]", 2, tmp_path, paths), paths)


def test_on_a_standalone_master_with_two_workers(paths: list[str], tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        check(run_program(master, 2, tmp_path, paths), paths)
