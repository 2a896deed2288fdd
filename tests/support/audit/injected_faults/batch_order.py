"""Faults in the order of offsets and leader epochs: batches swapped, doubled, dropped; epochs that fall."""

from __future__ import annotations

from support.audit.injected_faults.catalog import Case, Expected, fault
from support.audit.logs import table
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.spark.auditing.rules import (
    EPOCH_CHECKPOINT,
    EPOCH_ORDER,
    LOST_START,
    OFFSET_GAP,
    OFFSET_ORDER,
    OFFSET_RANGE,
)
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT

# Offsets


@fault()
def swapped_batches(case: Case) -> Expected:
    parts = case.partition.parts(2)
    parts[4], parts[7] = parts[7], parts[4]
    case.log(2).write_bytes(b"".join(parts))
    case.partition.file(2, ".index").write_bytes(b"")
    case.partition.file(2, ".timeindex").write_bytes(b"")
    return case.expects(OFFSET_ORDER, case.log(2), 60, also=(OFFSET_ORDER,))


@fault()
def swapped_neighbours(case: Case) -> Expected:
    parts = case.partition.parts(0)
    parts[6], parts[7] = parts[7], parts[6]
    case.log(0).write_bytes(b"".join(parts))
    case.partition.file(0, ".index").write_bytes(b"")
    case.partition.file(0, ".timeindex").write_bytes(b"")
    return case.expects(OFFSET_ORDER, case.log(0), 22)


@fault()
def doubled_batch(case: Case) -> Expected:
    parts = case.partition.parts(1)
    case.partition.write(1, [*parts[:3], parts[2], *parts[3:]])
    return case.expects(OFFSET_ORDER, case.log(1), 33)


@fault()
def doubled_last_batch(case: Case) -> Expected:
    parts = case.partition.parts(2)
    case.partition.write(2, [*parts, parts[7]])
    return case.expects(OFFSET_ORDER, case.log(2), 64)


@fault(table)
def base_offset_above_the_high_watermark(case: Case) -> Expected:
    """A bit of a compacted log that was not closed: offsets that are not there anyway, and nothing above is judged."""
    (case.directory / CLEAN_SHUTDOWN_FILE).unlink()
    case.flip(0, 0, byte=7, bit=6)
    return case.expects(OFFSET_RANGE, case.log(0), 0)


@fault()
def batch_of_the_next_segment(case: Case) -> Expected:
    """The next segment's first batch stands at the end of this one, too."""
    parts = case.partition.parts(1)
    case.partition.write(1, [*parts, case.partition.parts(2)[0]])
    return case.expects(OFFSET_RANGE, case.log(1), 50)


@fault()
def batch_of_an_earlier_segment(case: Case) -> Expected:
    parts = case.partition.parts(2)
    parts[7:7] = [case.partition.parts(0)[0]]
    case.log(2).write_bytes(b"".join(parts))
    case.partition.file(2, ".index").write_bytes(b"")
    case.partition.file(2, ".timeindex").write_bytes(b"")
    return case.expects(OFFSET_RANGE, case.log(2), 64)


@fault()
def dropped_batch(case: Case) -> Expected:
    parts = case.partition.parts(1)
    case.partition.write(1, [*parts[:2], *parts[3:]])
    return case.expects(OFFSET_GAP, case.log(1), 33)


@fault()
def dropped_first_batch(case: Case) -> Expected:
    case.partition.write(2, case.partition.parts(2)[1:])
    return case.expects(OFFSET_GAP, case.log(2), 50)


@fault()
def dropped_batch_of_active_segment(case: Case) -> Expected:
    parts = case.partition.parts(3)
    case.partition.write(3, [*parts[:2], *parts[3:]])
    return case.expects(OFFSET_GAP, case.log(3), 73)


@fault()
def missing_segment(case: Case) -> Expected:
    for suffix in (".log", ".index", ".timeindex"):
        case.partition.folder.joinpath(f"{50:020d}{suffix}").unlink()
    case.forget_snapshots()
    return case.expects(OFFSET_GAP, case.log(1), 50)


@fault()
def lost_first_segment(case: Case) -> Expected:
    """That the log began before is known by its epochs."""
    for suffix in (".log", ".index", ".timeindex"):
        case.partition.folder.joinpath(f"{0:020d}{suffix}").unlink()
    return case.expects(LOST_START, case.log(0), 0)


@fault()
def lower_base_offset(case: Case) -> Expected:
    _move(case, 1, 2, 32)
    return case.expects(OFFSET_ORDER, case.log(1), 33)


@fault()
def higher_base_offset(case: Case) -> Expected:
    _move(case, 1, 2, 33 + 64)
    return case.expects(OFFSET_RANGE, case.log(1), 33)


def _move(case: Case, segment: int, place: int, offset: int) -> None:
    """A base offset is outside the CRC."""
    parts = case.partition.parts(segment)
    moved = bytearray(parts[place])
    set_base_offset(moved, 0, offset)
    case.log(segment).write_bytes(b"".join([*parts[:place], moved, *parts[place + 1 :]]))
    case.partition.file(segment, ".index").write_bytes(b"")
    case.partition.file(segment, ".timeindex").write_bytes(b"")


# Leader epochs


@fault()
def lower_leader_epoch(case: Case) -> Expected:
    _set_epoch(case, 2, 7, 2)
    return case.expects(EPOCH_ORDER, case.log(2), 64, also=(EPOCH_CHECKPOINT,))


@fault()
def higher_leader_epoch(case: Case) -> Expected:
    _set_epoch(case, 3, 6, 7)
    return case.expects(EPOCH_CHECKPOINT, case.log(3), 85)


@fault()
def other_leader_epoch(case: Case) -> Expected:
    """Ascends, and is none that the checkpoint knows."""
    _set_epoch(case, 2, 3, 2)
    return case.expects(EPOCH_CHECKPOINT, case.partition.folder / LEADER_EPOCH_CHECKPOINT, 56)


@fault()
def flipped_leader_epoch(case: Case) -> Expected:
    case.flip(1, 2, byte=12, bit=6)
    return case.expects(EPOCH_CHECKPOINT, case.log(1), 33)


@fault()
def batch_without_leader_epoch(case: Case) -> Expected:
    _set_epoch(case, 1, 2, -1)
    return case.expects(EPOCH_ORDER, case.log(1), 33)


@fault()
def first_batch_without_leader_epoch(case: Case) -> Expected:
    """None before it has one; the checkpoint does."""
    _set_epoch(case, 0, 0, -1)
    return case.expects(EPOCH_CHECKPOINT, case.log(0), 0)


@fault()
def segment_without_leader_epoch(case: Case) -> Expected:
    """That another one has is known where the two meet."""
    for place in range(8):
        _set_epoch(case, 1, place, -1)
    return case.expects(EPOCH_ORDER, case.log(1), 28)


def _set_epoch(case: Case, segment: int, place: int, epoch: int) -> None:
    """The leader epoch is outside the CRC."""
    path = case.log(segment)
    content = bytearray(path.read_bytes())
    set_leader_epoch(content, case.batch(segment, place).position, epoch)
    path.write_bytes(content)


@fault()
def epochs_that_cannot_be_read(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("0\n3\n0 0\n1 2x8\n3 57\n")
    return case.expects(EPOCH_CHECKPOINT, file)


@fault()
def epochs_that_do_not_ascend(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("0\n3\n0 0\n1 28\n3 20\n")
    return case.expects(EPOCH_CHECKPOINT, file, 20, also=(EPOCH_CHECKPOINT,))


@fault()
def epoch_that_begins_elsewhere(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("0\n3\n0 0\n1 28\n3 61\n")
    return case.expects(EPOCH_CHECKPOINT, file, 57)


@fault()
def lost_epochs(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.unlink()
    return case.expects(EPOCH_CHECKPOINT, file)


@fault()
def no_epochs(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("0\n0\n")
    return case.expects(EPOCH_CHECKPOINT, file)


@fault()
def lost_epoch(case: Case) -> Expected:
    """Between two others: where the first are lost, they may as well have been deleted with their records."""
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("0\n2\n0 0\n3 57\n")
    return case.expects(EPOCH_CHECKPOINT, file, 28)


@fault()
def cut_epochs(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_bytes(file.read_bytes()[:-6])
    return case.expects(EPOCH_CHECKPOINT, file)
