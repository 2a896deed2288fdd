"""Offsets in transactions: held back until the marker, and the later of two commits counts."""

from __future__ import annotations

import pytest

from support.coordinators.offsets import GROUP, OffsetRig, StubGroup
from tailrace.model.errors import UnstableOffsetCommitError
from tailrace.protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup

NOTHING = dict.fromkeys(range(4), -1)


@pytest.fixture
def rig() -> OffsetRig:
    """Everything is committed at once."""
    return OffsetRig(in_sync=(1,))


def stable(rig: OffsetRig, partition: int = 0) -> tuple[int, int, str]:
    (row,) = rig.stable(partition=partition)
    return row.error_code, row.committed_offset, row.metadata


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_count_when_their_transaction_is_committed(rig: OffsetRig, is_commit: bool) -> None:
    rig.commit(10)
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(30, partition=1)
    assert rig.committed() == {**NOTHING, 0: 10}
    assert rig.all_committed() == {("orders", 0): 10}
    rig.end_transaction(is_commit)
    assert rig.committed() == ({**NOTHING, 0: 20, 1: 30} if is_commit else {**NOTHING, 0: 10})
    assert stable(rig) == (0, 20 if is_commit else 10, "")


@pytest.mark.spec("CO-08")
def test_whoever_wants_stable_offsets_is_told_of_an_open_transaction(rig: OffsetRig) -> None:
    rig.commit(10, note="n")
    rig.commit(11, partition=1, note="n")
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(21, partition=2)
    unstable = (UnstableOffsetCommitError.code, -1, "")
    assert [stable(rig, partition) for partition in range(3)] == [unstable, (0, 11, "n"), unstable]
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (topic,) = rig.store.fetch(asked, 9, requires_stable=True).topics
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, UnstableOffsetCommitError.code),
        (1, 0),
    ]
    rig.end_transaction(is_commit=False)
    assert stable(rig) == (0, 10, "n")


@pytest.mark.spec("CO-08")
def test_a_plain_commit_after_that_of_a_transaction_stays(rig: OffsetRig) -> None:
    """Whatever the order of the markers: the records' own order counts, as it does when the log is read again."""
    rig.commit_in_transaction(20, producer=7)
    rig.commit(10)
    rig.commit_in_transaction(30, partition=1, producer=7)
    rig.commit_in_transaction(31, partition=1, producer=8)
    rig.end_transaction(is_commit=True, producer=8)
    rig.end_transaction(is_commit=True, producer=7)
    assert rig.committed() == {**NOTHING, 0: 10, 1: 31}


@pytest.mark.spec("CO-08")
def test_the_later_commit_of_one_transaction_counts(rig: OffsetRig) -> None:
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(25)
    rig.end_transaction(is_commit=True)
    rig.end_transaction(is_commit=True)
    assert rig.committed() == {**NOTHING, 0: 25}


@pytest.mark.spec("CO-08")
def test_a_deleted_offset_does_not_come_back_with_the_marker(rig: OffsetRig) -> None:
    rig.leader.machine.groups[GROUP] = StubGroup()
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(20, partition=1)
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    rig.ask(lambda machine: machine.offsets.delete(GROUP, [topic]), GROUP)
    assert stable(rig) == (0, -1, "")
    rig.end_transaction(is_commit=True)
    assert rig.committed() == {**NOTHING, 1: 20}


@pytest.mark.spec("CO-08")
def test_a_marker_is_shown_when_the_replicas_have_it() -> None:
    rig = OffsetRig()
    rig.commit(10)
    rig.commit_in_transaction(20)
    rig.replicate()
    rig.end_transaction(is_commit=True)
    assert rig.committed() == {**NOTHING, 0: 10}
    rig.replicate()
    assert rig.committed() == {**NOTHING, 0: 20}


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_new_coordinator_goes_on_with_open_transactions(is_commit: bool) -> None:
    rig = OffsetRig()
    rig.commit(10)
    rig.commit_in_transaction(20)
    rig.commit_in_transaction(40, partition=3, producer=8)
    rig.end_transaction(is_commit=True, producer=8)
    rig.replicate()
    rig.fail_over()
    rig.replicate()
    assert rig.store.pending.places(GROUP) == [("orders", 0)]
    rig.end_transaction(is_commit)
    rig.replicate()
    assert rig.committed() == {**NOTHING, 0: 20 if is_commit else 10, 3: 40}
