"""What an audit remembers: results through JSON and back, fingerprints, files that were torn or damaged."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.data_dirs import DataDirectory
from tailrace.spark.auditing.figures import CodecFigures, TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job import memory as memory_module
from tailrace.spark.auditing.job.folder_rules import FolderFacts
from tailrace.spark.auditing.job.listing import find_places, list_again
from tailrace.spark.auditing.job.memory import NAME, AuditMemory, fingerprint, is_immutable
from tailrace.spark.auditing.job.places import Folder, ListedSegment
from tailrace.spark.auditing.job.planning import cut, whole_piece
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult, Seam
from tailrace.spark.auditing.rules import CRC
from tailrace.spark.errors import OptionError
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.storage.epoch_cache import EpochEntry

FILES = ReadOnlyFiles()
KEY = "fingerprint"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    data = DataDirectory(tmp_path / "data")
    data.add("t-0")
    return find_places(FILES, [str(data)]).folders[0]


@pytest.fixture
def whole(folder: Folder) -> AuditPiece:
    return whole_piece(folder, folder.segments[0], FolderFacts())


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def memory(state: str) -> Iterator[AuditMemory]:
    memory = AuditMemory(state)
    yield memory
    memory.close()


def results_of(whole: AuditPiece, path: str = "/x.log") -> list[PieceResult]:
    figures = TopicFigures(
        files=1,
        bytes=int(np.int64(7)),
        codecs={"zstd": CodecFigures(1, 2, 3, 4)},
        minutes={28_000_000: (10, 2)},
        key_sample=Counter({b"\0\xff" * 4: 3}),
    )
    seam = Seam(0, 100, True, 0, np.int64(5), largest_timestamp=9, first_time_entry=(1, 2, 3))
    finding = Finding(path, "t-0", 3, CRC, "wörds\nand more", 17)
    return [
        PieceResult(piece, replace(seam, start_position=piece.start), [finding], figures, 100, (5, 6), 200)
        for piece in cut(whole, [50])
    ]


def reopened(state: str) -> AuditMemory:
    memory = AuditMemory(state)
    memory.close()
    return AuditMemory(state)


class TestKeeping:
    def test_results_are_as_they_were(self, memory: AuditMemory, whole: AuditPiece, state: str) -> None:
        kept = results_of(whole)
        memory.keep([(KEY, "/x.log", kept)])
        assert memory.find(KEY, whole, "/x.log") == kept
        memory.close()
        again = AuditMemory(state)
        assert again.find(KEY, whole, "/x.log") == kept
        assert isinstance(again.find(KEY, whole, "/x.log")[0].figures.key_sample, Counter)
        again.close()

    def test_only_of_what_it_is_of(self, memory: AuditMemory, whole: AuditPiece) -> None:
        memory.keep([(KEY, "/x.log", results_of(whole))])
        assert memory.find("another", whole, "/x.log") is None
        assert memory.find(KEY, whole, "/y.log") is None

    def test_the_newest_counts(self, memory: AuditMemory, whole: AuditPiece, state: str) -> None:
        memory.keep([(KEY, "/x.log", results_of(whole))])
        memory.keep([("newer", "/x.log", results_of(whole)[:1])])
        memory.close()
        again = AuditMemory(state)
        assert again.find(KEY, whole, "/x.log") is None
        assert len(again.find("newer", whole, "/x.log") or ()) == 1
        again.close()

    def test_one_audit_at_a_time(self, memory: AuditMemory, state: str) -> None:
        with pytest.raises(OptionError, match="another audit is using it"):
            AuditMemory(state)
        memory.close()
        AuditMemory(state).close()

    def test_a_folder_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(OptionError, match="cannot be used"):
            AuditMemory(str(tmp_path / "file"))

    def test_a_disk_that_is_full(self, memory: AuditMemory, whole: AuditPiece, state: str) -> None:
        file = memory._file

        class Full(io.BytesIO):
            def flush(self) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            def close(self) -> None:
                self.flush()

        memory._file = Full()
        with pytest.raises(OptionError, match=f"state folder '{state}' cannot be written: No space left on device"):
            memory.keep([(KEY, "/x.log", results_of(whole))])
        memory.close()
        AuditMemory(state).close()  # which nobody holds any more
        file.close()


class TestDamage:
    def test_a_torn_line_costs_itself_only(self, memory: AuditMemory, whole: AuditPiece, state: str) -> None:
        memory.keep([(KEY, "/x.log", results_of(whole)), (KEY, "/y.log", results_of(whole))])
        memory.close()
        path = Path(state) / NAME
        os.truncate(path, path.stat().st_size - 10)
        again = AuditMemory(state)
        assert again.find(KEY, whole, "/x.log") is not None
        assert again.find(KEY, whole, "/y.log") is None
        again.keep([(KEY, "/z.log", results_of(whole))])
        again.close()
        third = AuditMemory(state)
        assert third.find(KEY, whole, "/z.log") is not None
        third.close()

    @given(data=st.data())
    @settings(max_examples=examples(60))
    def test_any_damage_gives_what_was_kept_or_nothing(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        state = tmp_path_factory.mktemp("state")
        whole = AuditPiece(partition=("t", 0), folder="/t-0", base_offset=0, next_base=None)  # type: ignore[arg-type]
        memory = AuditMemory(str(state))
        kept = results_of(whole)
        memory.keep([(KEY, "/x.log", kept)])
        memory.close()
        content = bytearray((state / NAME).read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        (state / NAME).write_bytes(content)
        again = AuditMemory(str(state))
        assert again.find(KEY, whole, "/x.log") in (None, kept)
        again.close()

    def test_lines_of_anything(self, whole: AuditPiece, state: str) -> None:
        Path(state).mkdir()
        lines: list[object] = [1, None, [], {}, {"key": KEY, "file": "/x.log", "crc": 1, "result": "AAAA"}, "x" * 1000]
        (Path(state) / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines) + "\0\n[[[[")
        memory = AuditMemory(state)
        assert memory.find(KEY, whole, "/x.log") is None
        memory.close()


def test_what_is_of_no_use_any_more_is_thrown_away(
    whole: AuditPiece, folder: Folder, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "_LEAST_WASTE_BYTES", 0)
    path = folder.segments[0].path
    memory = AuditMemory(state)
    for number in range(5):
        memory.keep([(f"{number}", path, results_of(whole)), (KEY, f"/gone-{number}.log", results_of(whole))])
    memory.close()
    size = (Path(state) / NAME).stat().st_size
    again = reopened(state)
    assert (Path(state) / NAME).stat().st_size < size / 5
    assert again.find("4", whole, path) is not None
    again.keep([("5", path, results_of(whole))])
    assert again.find("5", whole, path) is not None
    again.close()


class TestFingerprint:
    def test_the_same_for_the_same(self, folder: Folder) -> None:
        assert prints(folder) == prints(list_again(FILES, folder))
        assert len(set(prints(folder))) == len(folder.segments)

    def test_other_for_a_file_that_was_touched(self, folder: Folder) -> None:
        before = prints(folder)
        first = Path(folder.segments[0].path)
        data = first.read_bytes()
        first.write_bytes(data[::-1])
        assert [now != then for now, then in zip(prints(list_again(FILES, folder)), before, strict=True)] == [
            True,
            *[False] * (len(before) - 1),
        ]

    def test_other_for_an_index_that_was_touched(self, folder: Folder) -> None:
        before = prints(folder)
        (Path(folder.path) / "00000000000000000000.index").write_bytes(b"")
        assert prints(list_again(FILES, folder))[0] != before[0]

    def test_other_where_other_rules_hold(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        before = prints(folder)
        assert prints(replace(folder, noted=folder.noted._replace(cleaned_to=3)))[0] != before[0]
        assert prints(folder, (EpochEntry(1, 1),))[0] != before[0]
        assert prints(replace(folder, is_being_cleaned=True))[0] != before[0]
        monkeypatch.setattr(memory_module, "rules_version", lambda: "other")
        assert prints(folder)[0] != before[0]

    def test_the_rules_are_those_that_read_batches_as_well(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        package = Path(memory_module.tailrace.__file__).parent
        for name in ("record", "spark/auditing"):
            shutil.copytree(package / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        before = memory_module.rules_version()
        monkeypatch.setattr(memory_module.tailrace, "__file__", str(tmp_path / "__init__.py"))
        rules_version = memory_module.rules_version.__wrapped__
        assert rules_version() == before
        with (tmp_path / "record" / "kernels" / "batch_run.py").open("a") as source:
            source.write("# other\n")
        assert rules_version() != before

    def test_the_same_when_only_later_segments_are_concerned(self, folder: Folder) -> None:
        epochs = (EpochEntry(1, 0), EpochEntry(2, 50))
        more = (*epochs, EpochEntry(3, 55))
        assert prints(folder, epochs)[0] == prints(folder, more)[0]
        noted = folder.noted._replace(high_watermark=10_000)
        assert prints(folder)[0] == prints(replace(folder, noted=noted))[0]

    def test_other_when_the_log_is_closed_but_only_of_the_last_segment(self, folder: Folder) -> None:
        in_use, closed = prints(replace(folder, is_closed=False)), prints(replace(folder, is_closed=True))
        assert closed[:-1] == in_use[:-1]
        assert closed[-1] != in_use[-1]

    def test_what_is_immutable(self, folder: Folder) -> None:
        assert [is_immutable(piece, segment) for piece, segment in pairs(folder)] == [
            *[True] * (len(folder.segments) - 1),
            False,
        ]
        low = replace(folder, noted=folder.noted._replace(high_watermark=1))
        assert not any(is_immutable(piece, segment) for piece, segment in pairs(low))
        assert not any(is_immutable(piece, segment) for piece, segment in pairs(replace(folder, is_being_cleaned=True)))


def pairs(folder: Folder, epochs: tuple[EpochEntry, ...] = ()) -> list[tuple[AuditPiece, ListedSegment]]:
    return [(whole_piece(folder, segment, FolderFacts(epochs)), segment) for segment in folder.segments]


def prints(folder: Folder, epochs: tuple[EpochEntry, ...] = ()) -> list[str]:
    return [fingerprint(piece, segment) for piece, segment in pairs(folder, epochs)]
