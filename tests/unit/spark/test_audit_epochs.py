from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.blocks import block_of, rows_at, segments_of, walk
from support.logs.sample_log import GOLDEN_PARTITIONS, copy_sample
from support.logs.verification import edit, errors, logs, positions
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import EPOCH_CHECKPOINT, EPOCH_ORDER
from tailrace.spark.auditing.task.epochs import EpochRule
from tailrace.storage import names
from tailrace.storage.epoch_cache import EpochEntry


def judged(
    epochs: Sequence[int],
    checkpoint: Sequence[tuple[int, int]] = (),
    *,
    batches_per_block: int = 4,
    **given: int,
) -> tuple[list[Finding], EpochRule]:
    """Batches of one record each from offset 0 on, with these leader epochs."""
    entries = tuple(EpochEntry(*entry) for entry in checkpoint)
    piece = AuditPiece(TopicPartition("t", 0), "/logs/t-0", 0, None, epochs=entries, **given)  # type: ignore[arg-type]
    found: list[Finding] = []
    rule = EpochRule(piece, found.append)
    rows = rows_at(0, 0, [100] * len(epochs), records=1)
    rows = [row | {"leader_epoch": epoch} for row, epoch in zip(rows, epochs, strict=True)]
    for first in range(0, len(rows), batches_per_block):
        rule.block(block_of(rows[first : first + batches_per_block]))
    rule.end(100 * len(rows), is_whole=True, is_end_of_file=True)
    return found, rule


def single(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


LOG = f"/logs/t-0/{names.log_name(0)}"
CHECKPOINT = f"/logs/t-0/{names.LEADER_EPOCH_CHECKPOINT}"
GOOD = [-1, -1, 0, 0, 0, 3, 3, 3, 3, 4, 4, 4]
GOOD_CHECKPOINT = [(0, 2), (3, 5), (4, 9)]


@pytest.mark.parametrize("batches_per_block", [1, 3, 50])
@pytest.mark.parametrize("checkpoint", [[], GOOD_CHECKPOINT, GOOD_CHECKPOINT[1:], [(0, 0), *GOOD_CHECKPOINT[1:]]])
def test_epochs_that_are_right(batches_per_block: int, checkpoint: list[tuple[int, int]]) -> None:
    found, rule = judged(GOOD, checkpoint, batches_per_block=batches_per_block)
    assert found == []
    assert (rule.first_epoch, rule.last_epoch) == (0, 4)


@pytest.mark.parametrize("batches_per_block", [1, 3, 50])
@pytest.mark.parametrize("place", range(2, 12))
@pytest.mark.parametrize("epoch", [0, 2, 3, 77, 1 << 30])
def test_one_batch_with_a_wrong_epoch(batches_per_block: int, place: int, epoch: int) -> None:
    changed = [*GOOD]
    changed[place] = epoch
    found, rule = judged(changed, GOOD_CHECKPOINT, batches_per_block=batches_per_block)
    if changed == GOOD:
        assert found == []
        return
    assert single(found).offset == place
    assert found[0].rule in (EPOCH_ORDER, EPOCH_CHECKPOINT)
    if not changed[place - 1] <= epoch <= (changed[place + 1] if place < 11 else -1):
        assert (found[0].file, found[0].position) == (LOG, 100 * place)
    assert (rule.first_epoch in (0, 3), rule.last_epoch) == (True, 4)


@pytest.mark.parametrize("place", range(3, 11))
@pytest.mark.parametrize("epoch", [0, 1, 77])
def test_one_batch_with_a_wrong_epoch_where_there_is_no_checkpoint(place: int, epoch: int) -> None:
    changed = [*GOOD]
    changed[place] = epoch
    found, _ = judged(changed)
    if sorted(changed) == changed:
        assert found == []
    else:
        assert (single(found).offset, found[0].rule, found[0].file) == (place, EPOCH_ORDER, LOG)


@pytest.mark.parametrize(
    ("checkpoint", "offset"),
    [
        ([(0, 2), (3, 7), (4, 9)], 5),
        ([(0, 2), (3, 5), (4, 8)], 8),
        ([(0, 2), (4, 9)], 5),
        ([(0, 2), (3, 5)], 9),
        ([(0, 2), (3, 5), (6, 9)], 9),
        ([(0, 2), (2, 5), (4, 9)], 5),
    ],
)
def test_a_checkpoint_that_the_batches_contradict(checkpoint: list[tuple[int, int]], offset: int) -> None:
    found = single(judged(GOOD, checkpoint)[0])
    assert (found.file, found.rule, found.offset) == (CHECKPOINT, EPOCH_CHECKPOINT, offset)


def test_what_may_still_change_is_not_judged() -> None:
    changed = [*GOOD[:10], 2, 9]
    assert judged(changed, GOOD_CHECKPOINT, judged_to=10)[0] == []
    assert len(judged(changed, GOOD_CHECKPOINT)[0]) == 2


def test_a_log_without_epochs() -> None:
    found, rule = judged([-1] * 9, [(5, 20)])
    assert (found, rule.first_epoch, rule.last_epoch) == ([], -1, -1)


@pytest.mark.parametrize("batches_per_block", [1, 3, 50])
@pytest.mark.parametrize("checkpoint", [[], GOOD_CHECKPOINT])
@pytest.mark.parametrize("place", range(3, 12))
def test_a_batch_that_lost_its_epoch(place: int, checkpoint: list[tuple[int, int]], batches_per_block: int) -> None:
    changed = [*GOOD]
    changed[place] = -1
    found, rule = judged(changed, checkpoint, batches_per_block=batches_per_block)
    assert (single(found).offset, found[0].rule, found[0].file) == (place, EPOCH_ORDER, LOG)
    assert "has no leader epoch, but one before it has" in found[0].words
    assert rule.last_epoch == 4


def test_messages_of_old_formats_have_no_epochs() -> None:
    piece = AuditPiece(TopicPartition("t", 0), "/logs/t-0", 0, None)
    found: list[Finding] = []
    rule = EpochRule(piece, found.append)
    rows = rows_at(0, 0, [100] * 6, records=1)
    rule.block(block_of([*rows[:3], *(row | {"magic": 1, "leader_epoch": -1} for row in rows[3:])]))
    rule.end(600, is_whole=True, is_end_of_file=True)
    assert (found, rule.without_epoch) == ([], None)


def test_an_epoch_among_batches_without_any() -> None:
    found, rule = judged([-1, -1, 77, -1, -1, -1])
    assert (single(found).offset, found[0].rule) == (2, EPOCH_ORDER)
    assert (rule.first_epoch, rule.without_epoch) == (-1, (0, 0))


@pytest.mark.parametrize("batches_per_block", [1, 3, 50])
@pytest.mark.parametrize(
    "checkpoint",
    [
        [(0, 4), (3, 5), (4, 9)],
        [(3, 5), (4, 9)],
        [(3, 7), (4, 9)],
        [(4, 9)],
        [(4, 11)],
    ],
)
def test_records_were_deleted_and_came_back(checkpoint: list[tuple[int, int]], batches_per_block: int) -> None:
    """As a kill leaves it between the cut of the checkpoint and the note of the log start."""
    found, rule = judged(GOOD, checkpoint, batches_per_block=batches_per_block)
    assert (found, rule.first_epoch, rule.last_epoch) == ([], 0, 4)


def audited(folder: Path) -> list[Finding]:
    lines = (folder / names.LEADER_EPOCH_CHECKPOINT).read_text().splitlines()[2:]
    epochs = [EpochEntry(*map(int, line.split())) for line in lines]
    found: list[Finding] = []
    for piece in segments_of(folder, epochs):
        walk(piece, [EpochRule(piece, found.append)])
    return found


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_what_kafka_wrote_has_no_findings(directory: Path) -> None:
    assert audited(directory) == []


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_random_epochs_are_seen_as_a_verification_sees_them(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    folder = copy_sample(tmp_path_factory.mktemp("any") / "t-0")
    assert audited(folder) == []
    if dice.random() < 0.5:
        log = dice.choice(logs(folder))
        position = dice.choice(positions(log))
        edit(log, position + 12, dice.randrange(4).to_bytes(4))  # the leader epoch, which no CRC covers
    else:
        entries = [(dice.randrange(3), dice.randrange(33)) for _ in range(2)]
        if entries[0][0] >= entries[1][0] or entries[0][1] >= entries[1][1]:
            entries.pop()
        lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
        (folder / names.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n{len(entries)}\n{lines}")
    verified = [finding for finding in errors(folder) if "leader epoch" in finding.problem]
    assert bool(audited(folder)) == bool(verified)
