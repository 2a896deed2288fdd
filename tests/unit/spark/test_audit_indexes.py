from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.blocks import audited_indexes, block_of, rows_at, segments_of, walk
from support.logs.sample_log import GOLDEN_PARTITIONS, copy_sample, write_sample
from support.logs.verification import FILES, edit, errors, logs, positions
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import (
    ERROR,
    GONE,
    INDEX_MISSING,
    OFFSET_INDEX,
    RULES,
    TIME_INDEX,
    UNREADABLE,
)
from tailrace.spark.auditing.task.indexes import OffsetIndexRule, TimeIndexRule, TransactionIndexRule
from tailrace.spark.auditing.task.piece_audit import audit_piece
from tailrace.storage import names

KINDS = (OffsetIndexRule, TimeIndexRule, TransactionIndexRule)
OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY = struct.Struct(">ii"), struct.Struct(">qi"), struct.Struct(">hqqqq")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


def single(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


# Nothing to find


@pytest.mark.parametrize("batches_per_block", [1, 2, 100])
def test_a_closed_log_has_no_findings(sample: Path, batches_per_block: int) -> None:
    assert audited_indexes(sample, notes=True, batches_per_block=batches_per_block) == []


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_what_kafka_wrote_has_no_findings(directory: Path) -> None:
    assert audited_indexes(directory) == []


def test_a_log_that_is_open_has_no_findings(tmp_path: Path) -> None:
    log = write_sample(tmp_path / "t-0")
    assert audited_indexes(tmp_path / "t-0") == []
    log.abandon()


# One fault, one finding


@pytest.mark.parametrize(
    ("suffix", "entry", "words"),
    [
        (".index", OFFSET_ENTRY.pack(1, 40), "but no batch begins there"),
        (".index", OFFSET_ENTRY.pack(4, -1), "which cannot be"),
        (".index", OFFSET_ENTRY.pack(1, 50_000), "lies behind the end of the log"),
        (".timeindex", TIME_ENTRY.pack(1_700_000_000_001, 5), "but the batch there has 1700000001002"),
        (".timeindex", TIME_ENTRY.pack(1_600_000_000_000, 2), "but the batch there has 1700000000002"),
        (".timeindex", TIME_ENTRY.pack(-5, 2), "which cannot be"),
        (".timeindex", TIME_ENTRY.pack(1_900_000_000_000, 5_000), "lies behind the end of the log"),
    ],
)
def test_entries_that_are_not_true(sample: Path, suffix: str, entry: bytes, words: str) -> None:
    index = logs(sample)[0].with_suffix(suffix)
    index.write_bytes(entry)
    found = single(audited_indexes(sample))
    assert (found.file, found.position, found.partition) == (str(index), 0, "t-0")
    assert found.rule == (OFFSET_INDEX if suffix == ".index" else TIME_INDEX)
    assert words in found.words


def test_a_stale_index_is_one_finding(sample: Path) -> None:
    first, second = logs(sample)[:2]
    second.with_suffix(".index").write_bytes(first.with_suffix(".index").read_bytes())
    found = single(audited_indexes(sample))
    assert (found.file, found.rule) == (str(second.with_suffix(".index")), OFFSET_INDEX)


@pytest.mark.parametrize(("suffix", "size"), [(".index", 8), (".timeindex", 12)])
def test_bytes_behind_the_entries(sample: Path, suffix: str, size: int) -> None:
    index = logs(sample)[0].with_suffix(suffix)
    content = index.read_bytes()
    index.write_bytes(content + bytes(3))
    assert "not a multiple" in single(audited_indexes(sample)).words
    index.write_bytes(content + bytes(2 * size))
    found = single(audited_indexes(sample))
    assert f"{2 * size} zero bytes" in found.words
    assert found.position == len(content)
    index.write_bytes(content + bytes(size) + b"\1" * size)
    assert "zeros before other bytes" in single(audited_indexes(sample)).words


def test_the_last_segments_indexes_may_be_longer_than_filled(sample: Path) -> None:
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        index = logs(sample)[-1].with_suffix(suffix)
        index.write_bytes(index.read_bytes() + bytes(5 * size))
        assert audited_indexes(sample) == errors(sample) == []
        index.write_bytes(bytes(5 * size))
        assert audited_indexes(sample) == errors(sample) == []


def test_the_room_of_an_index_in_use_is_not_read(sample: Path) -> None:
    room = bytes(12 * 800_000)
    for suffix in (".index", ".timeindex"):
        index = logs(sample)[-1].with_suffix(suffix)
        content = index.read_bytes()
        index.write_bytes(content + room)
    piece = segments_of(sample)[-1]
    result = audit_piece(piece)
    assert [found for found in result.findings if found.severity == ERROR] == []
    assert result.read_bytes < 1 << 20
    index.write_bytes(content + bytes(12 * 5000) + b"\1" * 12 + room)
    assert [found.rule for found in audit_piece(piece).findings if found.severity == ERROR] == [TIME_INDEX]


@pytest.mark.parametrize("size", [12, 120])
def test_a_time_index_of_zeros_belongs_to_no_closed_segment(sample: Path, size: int) -> None:
    index = logs(sample)[0].with_suffix(".timeindex")
    index.write_bytes(bytes(size))
    found = single(audited_indexes(sample))
    assert (found.rule, found.position) == (TIME_INDEX, 0)
    assert f"{size} zero bytes" in found.words


def test_missing_gone_and_refused_files(sample: Path) -> None:
    index = logs(sample)[0].with_suffix(".index")
    index.unlink()
    assert single(audited_indexes(sample, notes=True)).rule == INDEX_MISSING
    pieces = segments_of(sample)
    found: list[Finding] = []
    named = AuditPiece(TopicPartition("t", 0), str(sample), 0, 9, indexes=frozenset({index.name}))
    walk(named, [OffsetIndexRule(named, FILES, found.append)])
    assert single(found).rule == GONE

    class Refusing(type(FILES)):  # type: ignore[misc]
        def open(self, path: str, mode: object) -> object:
            raise PermissionError(13, "Permission denied", path)

    found.clear()
    rule = TimeIndexRule(pieces[0], Refusing(), found.append)  # type: ignore[no-untyped-call]
    walk(pieces[0], [rule])
    assert single(found).rule == UNREADABLE
    assert "Permission denied" in found[0].words


# Entries of one long segment, made up


def made_up(
    folder: Path,
    kind: Callable[..., OffsetIndexRule | TimeIndexRule],
    entries: list[tuple[int, int]],
    **piece: int | None,
) -> tuple[list[Finding], OffsetIndexRule | TimeIndexRule]:
    """Twenty batches of 100 bytes and 3 offsets from offset 1000 on, in blocks of five."""
    layout = OFFSET_ENTRY if kind is OffsetIndexRule else TIME_ENTRY
    name = names.prefix_of(1000) + kind.SUFFIX
    (folder / name).write_bytes(b"".join(layout.pack(*entry) for entry in entries))
    given: dict[str, int | None] = {"next_base": None} | piece
    about = AuditPiece(TopicPartition("t", 0), str(folder), 1000, indexes=frozenset({name}), **given)  # type: ignore[arg-type]
    found: list[Finding] = []
    rule = kind(about, FILES, found.append)
    rows = rows_at(0, 1000, [100] * 20)[about.start // 100 : (about.end or 2000) // 100]
    for first in range(0, len(rows), 5):
        rule.block(block_of(rows[first : first + 5]))
    end = rows[-1]["position"] + 100
    rule.end(end, is_whole=True, is_end_of_file=end == 2000)
    return found, rule


TRUE_OFFSETS = [(3 * n + 2, 100 * n) for n in range(1, 20, 2)]
TRUE_TIMES = [(2000 + 3 * n + 2, 3 * n + 2) for n in range(1, 20, 2)]


@pytest.mark.parametrize(("kind", "entries"), [(OffsetIndexRule, TRUE_OFFSETS), (TimeIndexRule, TRUE_TIMES)])
@pytest.mark.parametrize("place", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("bit", [0, 2, 5, 9, 17, 30, 31])
@pytest.mark.parametrize("field", [0, 1])
def test_one_flipped_bit_is_one_finding_at_its_entry(
    tmp_path: Path, kind: type[OffsetIndexRule], entries: list[tuple[int, int]], place: int, bit: int, field: int
) -> None:
    assert made_up(tmp_path, kind, entries)[0] == []
    size = 8 if kind is OffsetIndexRule else 12
    layout = OFFSET_ENTRY if kind is OffsetIndexRule else TIME_ENTRY
    content = bytearray(layout.pack(*entries[place]))
    at = (4 if kind is OffsetIndexRule else 8) * (field + 1) - 1 - bit // 8
    if kind is TimeIndexRule and field:
        at = 11 - bit // 8
    content[at] ^= 1 << bit % 8
    changed = [*entries]
    changed[place] = layout.unpack(content)
    found, _ = made_up(tmp_path, kind, changed)
    if kind is TimeIndexRule and field and changed[place][1] // 3 == entries[place][1] // 3:
        assert found == []  # it may name any record of its batch
        return
    assert single(found).position == place * size
    assert "more" not in found[0].words


def test_swapped_and_doubled_entries(tmp_path: Path) -> None:
    for kind, entries, size in ((OffsetIndexRule, TRUE_OFFSETS, 8), (TimeIndexRule, TRUE_TIMES, 12)):
        for place in (0, 1, 4, 8):
            swapped = [*entries]
            swapped[place], swapped[place + 1] = entries[place + 1], entries[place]
            assert single(made_up(tmp_path, kind, swapped)[0]).position in (place * size, (place + 1) * size)
            doubled = [*entries[: place + 1], *entries[place:]]
            assert single(made_up(tmp_path, kind, doubled)[0]).position == (place + 1) * size


def test_an_index_that_lies_in_order_is_one_finding(tmp_path: Path) -> None:
    lying = [(offset, position + 100) for offset, position in TRUE_OFFSETS[:-1]]
    found = single(made_up(tmp_path, OffsetIndexRule, lying)[0])
    assert found.position == 0
    assert f"and {len(lying) - 1} more" in found.words
    lying_times = [(timestamp + 1, offset) for timestamp, offset in TRUE_TIMES]
    assert "and 9 more" in single(made_up(tmp_path, TimeIndexRule, lying_times)[0]).words


def test_what_may_still_change_is_not_judged(tmp_path: Path) -> None:
    beyond = [*TRUE_OFFSETS, (62, 2000), (65, 2100)]
    assert made_up(tmp_path, OffsetIndexRule, beyond, judged_to=1060)[0] == []
    assert len(made_up(tmp_path, OffsetIndexRule, beyond)[0]) == 1
    times = [*TRUE_TIMES, (2200, 65)]
    assert made_up(tmp_path, TimeIndexRule, times, judged_to=1060)[0] == []
    assert len(made_up(tmp_path, TimeIndexRule, times)[0]) == 1
    assert made_up(tmp_path, OffsetIndexRule, [*TRUE_OFFSETS[:-2], (50, 1600), (55, 1777)], judged_to=1030)[0] == []


def test_entries_of_a_log_that_was_cut_are_not_blamed(tmp_path: Path) -> None:
    beyond = [*TRUE_OFFSETS, (62, 2000), (65, 2100)]
    assert made_up(tmp_path, OffsetIndexRule, beyond, next_base=1070)[0] == []
    assert len(made_up(tmp_path, OffsetIndexRule, beyond, next_base=1064)[0]) == 1
    assert made_up(tmp_path, OffsetIndexRule, beyond, judged_to=1070)[0] == []
    times = [*TRUE_TIMES, (2200, 65)]
    assert made_up(tmp_path, TimeIndexRule, times, next_base=1070)[0] == []


@pytest.mark.parametrize("bounds", [(0, 700), (700, 1400), (1400, None)])
def test_pieces_judge_what_points_into_them(tmp_path: Path, bounds: tuple[int, int | None]) -> None:
    start, end = bounds
    for kind, entries in ((OffsetIndexRule, TRUE_OFFSETS), (TimeIndexRule, TRUE_TIMES)):
        assert made_up(tmp_path, kind, entries, start=start, end=end)[0] == []
        for place, entry in enumerate(entries):
            wrong = [*entries]
            wrong[place] = (entry[0] + 1, entry[1]) if kind is TimeIndexRule else (entry[0] - 1, entry[1])
            found, _ = made_up(tmp_path, kind, wrong, start=start, end=end)
            at = 100 * (2 * place + 1)
            assert len(found) == (start <= at < (2000 if end is None else end))


def test_the_edges_of_a_piece_for_the_seams(tmp_path: Path) -> None:
    _, rule = made_up(tmp_path, TimeIndexRule, TRUE_TIMES, start=700, end=1400)
    assert isinstance(rule, TimeIndexRule)
    assert rule.first_entry == (2023, 1023, 36)
    assert rule.largest_timestamp == 2041
    _, rule = made_up(tmp_path, TimeIndexRule, [], start=700, end=1400)
    assert isinstance(rule, TimeIndexRule)
    assert (rule.first_entry, rule.largest_timestamp) == (None, 2041)


# A log that lost or gained bytes


def rows_past(rule: OffsetIndexRule | TimeIndexRule, rows: list[dict[str, int]], end: int | None = None) -> None:
    for first in range(0, len(rows), 5):
        rule.block(block_of(rows[first : first + 5]))
    end = rows[-1]["position"] + rows[-1]["size"] if end is None else end
    rule.end(end, is_whole=True, is_end_of_file=True)


def piece_of(folder: Path, kind: type[OffsetIndexRule], entries: list[tuple[int, int]], **given: int) -> AuditPiece:
    layout = OFFSET_ENTRY if kind is OffsetIndexRule else TIME_ENTRY
    name = names.prefix_of(1000) + kind.SUFFIX
    (folder / name).write_bytes(b"".join(layout.pack(*entry) for entry in entries))
    return AuditPiece(TopicPartition("t", 0), str(folder), 1000, None, indexes=frozenset({name}), **given)  # type: ignore[arg-type]


def moved(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    position = 0
    found = []
    for row in rows:
        found.append(row | {"position": position})
        position += row["size"]
    return found


SIZES = [100, 120, 90, 150] * 5


@pytest.mark.parametrize("lost", [0, 1, 4, 7, 12, 18])
@pytest.mark.parametrize("kind", [OffsetIndexRule, TimeIndexRule])
@pytest.mark.parametrize("sizes", [SIZES, [100] * 20])
def test_batches_that_are_gone_do_not_make_the_index_wrong(
    tmp_path: Path, lost: int, kind: type[OffsetIndexRule], sizes: list[int]
) -> None:
    rows = rows_at(0, 1000, sizes)
    if kind is OffsetIndexRule:
        entries = [(row["last_offset"] - 1000, row["position"]) for row in rows[1:]]
    else:
        entries = [(row["max_timestamp"], row["last_offset"] - 1000) for row in rows]
    found: list[Finding] = []
    left = moved(rows[:lost] + rows[lost + 1 :])
    rows_past(kind(piece_of(tmp_path, kind, entries), FILES, found.append), left)
    assert found == []
    # Where compaction may have taken it nobody tells of the gap, and an index made by compaction would know.
    rows_past(kind(piece_of(tmp_path, kind, entries, cleaned_to=1060), FILES, found.append), left)
    assert len(found) == 1


@pytest.mark.parametrize("place", [0, 3, 4, 9, 18])
@pytest.mark.parametrize("kind", [OffsetIndexRule, TimeIndexRule])
@pytest.mark.parametrize("sizes", [SIZES, [100] * 20])
def test_swapped_and_doubled_batches_do_not_make_the_index_wrong(
    tmp_path: Path, place: int, kind: type[OffsetIndexRule], sizes: list[int]
) -> None:
    rows = rows_at(0, 1000, sizes)
    if kind is OffsetIndexRule:
        entries = [(row["last_offset"] - 1000, row["position"]) for row in rows]
    else:
        entries = [(row["max_timestamp"], row["last_offset"] - 1000) for row in rows]
    doubled = moved([*rows[: place + 1], *rows[place:]])
    swapped = moved([*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]])
    for batches, first, behind in ((doubled, place + 1, place + 2), (swapped, place, place + 2)):
        found: list[Finding] = []
        rule = kind(piece_of(tmp_path, kind, entries), FILES, found.append)
        for row in batches[:first]:
            rule.block(block_of([row]))
        for row in batches[first:behind]:  # so a batch at a wrong place is told
            rule.damage(row["position"], row["position"] + row["size"], None)
        rows_past(rule, batches[behind:], batches[-1]["position"] + batches[-1]["size"])
        assert found == []


def test_a_damaged_batch_does_not_make_the_index_wrong(sample: Path) -> None:
    for log in logs(sample):
        for position in positions(log):
            content = log.read_bytes()
            edit(log, position + 30, bytes([content[position + 30] ^ 4]))
            assert audited_indexes(sample) == []
            log.write_bytes(content)


def test_entries_for_batches_appended_together(tmp_path: Path) -> None:
    rows = rows_at(0, 1000, SIZES)
    groups = [(rows[last]["last_offset"] - 1000, rows[first]["position"]) for first, last in ((1, 3), (4, 8), (9, 19))]
    found: list[Finding] = []
    rows_past(OffsetIndexRule(piece_of(tmp_path, OffsetIndexRule, groups), FILES, found.append), rows)
    assert found == []
    for place, offset in ((0, 10), (1, 25), (2, 63)):
        wrong = [*groups]
        wrong[place] = (offset, groups[place][1])
        rows_past(OffsetIndexRule(piece_of(tmp_path, OffsetIndexRule, wrong), FILES, found.append), rows)
        assert single(found).position == 8 * place
        found.clear()
    too_far = [(rows[5]["last_offset"] - 1000, rows[1]["position"]), groups[1]]
    rows_past(OffsetIndexRule(piece_of(tmp_path, OffsetIndexRule, too_far), FILES, found.append), rows)
    assert single(found).position == 0


# The check of a folder in one process says the same, but for where transactions begin and end: it does not follow them

ONLY_AN_AUDIT_SAYS = ("no transaction begins at that last stable offset", "but the transaction there has ended at")


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3), batches_per_block=st.integers(1, 6))
def test_random_damage_of_indexes_is_seen_as_a_verification_sees_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, batches_per_block: int
) -> None:
    dice = random.Random(seed)
    folder = copy_sample(tmp_path_factory.mktemp("any") / "t-0")
    for _ in range(count):
        path = dice.choice([path for path in sorted(folder.glob("*index")) if path.stat().st_size])
        content = bytearray(path.read_bytes())
        at = dice.randrange(len(content))
        what = dice.randrange(4)
        if what == 0:
            content[at] ^= 1 << dice.randrange(8)
        elif what == 1:
            content[at : at + dice.randrange(1, 20)] = dice.randbytes(dice.randrange(20))
        elif what == 2:
            del content[at:]
        else:
            other = dice.choice(sorted(folder.glob(f"*{path.suffix}")))
            content[:] = other.read_bytes()
        path.write_bytes(content)
    found = [
        each
        for each in audited_indexes(folder, batches_per_block=batches_per_block)
        if not any(words in each.words for words in ONLY_AN_AUDIT_SAYS)
    ]
    said = {Path(finding.file).name for finding in found}
    assert said == {finding.file for finding in errors(folder)}
    assert all(finding.rule in RULES for finding in audited_indexes(folder, notes=True))
