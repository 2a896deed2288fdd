"""Records of folders as rows: which stretches are read, what of them is there, and what is a hole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.audit.logs import LogDirectory, Partition, busy, table
from tailrace.env.real import RealFiles
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.places import FileStatus, Folder, ListedSegment, ReplicaGroup
from tailrace.spark.auditing.shuffles.naming import file_of, shown_key
from tailrace.spark.auditing.shuffles.records import Stretch, read_stretch, stretches
from tailrace.spark.auditing.shuffles.replica_batches import Difference, Kind
from tailrace.spark.auditing.shuffles.replica_keys import KeyDifference, Newest
from tailrace.spark.auditing.shuffles.replicas import batch_findings, bounds_of, key_findings
from tailrace.spark.source.files.folders import Noted

PARTITION = TopicPartition("t", 0)
FILES = RealFiles()


def made_folder(*segments: tuple[int, int], path: str = "/data/t-0", **fields: object) -> Folder:
    """Segments are given by base offset and size."""
    bases = [base for base, _ in segments]
    listed = tuple(
        ListedSegment(path, base, following, False, FileStatus(size, 0, 0, 0, 0))
        for (base, size), following in zip(segments, [*bases[1:], None], strict=True)
    )
    return replace(Folder(PARTITION, path, "/data", segments=listed), **fields)


def listed(directory: LogDirectory) -> list[Folder]:
    return list(find_places(FILES, [str(directory)]).folders)


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs")


def rows(folder: Folder, start: int, end: int, *, has_values: bool = True) -> list[tuple[object, ...]]:
    (part,) = stretches(7, folder, start, end, 1 << 40)[:1]
    whole = replace(part, start=start, end=end)
    return [tuple(row.values()) for batch in read_stretch(whole, has_values=has_values) for row in batch.to_pylist()]


class TestStretches:
    @given(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), min_size=1, max_size=8, unique_by=lambda s: s[0]),
        st.integers(0, 60),
        st.integers(0, 60),
        st.integers(1, 3000),
    )
    def test_they_cover_all_once(
        self, segments: list[tuple[int, int]], start: int, end: int, target_bytes: int
    ) -> None:
        folder = made_folder(*sorted(segments))
        start = max(start, folder.log_start)
        found = stretches(0, folder, start, end, target_bytes)
        covered = [offset for part in found for offset in range(part.start, part.end)]
        assert covered == list(range(start, max(start, end)))

    def test_a_large_segment_is_many(self) -> None:
        found = stretches(0, made_folder((0, 1000), (100, 10)), 0, 120, 250)
        assert [(part.start, part.end, part.size) for part in found] == [
            (0, 25, 250),
            (25, 50, 250),
            (50, 75, 250),
            (75, 100, 250),
            (100, 120, 10),
        ]


class TestRows:
    def test_each_record_once_and_none_that_was_aborted(self, directory: LogDirectory) -> None:
        directory.put("t-0", busy())
        (folder,) = listed(directory)
        found = rows(folder, 0, 87)
        aborted, markers = {31, 32, 37, 38, 71, 72}, {39, 56, 60, 77}
        assert [row[2] for row in found] == sorted(set(range(87)) - aborted - markers)
        assert found[0] == (7, False, 0, None, b"key 0", b"value 000 " * 4)

    def test_values_are_left_out_unless_asked_for(self, directory: LogDirectory) -> None:
        directory.put("t-0", table())
        (folder,) = listed(directory)
        assert {row[5] for row in rows(folder, 0, 48, has_values=False)} == {None}
        assert {row[4] for row in rows(folder, 0, 48, has_values=False)} >= {b"key 0", b"other 3"}

    def test_damage_is_a_hole(self, directory: LogDirectory) -> None:
        partition = directory.put("t-0", busy())
        (folder,) = listed(directory)
        content = bytearray(partition.file(1).read_bytes())
        content[partition.batch(1, 2).end - 3] ^= 1
        partition.file(1).write_bytes(content)
        found = rows(folder, 0, 87)
        assert found[-1] == (7, True, 33, 37, None, None)
        assert not {33, 34, 35, 36} & {row[2] for row in found[:-1]}

    def test_a_folder_that_went_is_no_error(self, directory: LogDirectory, tmp_path: Path) -> None:
        gone = Stretch(3, str(tmp_path / "t-0"), PARTITION, None, 0, 10, 1)
        (batch,) = read_stretch(gone, has_values=False)
        assert batch.to_pylist() == [
            {"place": 3, "is_hole": True, "offset": 0, "behind": 10, "key": None, "value": None}
        ]

    def test_garbage_is_no_error(self, directory: LogDirectory) -> None:
        partition = directory.put("t-0", busy())
        (folder,) = listed(directory)
        for file in partition.folder.iterdir():
            file.write_bytes(b"\xee\0\2" * 1000)
        assert all(row[1] for row in rows(folder, 0, 87))


class TestBounds:
    def test_from_the_higher_start_to_the_lower_end(self) -> None:
        one = made_folder((0, 1), (60, 1), noted=Noted(high_watermark=80, log_start=5, cleaned_to=40))
        two = made_folder((20, 1), (70, 1), noted=Noted(high_watermark=75, cleaned_to=50))
        assert bounds_of(ReplicaGroup(PARTITION, (one, two)), FILES) == (20, 50, 75)

    def test_all_but_the_last_segment_may_be_cleaned_while_a_cleaner_is_busy(self) -> None:
        one = made_folder((0, 1), (60, 1), noted=Noted(high_watermark=80), is_being_cleaned=True)
        two = made_folder((0, 1), noted=Noted(high_watermark=80))
        assert bounds_of(ReplicaGroup(PARTITION, (one, two)), FILES) == (0, 60, 80)

    def test_without_high_watermarks_the_shorter_log_counts(self, tmp_path: Path) -> None:
        folders = []
        for node in (1, 2):
            directory = LogDirectory(tmp_path / str(node), node=node)
            partition = directory.put("t-0", busy())
            (directory / "replication-offset-checkpoint").unlink()
            if node == 2:
                partition.write(3, partition.parts(3)[:4])
            folders += listed(directory)
        assert bounds_of(ReplicaGroup(PARTITION, tuple(folders)), FILES) == (0, 0, 78)

    def test_nothing_is_compared_where_nothing_overlaps(self) -> None:
        one = made_folder((0, 1), noted=Noted(high_watermark=10))
        two = made_folder((20, 1), noted=Noted(high_watermark=30))
        assert bounds_of(ReplicaGroup(PARTITION, (one, two)), FILES) == (20, 20, 20)


def group(count: int) -> ReplicaGroup:
    return ReplicaGroup(PARTITION, tuple(made_folder((0, 1), (50, 1), path=f"/{n}/t-0") for n in range(1, count + 1)))


class TestWhoIsBlamed:
    def test_of_two_the_second(self) -> None:
        found = {1: [Difference(Kind.DIFFERS, 60, 64, 1, 10, 20, "CRC is 1 here, 2 there")]}
        (finding,) = batch_findings(group(2), found)
        assert (finding.file, finding.offset, finding.rule, finding.position) == (
            "/2/t-0/00000000000000000050.log",
            60,
            "replica-divergence",
            20,
        )
        assert finding.words == "offsets 60 to 63 differ from /1/t-0: CRC is 1 here, 2 there"

    def test_of_three_the_one_that_is_alone(self) -> None:
        difference = Difference(Kind.DIFFERS, 60, 64, 1, 10, 20)
        (finding,) = batch_findings(group(3), {1: [difference], 2: [difference]})
        assert (finding.file, finding.position) == ("/1/t-0/00000000000000000050.log", 10)
        (finding,) = batch_findings(group(3), {2: [difference]})
        assert finding.file == "/3/t-0/00000000000000000050.log"

    def test_who_lacks_a_batch(self) -> None:
        (finding,) = batch_findings(group(2), {1: [Difference(Kind.FIRST_LACKS, 3, 7)]})
        assert (finding.file, finding.rule) == ("/1/t-0/00000000000000000000.log", "replica-missing")
        both = [Difference(Kind.FIRST_LACKS, 3, 7)]
        assert len(list(batch_findings(group(3), {1: both, 2: both}))) == 1
        (finding,) = batch_findings(group(2), {1: [Difference(Kind.SECOND_LACKS, 3, 7)]})
        assert finding.file == "/2/t-0/00000000000000000000.log"

    def test_what_tasks_cut_apart_is_one(self) -> None:
        cut = [Difference(Kind.SECOND_LACKS, 7, 9), Difference(Kind.SECOND_LACKS, 3, 7)]
        (finding,) = batch_findings(group(2), {1: cut})
        assert finding.words == "offsets 3 to 8, 2 batches are missing; /1/t-0 has them"

    def test_the_newest_value_of_a_key(self) -> None:
        newest = Newest(0, 40, False, "a")
        (finding,) = key_findings(group(2), KeyDifference(0, b"k", (newest, Newest(1, 40, False, "b")), 1), {})
        assert (finding.rule, finding.offset, finding.file[:3]) == ("replica-divergence", 40, "/2/")
        (finding,) = key_findings(group(2), KeyDifference(0, b"k", (newest, Newest(1, 30, False, "b")), 1), {})
        assert finding.rule == "replica-missing"
        assert finding.words == "the newest record of key 'k' is missing, there is offset 30 instead; /1/t-0 has it"
        (finding,) = key_findings(group(2), KeyDifference(0, b"k", (Newest(1, 40, False, "a"),), 1), {})
        assert (finding.rule, finding.file[:3]) == ("replica-missing", "/1/")

    def test_a_hole_explains_what_is_missing(self) -> None:
        found = KeyDifference(0, b"k", (Newest(0, 40, False, "a"),), 1)
        assert list(key_findings(group(2), found, {1: [(38, 44)]})) == []
        assert len(list(key_findings(group(2), found, {1: [(41, 44)]}))) == 1


class TestNaming:
    def test_keys_are_text_or_digits(self) -> None:
        assert shown_key("grün".encode()) == "'grün'"
        assert shown_key(b"\0\xff") == "0x00ff"
        assert shown_key(b"a" * 40) == "'" + "a" * 32 + "…'"
        assert shown_key(("x" + "ü" * 40).encode()) == "'x" + "ü" * 15 + "…'"
        assert shown_key(b"") == "''"

    def test_the_file_of_an_offset(self) -> None:
        folder = made_folder((10, 1), (50, 1))
        assert file_of(folder, 49).endswith("00000000000000000010.log")
        assert file_of(folder, 50).endswith("00000000000000000050.log")
        assert file_of(folder, 9) == "/data/t-0"


def test_partition_is_a_helper_of_tests(directory: LogDirectory) -> None:
    """What the tests of audits are built on is clean by the check of one process."""
    from support.logs.verification import errors

    for log in (busy(), table(), table(is_cleaned=False)):
        partition: Partition = directory.put(f"t-{len(directory.ends)}", log)
        assert errors(partition.folder) == []
        for number in range(len(partition.bases)):
            partition.index(number)
        assert errors(partition.folder) == []
