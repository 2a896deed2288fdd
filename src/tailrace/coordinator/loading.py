"""A coordinator's state out of its partition: every batch of the log, in order, from the first to the last.

Reading and decoding are jobs, a piece at a time; what a piece holds is replayed on the owner's thread. Batches of
transactions come with their producer, and the markers that end them in their place: whoever replays keeps what a
transaction says until its marker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.coordinator.outcome import CoordinatorRecord, ProducerBatchId
from tailrace.coordinator.records import Schema, decode_record
from tailrace.env import Env
from tailrace.model.errors import CorruptMessageError, TailraceError
from tailrace.record.control import COMMIT, control_of
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.storage.fetch import Isolation
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20


class LoadedRecord(NamedTuple):
    record: CoordinatorRecord
    offset: int
    producer: ProducerBatchId | None


class LoadedMarker(NamedTuple):
    """A transaction's end."""

    producer: ProducerBatchId
    is_commit: bool
    offset: int


class Piece(NamedTuple):
    contents: list[LoadedRecord | LoadedMarker]
    next_offset: int


class Loading:
    """Of one log, once. `stop` ends it without a word."""

    def __init__(
        self,
        env: Env,
        log: UnifiedLog,
        schema: Schema,
        replay: Callable[[list[LoadedRecord | LoadedMarker]], None],
        done: Callable[[], None],
        failed: Callable[[TailraceError], None],
    ) -> None:
        self._env = env
        self._source = log
        self._schema = schema
        self._replay = replay
        self._done = done
        self._failed = failed
        self._offset = log.log_start_offset
        self._is_stopped = False

    def go_on(self) -> None:
        """To the log's end as it is then: whoever loads is its leader, and nothing is written meanwhile."""
        if self._is_stopped:
            return
        if self._offset >= self._source.log_end_offset:
            self._done()
            return
        offset = max(self._offset, self._source.log_start_offset)
        self._env.jobs.run("coordinator-load", lambda: self._read(offset), self._taken, self._gave_up)

    def stop(self) -> None:
        self._is_stopped = True

    def _read(self, offset: int) -> Piece:
        """In a thread of jobs."""
        found = self._source.read(offset, PIECE_BYTES, Isolation.LOG_END)
        if found.records is None:  # the last batches were cleaned away
            return Piece([], self._source.log_end_offset)
        data = found.read()
        contents: list[LoadedRecord | LoadedMarker] = []
        next_offset = offset
        for batch in batches(data):
            check_integrity(data, batch)
            next_offset = batch.last_offset + 1
            if next_offset > offset:
                contents += _contents(self._schema, data, batch)
        return Piece(contents, next_offset)

    def _taken(self, piece: Piece) -> None:
        if self._is_stopped:
            return
        if piece.next_offset <= self._offset:
            self._gave_up(CorruptMessageError(f"{self._source.dir} gives nothing to read at offset {self._offset}"))
            return
        try:
            self._replay(piece.contents)
        except TailraceError as error:
            self._gave_up(error)
            return
        self._offset = piece.next_offset
        self.go_on()

    def _gave_up(self, error: Exception) -> None:
        if self._is_stopped:
            return
        if not isinstance(error, TailraceError):
            raise error
        self._failed(error)


def _contents(schema: Schema, data: bytes, batch: ShallowBatch) -> list[LoadedRecord | LoadedMarker]:
    producer = ProducerBatchId(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
    if batch.is_control:
        control = control_of(data, batch)
        if control is None or not control.ends_transaction or producer is None:
            return []
        return [LoadedMarker(producer, control.type == COMMIT, batch.base_offset)]
    contents: list[LoadedRecord | LoadedMarker] = []
    for each in records_of(data, batch):
        record = decode_record(schema, each.key, each.value)
        if record is None:
            _log.warning("a record of an unknown type at offset %d is passed over", each.offset)
        else:
            contents.append(LoadedRecord(record, each.offset, producer))
    return contents
