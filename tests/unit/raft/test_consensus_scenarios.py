"""The scenarios of the consensus core do what their files say. See `support.consensus.scenario` for the commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.consensus.scenario import play

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
REWRITE = "TAILRACE_REWRITE_SCENARIOS"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected, actual = play(path)
    if REWRITE in os.environ:
        path.write_text(actual)
    else:
        assert actual == expected, f"if this is right, set {REWRITE}=1 and run again"


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 30
