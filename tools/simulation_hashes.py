"""Runs the seeds whose event-log hashes are committed, and compares or updates the hashes.

    python tools/simulation_hashes.py             the differences; exit code 1 if there are any
    python tools/simulation_hashes.py --update    write the present hashes

A hash changes with everything that changes what happens in a run: the simulator, and any behavior of a node that can be
seen from outside, or that takes another job or another operation of the disk. Update the hashes in the same commit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tailrace.sim.node_run import NodeRun, NodeRunParameters
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters

HASHES = Path(__file__).resolve().parent.parent / "tests/cluster/hashes.json"
SEEDS = range(1, 11)
"""Of each scenario."""
FAULTY_MS = 4_000

Hashes = dict[str, dict[str, str]]
"""By the name of the scenario, and by seed."""


def present_hashes() -> Hashes:
    nodes, quorum = NodeRunParameters(faulty_ms=FAULTY_MS), QuorumRunParameters(faulty_ms=FAULTY_MS)
    return {
        "nodes": {str(seed): NodeRun(seed, nodes).run().hash for seed in SEEDS},
        "quorum": {str(seed): QuorumRun(seed, quorum).run().hash for seed in SEEDS},
    }


def committed_hashes() -> Hashes:
    found: Hashes = json.loads(HASHES.read_text())
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the present hashes")
    options = parser.parse_args(arguments)
    present = present_hashes()
    if options.update:
        HASHES.write_text(json.dumps(present, indent=1) + "\n")
        return 0
    committed, wrong = committed_hashes(), 0
    for scenario, hashes in present.items():
        for seed, value in hashes.items():
            expected = committed.get(scenario, {}).get(seed)
            if value != expected:
                wrong += 1
                print(f"{scenario}, seed {seed}: {value}, committed {expected}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
