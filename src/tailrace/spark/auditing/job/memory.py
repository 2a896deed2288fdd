"""What is known of segments that cannot change any more, from one audit to the next.

    FOLDER/audited.jsonl     a line for each segment: fingerprint, file, CRC, what its pieces gave (JSON, zlib, base64)
    FOLDER/.lock             held while an audit runs

A fingerprint is made of everything that a result depends on: the file (path, size, times, inode), its indexes, what the
folder's checkpoints say of its offsets, and the source of the rules themselves. Whatever differs is audited again.

Crash rule. Lines are appended and synced after each wave of tasks; a kill costs one wave. What is torn or damaged
is passed over. When more than half of the file is of segments that are gone or were audited again, it is written anew
beside the old one and takes its name.

Who may call. One audit at a time; the lock says so.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import tailrace
from tailrace.model.errors import InvalidDataError
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import ListedSegment
from tailrace.spark.auditing.job.plain import from_plain, to_plain
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult, Seam
from tailrace.spark.errors import OptionError
from tailrace.storage.epoch_cache import EpochEntry

NAME: Final = "audited.jsonl"
LOCK: Final = ".lock"
_MOST_LINE_BYTES: Final = 64 << 20
_MOST_RESULT_BYTES: Final = 256 << 20
_LEAST_WASTE_BYTES: Final = 16 << 20
_SOURCES: Final = ("record", "spark/auditing")


class StateFolderError(OptionError):
    """The folder cannot hold what audits remember."""

    hint = "name a folder of its own for what audits remember; it is made where it is not there"


class KeptPiece(NamedTuple):
    """A `PieceResult` without the piece, which is planned again."""

    start: int
    end: int | None
    seam: Seam
    findings: list[Finding]
    figures: TopicFigures
    read_bytes: int
    identity: tuple[int, int]
    size: int


class _Line(NamedTuple):
    fingerprint: str
    position: int
    size: int


class AuditMemory:
    def __init__(self, folder: str) -> None:
        """Made when it is not there. StateFolderError where it cannot be, or another audit uses it."""
        self._path = Path(folder) / NAME
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._lock = (Path(folder) / LOCK).open("ab")
        except OSError as error:
            reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
            raise StateFolderError(f"state folder {folder!r} cannot be used: {reason}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = self._open()
        except OSError as error:
            self._lock.close()
            is_held = isinstance(error, BlockingIOError)
            reason = "another audit is using it" if is_held else error.strerror or error
            raise StateFolderError(f"state folder {folder!r} cannot be used: {reason}") from None
        self._lines: dict[str, _Line] = {}
        """By file: the newest of each."""
        self._load()

    def find(self, fingerprint: str, whole: AuditPiece, path: str) -> list[PieceResult] | None:
        """What the pieces of a segment gave; None where nothing is known of it as it is."""
        line = self._lines.get(path)
        if line is None or line.fingerprint != fingerprint:
            return None
        found = _parsed(self._read(line))
        if found is None or found["key"] != fingerprint:
            return None
        try:
            return _results(found["result"], found["crc"], whole)
        except (ValueError, TypeError, KeyError, zlib.error, InvalidDataError, RecursionError):
            return None

    def keep(self, known: Iterable[tuple[str, str, list[PieceResult]]]) -> None:
        """Fingerprint, path of the log file, results of its pieces. Durable when it returns."""
        lines = [(fingerprint, path, _line(fingerprint, path, results)) for fingerprint, path, results in known]
        if not lines:
            return
        try:
            self._file.seek(0, os.SEEK_END)
            for fingerprint, path, line in lines:
                self._lines[path] = _Line(fingerprint, self._file.tell(), len(line))
                self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            folder, reason = str(self._path.parent), error.strerror or error
            raise StateFolderError(f"state folder {folder!r} cannot be written: {reason}") from error

    def close(self) -> None:
        with suppress(OSError):  # what could not be written was told
            self._file.close()
        self._lock.close()

    # The file

    def _open(self) -> IO[bytes]:
        return self._path.open("a+b")

    def _load(self) -> None:
        position = 0
        for position, line in self._whole_lines():
            found = _parsed(line)
            if found is not None:
                self._lines[found["file"]] = _Line(found["key"], position, len(line))
        size = os.fstat(self._file.fileno()).st_size
        if size:
            self._file.seek(size - 1)
            if self._file.read(1) != b"\n":  # torn by a kill: the next line must not become part of it
                self._file.write(b"\n")
                self._file.flush()
        used = sum(line.size for path, line in self._lines.items() if os.path.exists(path))
        if size - used > max(_LEAST_WASTE_BYTES, used):
            self._write_anew()

    def _whole_lines(self) -> Iterator[tuple[int, bytes]]:
        self._file.seek(0)
        position = 0
        while line := self._file.readline(_MOST_LINE_BYTES):
            yield position, line
            position += len(line)

    def _read(self, line: _Line) -> bytes:
        self._file.seek(line.position)
        return self._file.read(line.size)

    def _write_anew(self) -> None:
        fresh = self._path.with_suffix(".tmp")
        lines: dict[str, _Line] = {}
        with fresh.open("wb") as file:
            for path, line in self._lines.items():
                if os.path.exists(path):
                    lines[path] = _Line(line.fingerprint, file.tell(), line.size)
                    file.write(self._read(line))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._file.close()
        self._file = self._open()
        self._lines = lines


# Lines


def _line(fingerprint: str, path: str, results: Iterable[PieceResult]) -> bytes:
    kept = [
        KeptPiece(
            result.piece.start,
            result.piece.end,
            result.seam,
            result.findings,
            result.figures,
            result.read_bytes,
            result.identity,
            result.size,
        )
        for result in results
    ]
    packed = zlib.compress(json.dumps(to_plain(kept)).encode(), 6)
    line = {"key": fingerprint, "file": path, "crc": zlib.crc32(packed), "result": base64.b64encode(packed).decode()}
    return json.dumps(line).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """None for a line that is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and all(isinstance(found.get(name), str) for name in ("key", "file", "result")):
            return found if isinstance(found.get("crc"), int) and line.endswith(b"\n") else None
    return None


def _results(text: str, crc: int, whole: AuditPiece) -> list[PieceResult]:
    packed = base64.b64decode(text, validate=True)
    if zlib.crc32(packed) != crc:
        raise InvalidDataError("a kept result does not have the CRC that its line states")
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, _MOST_RESULT_BYTES)
    if not unpacker.eof:
        raise InvalidDataError("a kept result is longer than any is")
    kept: list[KeptPiece] = from_plain(list[KeptPiece], json.loads(plain))
    return [
        PieceResult(
            piece=replace(whole, start=each.start, end=each.end),
            seam=each.seam,
            findings=each.findings,
            figures=each.figures,
            read_bytes=each.read_bytes,
            identity=each.identity,
            size=each.size,
        )
        for each in kept
    ]


# Fingerprints


def fingerprint(whole: AuditPiece, segment: ListedSegment) -> str:
    """Of a segment in one piece: the same text for the same result."""
    behind = segment.next_base
    parts = (
        rules_version(),
        segment.path,
        segment.status,
        sorted(segment.indexes.items()),
        whole.partition,
        behind,
        whole.judged_to if behind is None or whole.judged_to is None else min(whole.judged_to, behind),
        whole.cleaned_to if behind is None else min(whole.cleaned_to, behind),
        whole.is_compacted,
        whole.is_closed and behind is None,
        whole.is_being_cleaned,
        whole.snapshot_offsets,
        _epochs_about(whole.epochs, segment.base_offset, behind),
    )
    return hashlib.sha256(json.dumps(to_plain(parts)).encode()).hexdigest()


def is_immutable(whole: AuditPiece, segment: ListedSegment) -> bool:
    """Whether nobody but the cleaner will change it, and all of it was judged."""
    behind = segment.next_base
    if behind is None or segment.is_swap or whole.is_being_cleaned:
        return False
    return whole.judged_to is None or behind <= whole.judged_to


def _epochs_about(epochs: tuple[EpochEntry, ...], base_offset: int, behind: int | None) -> list[EpochEntry]:
    """Those that begin within the segment, and the one on either side: all that its batches are held against."""
    below = [number for number, entry in enumerate(epochs) if entry.start_offset <= base_offset]
    first = below[-1] if below else 0
    end = len(epochs) if behind is None else sum(entry.start_offset < behind for entry in epochs) + 1
    return list(epochs[first:end])


@cache
def rules_version() -> str:
    """A digest of the source of the audit, and of what reads batches for it: other rules find other things."""
    digest = hashlib.sha256(tailrace.__version__.encode())
    root = Path(tailrace.__file__).parent
    for folder in _SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
