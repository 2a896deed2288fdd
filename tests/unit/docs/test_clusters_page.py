"""The page on clusters runs on real processes, from forming a cluster to the repair of a lost quorum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.docs.cluster_page_run import ClusterPageRun
from support.docs.page_blocks import ROOT
from support.docs.page_run import tailrace

PAGE = ROOT / "docs" / "operations" / "clusters.md"


@pytest.mark.long
def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with ClusterPageRun(PAGE, tmp_path, request.getfixturevalue) as running:
        running.run()
        code, output, errors = tailrace(["cluster", "quorum", "--json"], b"")
        assert code == 0, errors
        quorum, *replicas = map(json.loads, output.splitlines())
        assert (quorum["voters"], quorum["problems"], quorum["kraft_version"]) == (3, [], 1)
        assert {each["node"] for each in replicas if each["role"] != "observer"} == {1, 2, 3}
        assert b"topic=orders" in tailrace(["topic", "list"], b"")[1]
