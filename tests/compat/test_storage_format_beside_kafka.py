"""`tailrace storage` and Kafka's StorageTool format the same bytes, and each understands what the other formatted."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.formatted import SHAPES, STORAGE_TOOL, THREE_CONTROLLERS, format_with_kafka
from support.kafka.formatted import content
from support.kafka.tools import run_tool
from tailrace.cli.main import main

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]


@pytest.mark.spec("RP-26")
@pytest.mark.parametrize("name", SHAPES)
def test_kafka_formats_the_same_bytes_and_reads_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shape, properties = SHAPES[name], tmp_path / "server.properties"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    format_with_kafka(shape, theirs)
    shape.write_properties(properties, theirs)
    assert main(["storage", "info", "-c", str(properties)]) == 0
    shape.write_properties(properties, ours)
    assert main(["storage", *shape.command(properties)]) == 0
    assert content(ours, THREE_CONTROLLERS) == content(theirs, THREE_CONTROLLERS)
    output, _ = run_tool(STORAGE_TOOL, "info", "-c", str(properties))  # exit code 0: no problem
    assert "Found metadata: {cluster.id=uViM5VGiQUWqVVgvr1gYxQ, directory.id=" in output
    assert "Found problem" not in output
    assert capsys.readouterr().err == ""


def test_kafka_leaves_our_directories_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape, properties = SHAPES["metadata-directory"], tmp_path / "server.properties"
    shape.write_properties(properties, tmp_path / "ours")
    assert main(["storage", *shape.command(properties)]) == 0
    output, _ = run_tool(STORAGE_TOOL, *shape.command(properties), "--ignore-formatted")
    assert output == "All of the log directories are already formatted.\n"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [[], ["-r", "3.9-IV0"], ["-r", "4.0-IV1"]], ids=" ".join)
def test_version_mapping_is_kafkas(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "version-mapping", *arguments]) == 0
    assert capsys.readouterr().out == run_tool(STORAGE_TOOL, "version-mapping", *arguments)[0]


def test_feature_dependencies_are_kafkas(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("eligible.leader.replicas", "group", "kraft", "share", "streams", "transaction")
    arguments = [part for name in names for part in ("--feature", f"{name}.version=1")]
    arguments += ["--feature", "metadata.version=25"]
    assert main(["storage", "feature-dependencies", *arguments]) == 0
    assert capsys.readouterr().out == run_tool(STORAGE_TOOL, "feature-dependencies", *arguments)[0]
