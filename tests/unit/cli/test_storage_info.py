"""`tailrace storage info` and the commands that explain ids, releases and features."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden.formatted import CLUSTER_ID, GOLDEN, SHAPES
from tailrace.cli import storage_text
from tailrace.cli.main import main
from tailrace.cli.storage_items import metadata_item
from tailrace.model.ids import DirectoryId
from tailrace.raft.inspection import Beginning, Inspection
from tailrace.raft.snapshot import SnapshotHead
from tailrace.raft.voters import Voter


def config_of(folder: Path, name: str) -> str:
    path = folder / "server.properties"
    SHAPES[name].write_properties(path, GOLDEN / name)
    return str(path)


def test_info_shows_kafkas_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "info", "-c", config_of(tmp_path, "metadata-directory"), "--json"]) == 0
    metadata, *directories = map(json.loads, capsys.readouterr().out.splitlines())
    assert metadata["cluster_id"] == CLUSTER_ID
    assert metadata["node_id"] == 1
    assert metadata["release"] == "4.3-IV0"
    assert metadata["kraft_version"] == 1
    assert metadata["controllers"] == [f"1@127.0.0.1:9093:{directories[-1]['directory_id']}"]
    assert (metadata["log_end"], metadata["log_epoch"], metadata["voters"]) == (0, 0, metadata["controllers"])
    assert [each["holds"] for each in directories] == ["data", "data", "metadata"]
    assert {each["state"] for each in directories} == {"formatted"}
    assert len({each["directory_id"] for each in directories}) == 3


def test_info_fails_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Path(config_of(tmp_path, "static"))
    config.write_text(config.read_text().replace("log.dirs=", f"log.dirs={tmp_path}/nowhere,{tmp_path},"))
    assert main(["storage", "info", "--config", str(config)]) == 1
    output, errors = capsys.readouterr()
    assert [line.split()[0] for line in output.splitlines()] == ["metadata", "directory", "directory", "directory"]
    assert errors == (
        f"error: {tmp_path} is not formatted\nhint: format it with `tailrace storage format`\n"
        f"error: {tmp_path}/nowhere does not exist\nhint: `tailrace storage format` creates and formats it\n"
    )
    assert main(["storage", "info", "--config", str(config), "--json"]) == 1
    output, errors = capsys.readouterr()
    problems = [each for each in map(json.loads, output.splitlines()) if each["type"] == "problem"]
    assert [each["problem"] for each in problems] == [
        f"{tmp_path} is not formatted",
        f"{tmp_path}/nowhere does not exist",
    ]
    assert all(each["hint"] for each in problems)
    assert errors == ""


def test_a_terminal_gets_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("controllers-2", "static"):
        main(["storage", "info", "-c", config_of(tmp_path, name), "--json"])
        storage_text.show_storage([json.loads(line) for line in capsys.readouterr().out.splitlines()])
        output = capsys.readouterr().out
        assert f"cluster {CLUSTER_ID}" in output
        assert "metadata.version 4.3-IV0" in output
        assert ("MvDxzVmcRsaTz33bUuRU6A" in output) is (name == "controllers-2")
        assert ("1@controller-1.example.com:9093:JEXY6aqzQY-32P5TStzaFg" in output) is (name == "controllers-2")
    storage_text.show_storage(
        [{"type": "directory", "path": "/x", "holds": "data", "state": "missing", "directory_id": None}]
    )
    assert "missing" in capsys.readouterr().out


def test_a_voter_without_addresses_is_shown() -> None:
    voter = Voter(7, DirectoryId.parse("JEXY6aqzQY-32P5TStzaFg"))
    inspection = Inspection((), Beginning({"metadata.version": 99}, SnapshotHead(0, 1, (voter,))), None, (), ())
    item = metadata_item(inspection)
    assert item["controllers"] == ["7@:JEXY6aqzQY-32P5TStzaFg"]
    assert (item["cluster_id"], item["release"]) == (None, None)


def test_random_uuid_prints_a_directory_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "random-uuid"]) == 0
    assert main(["storage", "random-uuid"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first != second
    assert not DirectoryId.parse(first).is_reserved


def test_version_mapping_prints_what_kafkas_tool_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "version-mapping"]) == 0
    assert capsys.readouterr().out == (
        "metadata.version=30 (4.3-IV0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
        "eligible.leader.replicas.version=1\nshare.version=1\nstreams.version=1\n"
    )
    assert main(["storage", "version-mapping", "-r", "3.9", "--json"]) == 0
    items = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert items[:2] == [
        {"type": "feature", "feature": "metadata.version", "level": 21, "release": "3.9-IV0"},
        {"type": "feature", "feature": "kraft.version", "level": 1},
    ]
    assert {each["level"] for each in items[2:]} == {0}
    assert main(["storage", "version-mapping", "--release-version", "9.9"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no release 9.9\nhint: releases are 3.3-IV3 to 4.3-IV0")


def test_feature_dependencies_prints_what_kafkas_tool_prints(capsys: pytest.CaptureFixture[str]) -> None:
    features = ["-f", "eligible.leader.replicas.version=1", "-f", "kraft.version=1", "-f", "metadata.version=25"]
    assert main(["storage", "feature-dependencies", *features]) == 0
    assert capsys.readouterr().out == (
        "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        "kraft.version=1 has no dependencies.\nmetadata.version=25 (4.0-IV3) has no dependencies.\n"
    )
    assert main(["storage", "feature-dependencies", *features[:2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requires"] == {"metadata.version": 23}
    for wrong in ("foo=1", "share.version=7", "metadata.version=99", "share.version", "share.version=x", "=1"):
        assert main(["storage", "feature-dependencies", "-f", wrong]) == 1
        assert "\nhint: " in capsys.readouterr().err
