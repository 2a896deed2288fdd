"""One piece of a segment: read once, past every rule that needs no other piece.

    window ─ frames and CRCs, by kernels ─ columns ─┬─ headers, records, controls  →  faults
                                                    └─ offsets  →  blocks  →  the rules

Batches that follow each other without anything odd go this way hundreds at a time. Whatever is odd is looked at one by
one: messages of old formats, batches too large to be held, damage.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from tailrace.env import File, Files
from tailrace.env.memory import zeroed_memory
from tailrace.model.offsets import GREATEST_OFFSET, MAX_RELATIVE_OFFSET
from tailrace.record import kernels
from tailrace.record.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2
from tailrace.record.kernels import BATCH_ROW, BATCH_START
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.task.batch_checks import BatchChecks
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.columns import block_of_run, joined, part
from tailrace.spark.auditing.task.counting import Counting
from tailrace.spark.auditing.task.damage import DamageJudge
from tailrace.spark.auditing.task.faults import Fault
from tailrace.spark.auditing.task.findings import Findings
from tailrace.spark.auditing.task.huge_batch import HugeBatch
from tailrace.spark.auditing.task.looking_ahead import last_judged
from tailrace.spark.auditing.task.offsets import Offsets, stretches
from tailrace.spark.auditing.task.old_messages import OldMessages
from tailrace.spark.auditing.task.piece_rules import PieceRules
from tailrace.spark.auditing.task.window import MOST_HELD_BYTES, Window
from tailrace.spark.source.files.headers import batch_at
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.files.segments import Segment

MOST_DAMAGES: Final = 4096
"""Places in a piece that are looked at; a file may be made of nothing else."""
_MOST_BATCHES: Final = 8192
_FEW_BATCHES: Final = 8
_ENOUGH_BATCHES: Final = 2048
_ANY_EPOCH: Final = 2**31 - 1


def audit_piece(piece: AuditPiece, files: Files | None = None) -> PieceResult:
    """Everything that the bytes of a piece say about themselves.

    Raises FileNotFoundError where the log file went away, OSError where it cannot be read. Whatever the bytes are,
    there are findings and no error. `files` is the file system; the real one without.
    """
    reading = ReadOnlyFiles(files)
    segment = Segment(piece.folder, piece.base_offset, piece.next_base, piece.is_swap)
    file = segment.open(reading)
    try:
        return PieceAudit(piece, reading, file, segment.path).run()
    finally:
        file.close()


class PieceAudit:
    """One run over one piece."""

    def __init__(self, piece: AuditPiece, files: ReadOnlyFiles, file: File, path: str) -> None:
        self._piece = piece
        self._path = path
        self._files = files
        self._file = file
        self._size = size = file.size()
        self._end = size if piece.end is None else min(piece.end, size)
        self._findings = Findings()
        self._rules = PieceRules(piece, files, self._findings)
        self._counting = Counting(self._end - piece.start, is_first=piece.is_first)
        self._checks = BatchChecks(self._counting)
        self._offsets = Offsets(piece, self._say, self._base_offset_at, self._last_judged)
        self._window = Window(file, piece.start, size)
        self._waiting: list[tuple[Block, Numbers]] = []
        self._waiting_batches = 0
        behind = piece.base_offset + MAX_RELATIVE_OFFSET + 1
        behind = behind if piece.next_base is None else min(behind, piece.next_base)
        self._judge = DamageJudge(piece, file, size, piece.base_offset, behind)
        is_below = piece.next_base is not None and piece.judged_to is not None and piece.next_base <= piece.judged_to
        self._judged_to = None if piece.is_closed or is_below else piece.judged_to
        """From here on nothing is judged; None: all is, as in a segment that another one below it follows."""
        self._rows = zeroed_memory(8 * BATCH_ROW * _MOST_BATCHES).cast("q")
        self._starts = np.frombuffer(self._rows, np.int64)[BATCH_START::BATCH_ROW]
        self._at_once = _MOST_BATCHES
        self._damages = 0
        self._is_whole = True
        self._is_unjudged = False
        self._is_over = False

    def run(self) -> PieceResult:
        window = self._window
        while not self._is_over and window.position < min(self._end, window.limit):
            if not self._take_run():
                self._take_waiting()
                self._take_odd()
        self._take_waiting()
        self._offsets.end()
        seam = self._rules.end(
            window.position,
            is_whole=self._is_whole,
            is_end_of_file=not self._is_unjudged and (self._is_over or window.position >= self._size),
            is_unjudged=self._is_unjudged,
        )
        return PieceResult(
            piece=self._piece,
            seam=seam,
            findings=self._findings.all(),
            figures=self._counting.done(),
            read_bytes=self._files.bytes_read,
            identity=_identity(self._file),
            size=self._size,
        )

    # What is as it should be

    def _take_run(self) -> bool:
        """Batches of magic 2 that are whole in the window and have their CRCs; False without one."""
        window = self._window
        view = window.view
        if len(view) < HEADER_BYTES or _size_at(view) > len(view):
            window.fill()
            view = window.view
        room = self._rows[: BATCH_ROW * self._at_once]
        count = kernels.walk_run(view, 0, len(view), 0, GREATEST_OFFSET, _ANY_EPOCH, room)
        intact = kernels.check_run(view, self._rows, count)
        if window.position + len(view) > self._end:
            intact = int(np.searchsorted(self._starts[:intact], self._end - window.position))
        if not intact:
            return False
        block = block_of_run(view, self._rows, intact, window.position)
        judged = self._judged(block)
        if judged:
            block = part(block, 0, judged)
            faults = self._checks.check(view, block.position - window.position, block)
            behind = int(block.position[-1] + block.size[-1])
            self._take(block, faults, self._checks.plain_bytes)
            window.go_to(behind)
        self._at_once = min(2 * self._at_once, _MOST_BATCHES)
        return True

    def _judged(self, block: Block) -> int:
        """How many batches of the block are to be judged; with one that is not, the piece is over."""
        judged_to = self._judged_to
        if judged_to is None or int(block.base_offset.max()) < judged_to:
            return len(block)
        self._take_waiting()
        judged = self._offsets.judged(block)
        self._is_over = self._is_unjudged = judged < len(block)
        return judged

    def _take(self, block: Block, faults: list[Fault], plain_bytes: Numbers) -> None:
        """Batches with right CRCs: to the rules, but for those with faults."""
        if not faults:
            self._waiting.append((block, plain_bytes))
            self._waiting_batches += len(block)
            if self._waiting_batches >= _ENOUGH_BATCHES:
                self._take_waiting()
            return
        self._take_waiting()
        first = 0
        for fault in sorted({fault.row: fault for fault in reversed(faults)}.values()):
            self._take_intact(block, first, fault.row, plain_bytes)
            position, offset = int(block.position[fault.row]), int(block.base_offset[fault.row])
            self._say(fault.rule, position, offset, fault.words)
            self._pass(position, position + int(block.size[fault.row]), fault.next_offset)
            first = fault.row + 1
        self._take_intact(block, first, len(block), plain_bytes)

    def _take_waiting(self) -> None:
        """Rules cost by the block: those of several windows are one to them."""
        if self._waiting:
            block = joined([block for block, _ in self._waiting])
            plain_bytes = np.concatenate([plain_bytes for _, plain_bytes in self._waiting])
            self._waiting.clear()
            self._waiting_batches = 0
            self._take_intact(block, 0, len(block), plain_bytes)

    def _take_intact(self, block: Block, first: int, behind: int, plain_bytes: Numbers) -> None:
        if first == behind:
            return
        block, plain_bytes = part(block, first, behind), plain_bytes[first:behind]
        start = 0
        for dropped, next_offset in stretches(self._offsets.check(block)):
            self._hand_on(block, plain_bytes, start, dropped.start)
            start = dropped.stop
            position = int(block.position[dropped.start])
            end = int(block.position[start - 1] + block.size[start - 1]) if dropped else position
            self._rules.damage(position, end, next_offset)
        self._hand_on(block, plain_bytes, start, len(block))

    def _hand_on(self, block: Block, plain_bytes: Numbers, first: int, behind: int) -> None:
        if first < behind:
            block = part(block, first, behind)
            self._counting.block(block, plain_bytes[first:behind])
            self._rules.block(block)

    # What is not

    def _take_odd(self) -> None:
        """Whatever stands at the position of the window, if it is no batch that kernels take."""
        window = self._window
        view = window.view
        self._at_once = _FEW_BATCHES
        size = _size_at(view) if len(view) > MAGIC_AT else 0
        magic = view[MAGIC_AT] if len(view) > MAGIC_AT else -1
        if magic <= MAGIC_V2 and len(view) < size <= window.left:
            if size <= MOST_HELD_BYTES:
                window.fill(size)
                return
            if self._take_huge():
                return
        if magic not in (0, 1) or not self._take_old(view):
            self._take_damage()

    def _take_old(self, view: memoryview) -> bool:
        window = self._window
        old = OldMessages(view, self._end - window.position)
        if not old.batches:
            return False
        self._judge.search.knows_old = True
        block = old.block(window.position, self._offsets.come_to)
        judged = self._judged(block)
        if judged:
            behind = int(block.position[judged - 1] + block.size[judged - 1])
            faults = [each for each in old.faults if each.row < judged]
            self._take(part(block, 0, judged), faults, old.plain_bytes[:judged])
            window.go_to(behind)
        return True

    def _take_huge(self) -> bool:
        window = self._window
        huge = HugeBatch.at(self._file, window.position)
        if huge is None:
            return False
        block = huge.block(window.position)
        if self._judged(block):
            self._take(block, list(huge.faults(self._checks)), np.array([huge.plain_bytes], np.int64))
            window.go_to(window.position + huge.size)
        return True

    def _take_damage(self) -> None:
        window = self._window
        if self._judged_to is not None and self._offsets.come_to >= self._judged_to:
            self._is_over = self._is_unjudged = True
            return
        self._damages += 1
        if self._damages > MOST_DAMAGES:
            damage = self._judge.give_up(window.position)
        else:
            damage = self._judge.judge(window.position, self._offsets.come_to)
        if damage.rule is not None:
            offset = self._offsets.come_to
            if self._offsets.next is None and damage.base_offset is not None:
                offset = max(offset, damage.base_offset)
            self._say(damage.rule, damage.position, offset, damage.words)
            self._pass(damage.position, damage.behind, damage.next_offset)
            self._is_whole = not damage.is_to_end
        if damage.is_to_end:
            self._is_over = True
        else:
            window.go_to(damage.behind)

    def _pass(self, position: int, behind: int, next_offset: int | None) -> None:
        self._offsets.damaged(next_offset)
        self._rules.damage(position, behind, next_offset)

    def _say(self, rule: str, position: int, offset: int, words: str) -> None:
        self._findings(Finding(self._path, str(self._piece.partition), offset, rule, words, position))

    def _last_judged(self, position: int, low: int) -> int:
        judged_to = self._judged_to
        return -1 if judged_to is None else last_judged(self._file, self._judge.search, position, low, judged_to)

    def _base_offset_at(self, position: int) -> int | None:
        """Of the batch there; behind the last one of a segment, of the next segment."""
        if position >= self._size:
            return self._piece.next_base
        batch = batch_at(self._file, position)
        return None if batch is None or batch.base_offset < 0 else batch.base_offset


def _size_at(view: memoryview) -> int:
    """What a batch at the beginning of `view` says of its size."""
    return int.from_bytes(view[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD


def _identity(file: File) -> tuple[int, int]:
    """Device and inode; zeros for a file that exists only in a test."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
