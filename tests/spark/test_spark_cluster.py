"""The same program on a local cluster and on a standalone master with two workers: every executor a process of its own.

The program runs as one of its own too, since a process has one Spark session at most.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.spark.standalone import output_of, standalone
from support.spark.topics import Topics

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parents[1] / "support" / "spark" / "cluster_program.py"
ROWS = 1000


def run_program(master: str, topics: Topics, folder: Path) -> None:
    topic, batch_copy, stream_copy = (
        topics.filled(ROWS, partitions=2),
        topics.make("batch", 3),
        topics.make("stream", 3),
    )
    arguments = (master, topics.bootstrap_servers, topic, batch_copy, stream_copy, str(folder))
    found = output_of(PROGRAM, folder, *arguments)
    assert found == {"count": ROWS, "sum": sum(range(ROWS)), "batches": 2}
    expected = sorted(b"%d" % number for number in range(ROWS))
    assert topics.values(batch_copy) == expected
    assert topics.values(stream_copy) == expected


def test_on_a_local_cluster(topics: Topics, tmp_path: Path) -> None:
    run_program("local-cluster[2,1,1024]", topics, tmp_path)


def test_on_a_standalone_master_with_two_workers(topics: Topics, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run_program(master, topics, tmp_path)
