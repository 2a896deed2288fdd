"""Which topics an audit takes for compacted, and what it says of gaps in them that their own cleaner did not make."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audit.logs import LogDirectory, table
from support.audit.pieces import audited, batch, batches, faults
from support.logs.data_dirs import DataDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.protocol.record_frame import encode_metadata_record
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.record.builder import batch_of
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job import compacted_topics
from tailrace.spark.auditing.job.listing import find_places, list_again
from tailrace.spark.auditing.rules import COMPACTED_GAP, OFFSET_GAP, RULES, TRUNCATED
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()
LONG_NAME = "long." * 49


def compacted(*directories: object) -> list[str]:
    folders = find_places(FILES, [str(directory) for directory in directories]).folders
    return sorted({folder.partition.topic for folder in folders if folder.is_compacted})


def looked_at(directory: DataDirectory) -> list[Finding]:
    """Errors and warnings, without a JVM."""
    run = AuditRun(LocalSpark(), FILES, find_places(FILES, [str(directory)], ["table"]), pause=lambda _: None)  # type: ignore[arg-type]
    run.read()
    return list(run.report([str(directory)], frozenset(RULES), notes=False).findings)


def configure(directory: DataDirectory, *policies: tuple[int, str, str | None], name: str = "cleanup.policy") -> None:
    folder = directory / "__cluster_metadata-0"
    folder.mkdir(exist_ok=True)
    records = [
        (
            1,
            None,
            encode_metadata_record(ConfigRecord(resource_type=kind, resource_name=topic, name=name, value=value), 0),
        )
        for kind, topic, value in policies
    ]
    (folder / "00000000000000000000.log").write_bytes(batch_of(records))


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    for name in ("orders-0", "orders-1", "clicks-0", f"{LONG_NAME}-0"):
        directory.add(name, 10)
    return directory


class TestWhichAreCompacted:
    def test_those_of_which_any_partition_was_cleaned_by_any_broker(self, data: DataDirectory, tmp_path: Path) -> None:
        assert compacted(data) == []
        data.checkpoint("cleaner-offset-checkpoint", {"orders-1": 5})
        assert compacted(data) == ["orders"]
        other = DataDirectory(tmp_path / "other", node=2)
        other.add("orders-0", 10)
        assert compacted(other) == []
        assert {folder.is_compacted for folder in find_places(FILES, [str(other), str(data)], ["orders"]).folders} == {
            True
        }

    def test_not_those_of_another_cluster(self, data: DataDirectory, tmp_path: Path) -> None:
        data.checkpoint("cleaner-offset-checkpoint", {"orders-1": 5})
        other = DataDirectory(tmp_path / "other")
        other.add("orders-7", 10)
        (other / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
        places = find_places(FILES, [str(data), str(other)], ["orders"])
        assert [folder.is_compacted for folder in places.folders] == [True, True, False]

    def test_those_of_which_the_metadata_log_says_so(self, data: DataDirectory) -> None:
        configure(data, (2, "orders", "compact"), (2, LONG_NAME, "delete,compact"), (2, "clicks", "delete"))
        assert compacted(data) == [LONG_NAME, "orders"]
        configure(data, (4, "orders", "compact"), (2, "clicks", None))
        assert compacted(data) == []
        configure(data, (2, "orders", "compact"), name="compression.type")
        assert compacted(data) == []

    def test_records_between_two_parts_of_the_metadata_log(
        self, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configure(data, *((2, f"topic-{number}", "compact") for number in range(30)), (2, "orders", "compact"))
        for size in (7, 64, 1000):
            monkeypatch.setattr(compacted_topics, "_CHUNK_BYTES", size)
            assert compacted(data) == ["orders"]

    def test_a_second_look_does_not_forget(self, data: DataDirectory) -> None:
        configure(data, (2, "orders", "compact"))
        folder = next(each for each in find_places(FILES, [str(data)], ["orders"]).folders)
        assert list_again(FILES, folder).is_compacted
        clicks = next(each for each in find_places(FILES, [str(data)], ["clicks"]).folders)
        assert not list_again(FILES, clicks).is_compacted
        data.checkpoint("cleaner-offset-checkpoint", {"clicks-0": 5})
        assert list_again(FILES, clicks).is_compacted


def test_gaps_above_the_point_of_a_compacted_topic_are_one_note(tmp_path: Path) -> None:
    parts = batches((3, 1, 4, 1, 5, 2))
    data = b"".join(parts[:2] + parts[3:4] + parts[5:])
    assert {finding.rule for finding in faults(audited(tmp_path / "a", data))} == {OFFSET_GAP}
    (found,) = (
        each for each in audited(tmp_path / "b", data, is_compacted=True).findings if each.rule == COMPACTED_GAP
    )
    assert (found.offset, found.position, found.severity) == (4, len(parts[0] + parts[1]), "note")
    assert found.words.startswith("9 offsets are missing from here on")
    result = audited(tmp_path / "c", data, is_compacted=True, cleaned_to=9)
    (found,) = (each for each in result.findings if each.rule == COMPACTED_GAP)
    assert found.offset == 9
    result = audited(tmp_path / "d", data, is_compacted=True, cleaned_to=16)
    assert COMPACTED_GAP not in {finding.rule for finding in result.findings}


def test_what_stands_twice_is_a_fault_in_a_compacted_topic_too(tmp_path: Path) -> None:
    data = b"".join((batch(0, 3), batch(5, 2), batch(5, 2), batch(9, 1)))
    assert len(faults(audited(tmp_path / "a", data, is_compacted=True))) == 1


def test_the_end_of_a_compacted_log_that_is_gone_is_one_fault(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "data")
    partition = directory.put("table-0", table())
    parts = partition.parts(-1)
    partition.file(-1).write_bytes(b"".join(parts[:-2]))
    assert [finding.rule for finding in looked_at(directory)] == [TRUNCATED]


def test_a_replica_that_copied_what_another_one_had_compacted(tmp_path: Path) -> None:
    """Its own cleaner has not been at it yet, so that its checkpoint does not name it."""
    leader, follower = (LogDirectory(tmp_path / name, node=node) for node, name in enumerate(("leader", "follower")))
    leader.put("table-0", table())
    follower.put("table-0", table()._replace(cleaned_to=None))
    assert {finding.rule for finding in looked_at(follower)} == {OFFSET_GAP}
    assert looked_at(leader) == []
    configure(follower, (2, "table", "compact"))
    assert looked_at(follower) == []
