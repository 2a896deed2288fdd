"""Logs of producers as rows of blocks, and an audit of them in any pieces.

`Leader` takes batches and markers as a broker does: `storage.producer_append` decides. What it refuses can be put into
the log all the same, as somebody would who tampers with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from support.audit.blocks import COLUMNS, Row, block_of
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.record.control import ABORT, COMMIT, ControlRecord
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer
from tailrace.spark.auditing.job.stitching import stitch
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult, Seam
from tailrace.spark.auditing.task.block import Marker
from tailrace.spark.auditing.task.producers import ProducerRule
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import ProducerAppendInfo
from tailrace.storage.producer_entry import ProducerStateEntry

FOLDER = "/data/t-0"
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
BATCH_BYTES = 100


class Batch(NamedTuple):
    row: Row
    control: ControlRecord | None = None


@dataclass
class Leader:
    now_ms: int = START_MS
    next_offset: int = 0
    batches: list[Batch] = field(default_factory=list)
    producers: dict[int, ProducerStateEntry] = field(default_factory=dict)
    has_forgotten: bool = False

    def known(self, producer_id: int) -> ProducerStateEntry:
        return self.producers.get(producer_id, ProducerStateEntry(producer_id))

    def data(
        self, producer_id: int, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False
    ) -> TailraceError | None:
        """None if a leader takes it; else it is in the log nevertheless."""
        attributes = TRANSACTIONAL_BIT if transactional else 0
        row = self._row(count, producer_id, epoch, sequence, attributes)
        last_sequence = (sequence + count - 1) & 0x7FFFFFFF
        place = LogOffsetMetadata(row["base_offset"])
        refused: TailraceError | None = None
        for origin in (Origin.CLIENT, Origin.REPLICATION):
            info = ProducerAppendInfo("t-0", self.known(producer_id), origin)
            try:
                info.append_data(epoch, sequence, last_sequence, self.now_ms, place, row["last_offset"], transactional)
                break
            except TailraceError as error:
                refused = error
        self._append(row, None, info)
        return refused

    def marker(self, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> TailraceError | None:
        row = self._row(1, producer_id, epoch, -1, TRANSACTIONAL_BIT | CONTROL_BIT)
        control = ControlRecord(COMMIT if commit else ABORT, coordinator_epoch)
        refused: TailraceError | None = None
        for origin in (Origin.COORDINATOR, Origin.REPLICATION):
            info = ProducerAppendInfo("t-0", self.known(producer_id), origin)
            try:
                info.append_end_txn_marker(control, epoch, row["base_offset"], self.now_ms)  # type: ignore[arg-type]
                break
            except TailraceError as error:
                refused = error
        self._append(row, control, info)
        return refused

    def plain(self, count: int = 1) -> None:
        row = self._row(count, -1, -1, -1, 0)
        self._append(row, None, None)

    def skip(self, offsets: int) -> None:
        """Offsets that are gone."""
        self.next_offset += offsets

    def wait(self, forward_ms: int) -> None:
        """Time goes by; who was idle for a day is forgotten."""
        self.now_ms += forward_ms
        for entry in list(self.producers.values()):
            if entry.txn_first_offset is None and self.now_ms - entry.last_timestamp >= DAY_MS:
                del self.producers[entry.producer_id]
                self.has_forgotten = True

    def _row(self, count: int, producer_id: int, epoch: int, sequence: int, attributes: int) -> Row:
        position = self.batches[-1].row["position"] + BATCH_BYTES if self.batches else 0
        return dict.fromkeys(COLUMNS, -1) | {
            "position": position,
            "size": BATCH_BYTES,
            "magic": 2,
            "base_offset": self.next_offset,
            "last_offset": self.next_offset + count - 1,
            "attributes": attributes,
            "max_timestamp": self.now_ms,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "base_sequence": sequence,
            "record_count": count,
        }

    def _append(self, row: Row, control: ControlRecord | None, info: ProducerAppendInfo | None) -> None:
        self.batches.append(Batch(row, control))
        self.next_offset = row["last_offset"] + 1
        if info is not None:
            self.producers[info.producer_id] = info.entry


@dataclass(frozen=True)
class Cuts:
    """Places between batches, by the number of the batch behind."""

    blocks: Collection[int] = ()
    pieces: Collection[int] = ()
    segments: Collection[int] = ()
    damage: Collection[int] = ()
    """A damaged batch stands there."""


UNCUT = Cuts()


@dataclass
class Audit:
    findings: list[Finding]
    states: dict[int, Mapping[int, LoggedProducer]]

    @property
    def told(self) -> list[tuple[int | None, str]]:
        return sorted((finding.offset, finding.rule) for finding in self.findings)


def audit(
    batches: Sequence[Batch],
    cuts: Cuts = UNCUT,
    *,
    alive_ms: int = START_MS,
    snapshots: Sequence[int] = (),
    unindexed: Collection[int] = (),
    began: Mapping[int, int] | None = None,
    topic: str = "t",
    **given: int,
) -> Audit:
    """`given`: fields of pieces."""
    edges = sorted({0, *(edge for edge in (*cuts.pieces, *cuts.segments) if edge < len(batches))})
    segments = [edge for edge in edges if edge == 0 or edge in cuts.segments]
    results: list[PieceResult] = []
    for start, behind in zip(edges, [*edges[1:], len(batches)], strict=True):
        base = max(edge for edge in segments if edge <= start)
        later = [edge for edge in segments if edge > start]
        piece = AuditPiece(
            TopicPartition(topic, 0),
            FOLDER,
            batches[base].row["base_offset"] if batches else 0,
            batches[later[0]].row["base_offset"] if later else None,
            start=0 if start == base else batches[start].row["position"],
            snapshot_offsets=tuple(snapshots),
            **given,  # type: ignore[arg-type]
        )
        results.append(_run(piece, batches, range(start, behind), cuts, unindexed, began))
    states: dict[int, Mapping[int, LoggedProducer]] = {}
    folder = Folder(TopicPartition(topic, 0), FOLDER, "/data", alive_ms=alive_ms, snapshots=tuple(snapshots))
    found = stitch(folder, results, take_states=states.__setitem__)
    return Audit([*(finding for result in results for finding in result.findings), *found], states)


def _run(
    piece: AuditPiece,
    batches: Sequence[Batch],
    numbers: range,
    cuts: Cuts,
    unindexed: Collection[int],
    began: Mapping[int, int] | None,
) -> PieceResult:
    findings: list[Finding] = []
    rule = ProducerRule(
        piece,
        findings.append,
        lambda offset: offset not in unindexed,
        None if began is None else lambda offset: began.get(offset, -2),
    )
    held: list[Batch] = []

    def hand_over() -> None:
        if held:
            markers = [
                Marker(row, batch.control.type == COMMIT, batch.control.coordinator_epoch or 0)
                for row, batch in enumerate(held)
                if batch.control is not None
            ]
            rule.block(block_of([batch.row for batch in held], markers))
            held.clear()

    for number in numbers:
        if number in cuts.blocks or number in cuts.damage:
            hand_over()
        if number in cuts.damage:
            rule.damage(batches[number].row["position"], batches[number].row["position"] + 1, None)
        held.append(batches[number])
    hand_over()
    end = batches[numbers[-1]].row["position"] + BATCH_BYTES if numbers else 0
    rule.end(end, is_whole=True, is_end_of_file=True)
    seam = Seam(
        start_position=piece.start,
        end_position=end,
        is_whole=True,
        first_offset=batches[numbers[0]].row["base_offset"] if numbers else None,
        next_offset=batches[numbers[-1]].row["last_offset"] + 1 if numbers else None,
        starts_damaged=numbers.start in cuts.damage,
        producers=rule.seams(),
    )
    return PieceResult(piece, seam, findings, TopicFigures())


def everywhere(batches: Sequence[Batch]) -> Cuts:
    return Cuts(pieces=range(1, len(batches)))


def faults_of(leader: Leader, **options: Any) -> list[tuple[int | None, str]]:
    """The same in one piece and with every batch in a piece of its own."""
    whole = audit(leader.batches, **options).told
    assert audit(leader.batches, everywhere(leader.batches), **options).told == whole
    return whole
