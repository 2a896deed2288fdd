"""Batches of a leader are validated as a whole before any is appended."""

from __future__ import annotations

import pytest

from support.metadata.quorum import topics
from tailrace.model.invariant import InvariantError
from tailrace.protocol.record_frame import encode_metadata_record
from tailrace.protocol.records.control import KRaftVersionRecord
from tailrace.raft.consensus import LogRun, VoterChange
from tailrace.raft.control_batch import control_batch
from tailrace.raft.fetched_batches import NO_BATCHES, REFUSED, validated
from tailrace.raft.voters import Voter, voters_record
from tailrace.record.builder import BatchBuilder


def batch(base_offset: int, epoch: int, count: int = 1) -> bytes:
    builder = BatchBuilder(base_offset, leader_epoch=epoch)
    for record, version in topics([f"t{n}" for n in range(count)]):
        builder.append(1000, None, encode_metadata_record(record, version))
    return bytes(builder.build())


def test_batches_are_described_by_epoch() -> None:
    voter = Voter(1)
    control = bytes(control_batch([KRaftVersionRecord(kraft_version=1), voters_record((voter,))], 5, 3, 1000))
    data = batch(0, 2, 3) + batch(3, 2, 2) + control + batch(7, 3)
    found = validated(data + batch(8, 3)[:-1])
    changes = (VoterChange(5, kraft_version=1), VoterChange(6, voters=(voter,)))
    assert found.runs == (LogRun(0, 5, 2), LogRun(5, 8, 3, changes))
    assert bytes(found.below(8)) == data
    assert bytes(found.below(3)) == batch(0, 2, 3)
    with pytest.raises(InvariantError):
        found.below(4)
    assert validated(b"") == NO_BATCHES


@pytest.mark.parametrize(
    "data",
    [
        batch(0, 2)[:-1],
        batch(0, 2) + batch(2, 2),
        batch(0, 2, 2) + batch(1, 2),
        batch(0, 2) + batch(1, 1),
        batch(0, 2) + batch(1, 3),
        batch(0, -1),
        b"\x00" * 100,
    ],
    ids=["a part", "a gap", "an overlap", "a lower epoch", "a later epoch without a leader", "no epoch", "zeros"],
)
def test_what_does_not_continue_a_log_is_refused(data: bytes) -> None:
    with pytest.raises(REFUSED):
        validated(data)


@pytest.mark.parametrize("position", range(0, len(batch(0, 2)), 3))
def test_every_flipped_bit_is_found(position: int) -> None:
    """Base offset and epoch are outside of the CRC: they are held against the log."""
    damaged = bytearray(batch(0, 2) + batch(1, 2))
    damaged[position] ^= 0x10
    try:
        found = validated(bytes(damaged))
    except REFUSED:
        return
    assert found.runs[0] != LogRun(0, 2, 2)
