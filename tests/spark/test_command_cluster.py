"""Searches and statistics from the command line, on a local cluster and on a standalone master with two workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.spark.directory_source import START_MS, write_log
from support.spark.standalone import output_of, standalone

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parents[1] / "support" / "spark" / "command_program.py"
RECORDS = 3000


def check(master: str, folder: Path) -> None:
    """Keys are offsets, one record a millisecond."""
    write_log(folder / "data" / "t-0", [20] * (RECORDS // 20))
    where = ("--path", str(folder / "data"))
    commands = [
        ["find", "t", "--key", "1234", *where],
        ["find", "t", "--at", f"@{START_MS + 500}", "--around", "2ms", *where],
        ["find", "t", "--where", "key_text LIKE '29_9'", *where],
        ["find", "t", "--key", "7", "--aborted", *where],
        ["stats", "t", *where],
    ]
    found = output_of(PROGRAM, folder, master, json.dumps(commands))
    assert [code for code, _ in found] == [0] * len(commands), found
    offsets = [[item["offset"] for item in items if item["type"] == "record"] for _, items in found]
    assert offsets[:4] == [[1234], list(range(498, 503)), list(range(2909, 3000, 10)), [7]]
    (figures,) = found[4][1]
    assert (figures["records"], figures["keys"]["distinct"]) == (RECORDS, RECORDS)


def test_on_a_local_cluster(tmp_path: Path) -> None:
    check("local-cluster[2,1,1024]", tmp_path)


def test_on_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        check(master, tmp_path)
