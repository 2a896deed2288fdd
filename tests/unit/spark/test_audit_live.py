"""Folders that somebody writes, rolls, cuts, compacts or deletes between any two steps of an audit: no finding.

And what is really damaged is found all the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.scripted_audit import Script, damage, scripted
from support.logs.data_dirs import DataDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.record.shallow import batches
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job import confirming
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import CHANGED, CRC, GONE, NOTE, OFFSET_GAP, RULES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()

Happening = Callable[[], None]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return scripted(monkeypatch)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.add("t-0")
    directory.add("quiet-0", 20)
    return directory


class Pauses:
    """What happens in each pause."""

    def __init__(self, *happenings: Happening) -> None:
        self._happenings = iter(happenings)
        self.count = 0

    def __call__(self, seconds: float) -> None:
        self.count += 1
        happening = next(self._happenings, None)
        if happening is not None:
            happening()


def run(data: DataDirectory, pauses: Pauses | None = None) -> tuple[Finding, ...]:
    places = find_places(FILES, [str(data)])
    audit = AuditRun(LocalSpark(), FILES, places, pause=pauses or Pauses())  # type: ignore[arg-type]
    audit.read()
    return audit.report([str(data)], frozenset(RULES), notes=True).findings


def faults(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != NOTE]


def rules(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.rule for finding in findings}


def files_of(data: DataDirectory, base: int) -> list[Path]:
    return list((data / "t-0").glob(f"{base:020d}.*"))


def log_of(data: DataDirectory, base: int = 0) -> Path:
    return data / "t-0" / f"{base:020d}.log"


class Broker:
    """What a broker does with a folder."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data

    def delete_first(self) -> None:
        base = self.data.bases("t-0")[0]
        for file in files_of(self.data, base):
            file.rename(f"{file}.deleted")

    def cut_last(self) -> None:
        """A follower takes back its last segment, and the end of the one before."""
        *_, before, last = self.data.bases("t-0")
        for file in files_of(self.data, last):
            file.unlink()
        content = log_of(self.data, before).read_bytes()
        log_of(self.data, before).write_bytes(content[: len(content) // 2])

    def compact(self) -> None:
        """Two segments become one: the first of them is another file then."""
        first, second, *_ = self.data.bases("t-0")
        merged = log_of(self.data, first).read_bytes() + log_of(self.data, second).read_bytes()
        swap = log_of(self.data, first).with_suffix(".log.swap")
        swap.write_bytes(merged)
        for base in (second, first):
            log_of(self.data, base).rename(f"{log_of(self.data, base)}.deleted")
        swap.rename(log_of(self.data, first))

    def append(self) -> None:
        """The last segment is written again, by one batch longer."""
        with log_of(self.data, self.data.bases("t-0")[-1]).open("ab") as file:
            file.write(b"")

    def delete_folder(self) -> None:
        (self.data / "t-0").rename(self.data / f"t-0.{'0' * 32}-delete")


HAPPENINGS = ("delete_first", "cut_last", "compact", "append", "delete_folder")


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("place", range(8))
def test_nothing_that_a_broker_does_is_a_fault(data: DataDirectory, script: Script, happening: str, place: int) -> None:
    script.before_piece[place] = getattr(Broker(data), happening)
    assert faults(run(data)) == []


@given(
    steps=st.lists(st.tuples(st.integers(0, 25), st.sampled_from(HAPPENINGS[:4])), max_size=4, unique_by=lambda s: s[0])
)
@settings(max_examples=examples(60))
def test_nothing_that_a_broker_does_in_any_order(
    steps: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        directory = DataDirectory(tmp_path_factory.mktemp("any") / "data")
        directory.add("t-0", 120)
        script = scripted(patch)
        for place, happening in steps:
            script.before_piece[place] = getattr(Broker(directory), happening)
        assert faults(run(directory)) == []


class TestDamage:
    def test_stays_while_others_come_and_go(self, data: DataDirectory, script: Script) -> None:
        victim = data.bases("t-0")[3]
        damage(log_of(data, victim))
        script.before_piece[1] = Broker(data).delete_first
        (finding,) = faults(run(data, Pauses(Broker(data).append)))
        assert (finding.rule, finding.file) == (CRC, str(log_of(data, victim)))

    def test_that_is_gone_in_the_second_look_is_none(self, data: DataDirectory, script: Script) -> None:
        damage(log_of(data))
        found = run(data, Pauses(Broker(data).delete_first))
        assert faults(found) == []
        assert [finding.file for finding in found if finding.rule == GONE] == [str(log_of(data))]

    def test_in_a_file_that_another_took_the_place_of(self, data: DataDirectory, script: Script) -> None:
        good = log_of(data).read_bytes()
        damage(log_of(data))

        def replaced() -> None:
            log_of(data).with_suffix(".new").write_bytes(good)
            log_of(data).with_suffix(".new").rename(log_of(data))

        found = run(data, Pauses(replaced))
        assert faults(found) == []
        assert CHANGED in rules(found)

    def test_that_comes_between_looks_is_found(self, data: DataDirectory, script: Script) -> None:
        damage(log_of(data), 100)
        pauses = Pauses(lambda: damage(log_of(data, data.bases("t-0")[2]), 100))
        found = faults(run(data, pauses))
        assert {finding.file for finding in found} == {str(log_of(data)), str(log_of(data, data.bases("t-0")[2]))}
        assert pauses.count == 2

    def test_of_a_folder_that_goes_away_is_none(self, data: DataDirectory, script: Script) -> None:
        damage(log_of(data))
        found = run(data, Pauses(Broker(data).delete_folder))
        assert [(finding.rule, finding.file) for finding in found] == [(GONE, str(data / "t-0"))]

    def test_of_a_folder_that_never_stands_still(self, data: DataDirectory, script: Script) -> None:
        """Each look shows another fault, and none twice."""
        good = log_of(data).read_bytes()
        places = (batch.position + batch.size - 5 for batch in batches(good))

        def moving() -> None:
            log = log_of(data)
            log.write_bytes(good)
            damage(log, next(places))

        moving()
        found = run(data, Pauses(*[moving] * 5))
        assert faults(found) == []
        assert CHANGED in rules(found)


def test_what_goes_away_between_listing_and_reading_in_every_look_is_gone(tmp_path: Path, script: Script) -> None:
    """In the last one, too: nobody looks again after that."""
    data = DataDirectory(tmp_path / "data")
    data.add("t-0", 240)
    bases = data.bases("t-0")
    looks = [True]

    def touch_first() -> None:
        """So that it is read again."""
        first = log_of(data, data.bases("t-0")[0])
        first.write_bytes(first.read_bytes())
        looks.append(True)

    def delete_when_a_look_begins() -> None:
        if looks:
            looks.clear()
            Broker(data).delete_first()

    script.before_every = delete_when_a_look_begins
    found = run(data, Pauses(*[touch_first] * confirming.MOST_LOOKS))
    assert faults(found) == []
    assert {each.offset for each in found if each.rule == GONE} == set(bases[: confirming.MOST_LOOKS])
    assert [each.words for each in found if each.rule == CHANGED] == [
        "would not stand still: 6 looks each showed something else"
    ]


class TestLookingAgain:
    def test_a_missing_segment_that_stays_missing_is_a_fault(self, data: DataDirectory, script: Script) -> None:
        for file in files_of(data, data.bases("t-0")[1]):
            file.unlink()
        assert rules(run(data)) == {OFFSET_GAP}

    def test_segments_beyond_doubt_are_not_read_again(self, data: DataDirectory, script: Script) -> None:
        bases = data.bases("t-0")
        damage(log_of(data, bases[2]))
        run(data)
        read = [piece.base_offset for piece in script.pieces if piece.partition.topic == "t"]
        assert sorted(read) == sorted([*bases, bases[2]])

    def test_a_folder_that_stood_still_for_long_is_believed(
        self, data: DataDirectory, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confirming, "SETTLED_NS", -(10**12))
        damage(log_of(data))
        assert len(faults(run(data))) == 1
        assert len(script.pieces) == len(data.bases("t-0")) + len(data.bases("quiet-0"))

    def test_a_clean_folder_is_looked_at_once(self, data: DataDirectory, script: Script) -> None:
        pauses = Pauses()
        run(data, pauses)
        assert pauses.count == 0
        assert len(script.pieces) == len(data.bases("t-0")) + len(data.bases("quiet-0"))

    def test_nothing_is_counted_twice(self, data: DataDirectory, script: Script) -> None:
        damage(log_of(data))
        places = find_places(FILES, [str(data)])
        audit = AuditRun(LocalSpark(), FILES, places, pause=Pauses())  # type: ignore[arg-type]
        audit.read()
        report = audit.report([str(data)], frozenset(RULES), notes=False)
        assert report.figures["t"].batches == 60
        assert report.figures["t"].files == len(data.bases("t-0"))


def test_nothing_is_written(data: DataDirectory, script: Script, tmp_path: Path) -> None:
    damage(log_of(data))
    shutil.copytree(data.path, tmp_path / "before")
    run(data)
    for file in (tmp_path / "before").rglob("*"):
        if file.is_file():
            assert (data.path / file.relative_to(tmp_path / "before")).read_bytes() == file.read_bytes()
