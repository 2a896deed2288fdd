"""What must hold for the metadata quorum of a simulated cluster, checked event by event.

    append    the same offset and epoch: the same batch, after the same batch (log matching)
    leads     an epoch has one leader, and its log has all that is committed
    leader    the epoch of a process never goes back, nor below what its disk knows
    commit    a node reports the committed batches, unchanged, in their order, without a gap; its high watermark never
              goes back; its voters are the committed ones when nothing of its log is uncommitted
    snapshot  has the image of a committed offset
    resigned  the state of a controller that is not active is what is committed
    acked     what was acknowledged is committed

The image of a node is compared with a replay of the committed log at every checkpoint of that log, after every
snapshot, and at the end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.control import VotersRecord
from tailrace.raft.voters import Voter, voters_of
from tailrace.sim.admin_operations import Acknowledged
from tailrace.sim.appended_batches import AppendedBatch
from tailrace.sim.committed_log import CHECKPOINT_BATCHES, CommittedLog, image_digest
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.quorum_observer import Committed, Installed, LeaderChange, QuorumObserver

_REPORTS: Final = ("cut ", "is damaged", "is dropped", "cannot be read", "has failed", "is refused")
"""How a node reports damage in its log."""


class _Content(NamedTuple):
    """Of a batch with a known base offset and epoch."""

    last_offset: int
    crc: int
    preceding_epoch: int
    """Of the batch that ends before it; −1 if a snapshot does."""


class LogMatching(Checker):
    kinds = frozenset({"append", "disk-new"})

    def __init__(self) -> None:
        self._contents: dict[tuple[int, int], _Content] = {}
        self._ends: set[tuple[int, int]] = set()
        self._voters: dict[tuple[int, int], tuple[Voter, ...]] = {}
        self._epochs: dict[str, dict[int, int]] = {}
        """Of each machine: the epoch of the batch that it wrote last up to an offset."""
        self.ends: dict[str, int] = {}
        """Of each machine: the offset after the batch that it wrote last."""

    def has_voters_after(self, offset: int) -> bool:
        """Some node has appended voters there, which may be committed or not."""
        return any(last_offset > offset for last_offset, _ in self._voters)

    def has_batch(self, last_offset: int, epoch: int) -> bool:
        """Some node has appended a batch of the epoch that ends there."""
        return (last_offset, epoch) in self._ends

    def voters_at(self, last_offset: int, epoch: int) -> tuple[Voter, ...] | None:
        return self._voters.get((last_offset, epoch))

    def on_event(self, event: Event) -> None:
        if event.kind == "disk-new":
            self._epochs.pop(event.machine, None)
            self.ends.pop(event.machine, None)
            return
        batch: AppendedBatch = event.data
        epochs = self._epochs.setdefault(batch.machine, {})
        found = _Content(batch.last_offset, batch.crc, epochs.get(batch.base_offset, -1))
        known = self._contents.setdefault((batch.base_offset, batch.epoch), found)
        self._ends.add((batch.last_offset, batch.epoch))
        epochs[batch.last_offset + 1] = batch.epoch
        self.ends[batch.machine] = batch.last_offset + 1
        if known[:2] != found[:2]:
            raise Violation(
                f"{batch.machine} appends a batch at offset {batch.base_offset} of epoch {batch.epoch} that differs "
                f"from the one there: {found} and {known}"
            )
        if -1 not in (known.preceding_epoch, found.preceding_epoch) and known != found:
            raise Violation(
                f"{batch.machine} appends offset {batch.base_offset} of epoch {batch.epoch} after epoch "
                f"{found.preceding_epoch}, and others have it after epoch {known.preceding_epoch}"
            )
        for record in batch.controls:
            if isinstance(record, VotersRecord):
                self._voters[batch.last_offset, batch.epoch] = voters_of(record)


class Elections(Checker):
    kinds = frozenset({"leads", "leader", "append", "disk-new"})

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._leaders: dict[int, str] = {}
        self._seen: dict[QuorumObserver, int] = {}
        self._durable: dict[str, int] = {}
        """Of each machine: an epoch that its disk knows."""
        self.elections = 0

    def on_event(self, event: Event) -> None:
        if event.kind == "disk-new":
            self._durable.pop(event.machine, None)
            return
        if event.kind == "append":
            return
        change: LeaderChange = event.data
        member = change.member
        seen = max(self._seen.get(member, 0), self._durable.get(member.machine, 0))
        if change.epoch < seen:
            raise Violation(f"{member.machine} goes back from epoch {seen} to {change.epoch}")
        self._seen[member] = change.epoch
        if event.kind == "leads":
            self._leads(change)

    def _leads(self, change: LeaderChange) -> None:
        member = change.member
        self.elections += 1
        self._durable[member.machine] = change.epoch
        holder = f"process {member.process.number} of {member.machine}"
        if self._leaders.setdefault(change.epoch, holder) != holder:
            raise Violation(f"epoch {change.epoch} has two leaders: {holder} and {self._leaders[change.epoch]}")
        if change.log_end_offset < self._committed.end:
            raise Violation(
                f"{member.machine} leads epoch {change.epoch} with a log that ends at {change.log_end_offset}; what is "
                f"committed ends at {self._committed.end}"
            )


class CommittedState(Checker):
    kinds = frozenset({"commit", "snapshot"})

    def __init__(self, committed: CommittedLog, logs: LogMatching) -> None:
        self._committed = committed
        self._logs = logs
        self.reported: dict[QuorumObserver, int] = {}
        """Of each process: the index of the batch that it reported last."""
        self.compared_images = 0

    def on_event(self, event: Event) -> None:
        if event.kind == "snapshot":
            self._installed(event.data)
        else:
            self._reported(event.data)

    def _installed(self, snapshot: Installed) -> None:
        member, committed = snapshot.member, self._committed
        index = committed.index_of(snapshot.last_offset)
        if index is None or (index >= 0 and committed.batches[index].epoch != snapshot.epoch):
            raise Violation(f"{member.machine} installs a snapshot that is not committed: {snapshot[1:]}")
        if index < self.reported.get(member, -1):
            raise Violation(f"{member.machine} goes back to a snapshot that ends at offset {snapshot.last_offset}")
        self.reported[member] = index
        self._compare(member, index)

    def _reported(self, batch: Committed) -> None:
        member, offset, committed = batch.member, batch.last_offset, self._committed
        if offset >= committed.end:
            committed.add(offset, batch.epoch, batch.records, self._logs.voters_at(offset, batch.epoch))
        index = committed.index_of(offset)
        expected = committed.batches[index] if index is not None else None
        if index is None or expected is None or (expected.epoch, expected.records) != (batch.epoch, batch.records):
            raise Violation(f"{member.machine} reports at offset {offset}: {batch[2:]}; committed is {expected}")
        if index != self.reported.get(member, -1) + 1:
            raise Violation(
                f"{member.machine} reports batch {index} of the committed log after batch {self.reported.get(member)}"
            )
        self.reported[member] = index
        if member.image.offset != offset:
            return
        if index % CHECKPOINT_BATCHES == 0:
            self._compare(member, index)
        quorum = member.quorum
        if index == len(committed.batches) - 1 and quorum.log_end_offset == offset + 1:
            self.check_voters(member)

    def check_voters(self, member: QuorumObserver) -> None:
        """Only of a member that has reported all that is committed, and has nothing more."""
        if member.quorum.voters != self._committed.voters:
            raise Violation(
                f"{member.machine} has the voters {member.quorum.voters}; committed are {self._committed.voters}"
            )

    def check_image(self, member: QuorumObserver) -> None:
        self._compare(member, self.reported.get(member, -1))

    def _compare(self, member: QuorumObserver, index: int) -> None:
        if index < 0 or self._committed.index_of(member.image.offset) != index:
            return
        self.compared_images += 1
        if image_digest(member.image) != self._committed.digest_at(index):
            raise Violation(f"the image of {member.machine} at offset {member.image.offset} is not that of the log")


class ControllerState(Checker):
    """A controller that is not active has the committed image, and nothing that it has appended besides."""

    kinds = frozenset({"commit", "resigned", "snapshot"})

    def __init__(self) -> None:
        self._seen: dict[QuorumObserver, int] = {}
        """Of each process: the number of its events."""

    def on_event(self, event: Event) -> None:
        member: QuorumObserver = event.data if event.kind == "resigned" else event.data.member
        controller = member.controller
        if controller is None or controller.is_active or not member.process.is_alive:
            return
        if controller.image.offset != member.image.offset:
            raise Violation(
                f"controller {member.node_id} is not active, and its state is that of offset "
                f"{controller.image.offset}; offset {member.image.offset} is committed"
            )
        seen = self._seen[member] = self._seen.get(member, 0) + 1
        if event.kind == "commit" and seen % CHECKPOINT_BATCHES:
            return
        if image_digest(controller.image) != image_digest(member.image):
            raise Violation(
                f"controller {member.node_id} is not active, and its state at offset {member.image.offset} is not "
                "what is committed"
            )


class Acknowledgements(Checker):
    """What a client was notified of is in the committed log, between its request and the response."""

    kinds = frozenset({"acked"})

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self.count = 0

    def on_event(self, event: Event) -> None:
        acknowledged: Acknowledged = event.data
        self.count += 1
        if not acknowledged.is_committed(self._committed):
            raise Violation(f"{event.machine} got an acknowledgement of what is not committed: {event.text}")


class UnchangedBatches(Checker):
    """What holds whatever is lost: a node reports batches that were appended, with the records that they had."""

    kinds = frozenset({"commit"})

    def __init__(self, logs: LogMatching) -> None:
        self._logs = logs
        self._records: dict[tuple[int, int], list[VersionedRecord]] = {}

    def on_event(self, event: Event) -> None:
        batch: Committed = event.data
        key = batch.last_offset, batch.epoch
        if not self._logs.has_batch(*key):
            raise Violation(f"{event.machine} reports a batch that was not appended: {batch[1:]}")
        if self._records.setdefault(key, batch.records) != batch.records:
            raise Violation(f"{event.machine} reports other records at {key}: {batch.records}")


class UnlessReported(Checker):
    """Checks as another checker, until a node has logged that its files are damaged: then data may be missing."""

    def __init__(self, checker: Checker) -> None:
        self.kinds = checker.kinds | {"log"}
        self.is_reported = False
        self._checker = checker

    def on_event(self, event: Event) -> None:
        if event.kind == "log":
            self.is_reported |= any(word in event.text for word in _REPORTS)
        elif not self.is_reported:
            self._checker.on_event(event)
