"""However a segment is cut into pieces, the same is found: any bit of any of its files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.data_dirs import DataDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.job import waves
from tailrace.spark.auditing.job.confirming import FindingKey, key_of
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.planning import split_positions
from tailrace.spark.auditing.rules import RULES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()
WHOLE_BYTES = 1 << 30
SUFFIXES = (".log", ".index", ".timeindex")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    directory = DataDirectory(tmp_path_factory.mktemp("cuts") / "data")
    directory.add("t-0")
    return directory


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "split_positions", split_positions)


def found(data: DataDirectory, piece_bytes: int) -> set[FindingKey]:
    waves.split_positions = partial(split_positions, piece_bytes=piece_bytes)  # type: ignore[assignment]
    audit = AuditRun(LocalSpark(), FILES, find_places(FILES, [str(data)]), pause=lambda _: None)  # type: ignore[arg-type]
    audit.read()
    return {key_of(finding) for finding in audit.report([], frozenset(RULES), notes=False).findings}


def files_of(data: DataDirectory) -> list[Path]:
    return [path for path in sorted((data / "t-0").iterdir()) if path.suffix in SUFFIXES and path.stat().st_size]


def test_what_is_clean_is_so_in_pieces(data: DataDirectory) -> None:
    assert found(data, 700) == found(data, WHOLE_BYTES) == set()


def test_two_entries_with_one_time_are_one_finding(data: DataDirectory) -> None:
    """Either may be the wrong one: pieces that see one of them each would say it twice."""
    path = next(path for path in files_of(data) if path.suffix == ".timeindex")
    good = path.read_bytes()
    before, last = (int.from_bytes(good[at : at + 8], "big") for at in (-24 % len(good), -12 % len(good)))
    assert before == last - 1
    path.write_bytes(good[:-12] + before.to_bytes(8, "big") + good[-4:])
    try:
        assert len(found(data, 400)) == 1
        assert found(data, 400) == found(data, WHOLE_BYTES)
    finally:
        path.write_bytes(good)


@given(draw=st.data(), piece_bytes=st.sampled_from([400, 700, 1200]))
@settings(max_examples=examples(80))
def test_any_bit(data: DataDirectory, draw: st.DataObject, piece_bytes: int) -> None:
    path = draw.draw(st.sampled_from(files_of(data)))
    good = path.read_bytes()
    at = draw.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= 1 << draw.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        whole = found(data, WHOLE_BYTES)
        assert whole or path.suffix != ".log"  # an index may say less and still be true
        assert found(data, piece_bytes) == whole
    finally:
        path.write_bytes(good)
