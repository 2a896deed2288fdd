"""From paths to folders and their files: which are taken, what is noted of them, what is said of those that are not."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.logs.data_dirs import CLUSTER, DataDirectory
from tailrace.env import Entry
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.spark.auditing.job import listing
from tailrace.spark.auditing.job.listing import find_places, list_again
from tailrace.spark.auditing.job.places import Folder, replica_groups
from tailrace.spark.auditing.rules import METADATA, MIXED_CLUSTERS, UNREADABLE
from tailrace.spark.errors import MissingTopicError, OptionError
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.add("orders-0")
    directory.add("orders-1", 20)
    directory.add("clicks-0", 10)
    return directory


def give_id(folder: Path, number: int) -> str:
    topic_id = str(TopicId(bytes([number]) * 16))
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return topic_id


def paths_of(*paths: object, topics: list[str] | None = None) -> list[str]:
    places = find_places(FILES, [str(path) for path in paths], topics)
    return [Path(folder.path).name for folder in places.folders]


class TestPaths:
    def test_all_folders_of_a_log_directory(self, data: DataDirectory) -> None:
        places = find_places(FILES, [str(data)])
        assert [str(folder.partition) for folder in places.folders] == ["clicks-0", "orders-0", "orders-1"]
        (directory,) = places.directories
        assert (directory.cluster_id, directory.node_id, directory.is_whole) == (CLUSTER, 1, True)
        assert "meta.properties" in directory.names
        assert not places.findings

    def test_those_that_do_not_serve_are_passed_over(self, data: DataDirectory) -> None:
        for ending in ("delete", "stray", "future"):
            shutil.copytree(data / "orders-0", data / f"orders-0.{'0' * 32}-{ending}")
        (data / "lost+found").mkdir()
        assert paths_of(data) == ["clicks-0", "orders-0", "orders-1"]

    def test_one_that_is_named_itself_is_taken_whatever_it_is(self, data: DataDirectory) -> None:
        name = f"orders-0.{'0' * 32}-delete"
        shutil.copytree(data / "orders-0", data / name)
        places = find_places(FILES, [str(data / name)])
        assert [Path(folder.path).name for folder in places.folders] == [name]
        assert not places.directories[0].is_whole
        assert places.folders[0].noted.high_watermark == 60

    def test_the_metadata_log_is_taken(self, data: DataDirectory) -> None:
        shutil.copytree(data / "orders-0", data / "__cluster_metadata-0")
        assert "__cluster_metadata-0" in paths_of(data)

    def test_several_once_each(self, data: DataDirectory, tmp_path: Path) -> None:
        DataDirectory(tmp_path / "other").add("more-0", 5)
        (tmp_path / "link").symlink_to(data.path)
        both = f"{data}, {tmp_path / 'other'}"
        assert paths_of(both, data, f"file://{data}", tmp_path / "link", data / "orders-0") == [
            *("clicks-0", "more-0", "orders-0", "orders-1"),
        ]

    def test_topics_by_name_and_pattern(self, data: DataDirectory) -> None:
        assert paths_of(data, topics=["orders"]) == ["orders-0", "orders-1"]
        assert paths_of(data, topics=["c*", "orders"]) == ["clicks-0", "orders-0", "orders-1"]
        with pytest.raises(MissingTopicError, match=r"no folder here is of topic nothing, o\?"):
            paths_of(data, topics=["orders", "nothing", "o?"])

    def test_what_is_none(self, data: DataDirectory, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        for path, text in (
            (tmp_path / "missing", "cannot be read here"),
            (data / "meta.properties", "is a file"),
            (tmp_path / "empty", "is no log directory"),
        ):
            with pytest.raises(OptionError, match=text):
                paths_of(path)
        with pytest.raises(OptionError, match="no path"):
            paths_of()
        shutil.copytree(data / "orders-0", tmp_path / "orders")
        with pytest.raises(OptionError, match="does not tell of what"):
            paths_of(tmp_path / "orders")

    def test_one_that_cannot_be_listed_is_told_and_the_rest_goes_on(
        self, data: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        DataDirectory(tmp_path / "other").add("more-0", 5)
        listed = ReadOnlyFiles.list

        def refused(files: ReadOnlyFiles, path: str) -> list[Entry]:
            if path in (str(tmp_path / "other"), str(data / "clicks-0")):
                raise PermissionError(13, "Permission denied", path)
            return listed(files, path)

        monkeypatch.setattr(ReadOnlyFiles, "list", refused)
        places = find_places(FILES, [str(data), str(tmp_path / "other")])
        assert [str(folder.partition) for folder in places.folders] == ["orders-0", "orders-1"]
        assert [(finding.rule, Path(finding.file).name) for finding in places.findings] == [
            (UNREADABLE, "other"),
            (UNREADABLE, "clicks-0"),
        ]


class TestFolder:
    def test_segments_with_their_files(self, data: DataDirectory) -> None:
        folder = find_places(FILES, [str(data)]).folders[1]
        assert [segment.base_offset for segment in folder.segments] == data.bases("orders-0")
        first, *_, last = folder.segments
        assert first.next_base == folder.segments[1].base_offset
        assert last.next_base is None
        assert first.size == Path(first.path).stat().st_size
        assert set(first.indexes) == {"00000000000000000000.index", "00000000000000000000.timeindex"}
        assert first.status.identity == (Path(first.path).stat().st_dev, Path(first.path).stat().st_ino)
        assert folder.size == sum(log.stat().st_size for log in (data / "orders-0").glob("*.log"))
        assert set(folder.statuses) == folder.names == {file.name for file in (data / "orders-0").iterdir()}

    def test_what_is_noted(self, data: DataDirectory) -> None:
        data.checkpoint("log-start-offset-checkpoint", {"orders-0": 7})
        data.cleaned(orders_0=30)
        folder = find_places(FILES, [str(data)]).folders[1]
        assert (folder.log_start, folder.judged_to, folder.cleaned_to) == (7, 60, 30)

    def test_a_swap_is_taken_for_the_file_that_it_becomes(self, data: DataDirectory) -> None:
        log = data / "orders-0" / "00000000000000000000.log"
        log.rename(f"{log}.swap")
        folder = find_places(FILES, [str(data)]).folders[1]
        first = folder.segments[0]
        assert (first.is_swap, first.path, folder.is_being_cleaned) == (True, f"{log}.swap", True)

    def test_without_high_watermarks_all_is_judged(self, data: DataDirectory) -> None:
        (data / "replication-offset-checkpoint").unlink()
        assert find_places(FILES, [str(data)]).folders[0].judged_to is None

    def test_where_they_are_damaged_all_is_judged(self, data: DataDirectory) -> None:
        (data / "replication-offset-checkpoint").write_text("0\n2\nx")
        assert find_places(FILES, [str(data)]).folders[0].judged_to is None

    def test_a_young_folder_that_none_names_is_not_judged(self, data: DataDirectory) -> None:
        data.checkpoint("replication-offset-checkpoint", {"orders-0": 60})
        assert find_places(FILES, [str(data)]).folders[0].judged_to == 0

    def test_an_old_folder_that_none_names_is_judged(self, data: DataDirectory) -> None:
        data.checkpoint("replication-offset-checkpoint", {"orders-0": 60})
        for log in (data / "clicks-0").glob("*.log"):
            os.utime(log, (1_700_000_000, 1_700_000_000))
        assert find_places(FILES, [str(data)]).folders[0].judged_to is None

    def test_the_newest_sign_of_life(self, data: DataDirectory) -> None:
        for file in data.path.rglob("*"):
            os.utime(file, (1_700_000_000, 1_700_000_000))
        assert find_places(FILES, [str(data)]).folders[0].alive_ms == 1_700_000_000_000
        os.utime(data / "replication-offset-checkpoint", (1_700_000_060, 1_700_000_060))
        assert find_places(FILES, [str(data)]).folders[0].alive_ms == 1_700_000_060_000

    def test_again_is_the_same_until_somebody_changes_something(self, data: DataDirectory) -> None:
        folder = find_places(FILES, [str(data)]).folders[1]
        assert list_again(FILES, folder).is_same_as(folder)
        with (data / "orders-0" / "00000000000000000000.timeindex").open("ab") as file:
            file.write(b"\0")
        assert not list_again(FILES, folder).is_same_as(folder)
        shutil.rmtree(data / "orders-0")
        with pytest.raises(FileNotFoundError):
            list_again(FILES, folder)

    def test_a_listing_in_which_files_vanish_is_made_again(
        self, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        victim = data / "orders-0" / "00000000000000000000.log"
        status_of = listing.status_of

        def vanishing(path: str) -> object:
            if path == str(victim):
                victim.unlink(missing_ok=True)
            return status_of(path)

        monkeypatch.setattr(listing, "status_of", vanishing)
        folder = find_places(FILES, [str(data / "orders-0")]).folders[0]
        assert [segment.base_offset for segment in folder.segments] == data.bases("orders-0") != []
        assert folder.segments[0].base_offset > 0

    def test_a_name_that_leads_nowhere_is_kept_for_who_opens_it(self, data: DataDirectory) -> None:
        log = data / "orders-0" / "00000000000000000000.log"
        log.unlink()
        log.symlink_to(data / "nowhere")
        folder = find_places(FILES, [str(data / "orders-0")]).folders[0]
        assert (folder.segments[0].base_offset, folder.segments[0].size) == (0, 0)


class TestClusters:
    def test_of_two_clusters(self, data: DataDirectory, tmp_path: Path) -> None:
        other = DataDirectory(tmp_path / "other", node=2)
        meta = other / "meta.properties"
        meta.write_text(meta.read_text().replace(CLUSTER, "another"))
        (finding,) = find_places(FILES, [str(data), str(other)]).findings
        assert finding.rule == MIXED_CLUSTERS
        assert CLUSTER in finding.words
        assert "another" in finding.words

    def test_replicas_with_other_topic_ids(self, data: DataDirectory, tmp_path: Path) -> None:
        other = DataDirectory(tmp_path / "other", node=2)
        other.add("orders-0")
        mine, others = give_id(data / "orders-0", 1), give_id(other / "orders-0", 2)
        places = find_places(FILES, [str(data), str(other)])
        (finding,) = places.findings
        assert (finding.rule, finding.partition) == (METADATA, "orders-0")
        assert mine in finding.words
        assert others in finding.words
        assert replica_groups(places.folders) == []

    def test_which_folders_are_replicas(self, data: DataDirectory, tmp_path: Path) -> None:
        other = DataDirectory(tmp_path / "other", node=2)
        other.add("orders-0")
        places = find_places(FILES, [str(data), str(other)])
        (group,) = replica_groups(places.folders)
        assert group.partition == TopicPartition("orders", 0)
        assert [folder.node_id for folder in group.folders] == [1, 2]

    def test_copies_of_one_broker_are_none(self, data: DataDirectory, tmp_path: Path) -> None:
        shutil.copytree(data.path, tmp_path / "copy")
        assert replica_groups(find_places(FILES, [str(data), str(tmp_path / "copy")]).folders) == []

    def test_without_cluster_the_topic_id_says_it(self) -> None:
        mine = Folder(TopicPartition("t", 0), "/a/t-0", "/a", topic_id="x")
        other = replace(mine, path="/b/t-0", log_dir="/b")
        assert len(replica_groups((mine, other))) == 1
        assert replica_groups((mine, replace(other, topic_id="y"))) == []
        assert replica_groups((replace(mine, topic_id=None), replace(other, topic_id=None))) == []
