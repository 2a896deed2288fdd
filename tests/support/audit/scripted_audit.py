"""An audit whose tasks are a few lines: a segment's batches are framed, and a CRC that is wrong is a finding.

Between any two steps a test may do what a broker does: append, roll, delete, compact, truncate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.env import Mode
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMessageError
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job import looking, tasks
from tailrace.spark.auditing.job.places import ListedSegment
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult, Seam
from tailrace.spark.auditing.rules import CRC, OFFSET_GAP, TRAILING_BYTES
from tailrace.spark.source.files.headers import headers, is_intact

Happening = Callable[[], None]


class Script:
    """What happens before which step: `before_piece[n]` before the n-th piece that is read, counted from 0."""

    def __init__(self) -> None:
        self.pieces: list[AuditPiece] = []
        self.before_piece: dict[int, Happening] = {}
        self.before_every: Happening | None = None

    def audit_piece(self, piece: AuditPiece) -> PieceResult:
        happening = self.before_piece.get(len(self.pieces))
        self.pieces.append(piece)
        if self.before_every is not None:
            self.before_every()
        if happening is not None:
            happening()
        return read_piece(piece)

    @property
    def read(self) -> list[tuple[int, int]]:
        """Base offset and start of each piece that was read."""
        return [(piece.base_offset, piece.start) for piece in self.pieces]


def read_piece(piece: AuditPiece) -> PieceResult:
    place = ListedSegment(piece.folder, piece.base_offset, piece.next_base, piece.is_swap, None)  # type: ignore[arg-type]
    file = RealFiles().open(place.path, Mode.READ)
    findings: list[Finding] = []
    end, first, behind, count = piece.start, None, None, 0
    status = os.fstat(file.fileno())
    try:
        for at, batch in headers(file, piece.start):
            if piece.end is not None and at >= piece.end:
                break
            if not is_intact(file, at, batch):
                findings.append(Finding(place.path, str(piece.partition), batch.base_offset, CRC, "is wrong", at))
            end, behind, count = at + batch.size, batch.next_offset, count + 1
            first = batch.base_offset if first is None else first
    except CorruptMessageError:
        findings.append(Finding(place.path, str(piece.partition), behind, TRAILING_BYTES, "are no batch", end))
    finally:
        file.close()
    figures = TopicFigures(files=int(piece.is_first), bytes=end - piece.start, batches=count)
    seam = Seam(piece.start, end, True, first, behind)
    identity = (status.st_dev, status.st_ino)
    return PieceResult(piece, seam, findings, figures, end - piece.start, identity, status.st_size)


def gaps(files: Any, folder: Any, facts: Any, results: Any, **settings: Any) -> list[Finding]:
    """In the place of all that is said of seams: offsets that are missing between segments."""
    found: list[Finding] = []
    behind = None
    for result in results:
        for piece in result.pieces:
            first = piece.seam.first_offset
            if behind is not None and first is not None and first != behind:
                found.append(
                    Finding(result.work.segment.path, str(folder.partition), behind, OFFSET_GAP, "are missing")
                )
            behind = piece.seam.next_offset if piece.seam.next_offset is not None else behind
    return found


def scripted(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Audits are so from now on, as long as the patch holds."""
    script = Script()
    monkeypatch.setattr(tasks, "audit_piece", script.audit_piece)
    monkeypatch.setattr(looking, "end_findings", gaps)
    return script


def damage(path: Path, at: int = 100) -> None:
    """A bit of a file, in place."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
