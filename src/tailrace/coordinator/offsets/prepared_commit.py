"""A commit that comes again and again with other offsets: its batch stands ready but for these and the time.

Whoever has made one asks `OffsetStore.can_commit` each time: the group and the settings may have changed.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.coordinator.offsets.entry import CommittedOffset
from tailrace.coordinator.offsets.offset_records import commit_record
from tailrace.coordinator.records import encode_batch
from tailrace.model.ids import NO_TIMESTAMP
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.record.batch import MAX_TIMESTAMP_AT, set_crc

_BASE_TIMESTAMP_AT: Final = MAX_TIMESTAMP_AT - 8
_INT64: Final = struct.Struct(">q")
_TIMES: Final = struct.Struct(">qq")
# An offset and a time that are found again in sample bytes.
_OFFSET: Final = 0x5A5B5C5D5E5F6061
_TIME: Final = 0x6A6B6C6D6E6F7071


class PreparedCommit:
    """Of a request whose topics have names and ids, and exist."""

    def __init__(self, request: OffsetCommitRequest) -> None:
        self.request = request
        self._rows = [
            (topic.name, row.partition_index, row.committed_leader_epoch, row.committed_metadata or "", topic.topic_id)
            for topic in request.topics
            for row in topic.partitions
        ]
        self.count = len(self._rows)
        self.longest_note = max((note for _, _, _, note, _ in self._rows), key=_units)
        records = [
            commit_record(request.group_id, name, index, _OFFSET, epoch, note, _TIME, NO_TIMESTAMP, topic_id)
            for name, index, epoch, note, topic_id in self._rows
        ]
        self._batch = bytes(encode_batch(records, _TIME, 0, None))
        self._offset_places = self._places(_OFFSET, 0)
        self._time_places = self._places(_TIME, MAX_TIMESTAMP_AT + _INT64.size)

    def _places(self, mark: int, begin: int) -> list[int]:
        text, places = _INT64.pack(mark), []
        place = self._batch.find(text, begin)
        while place >= 0:
            places.append(place)
            place = self._batch.find(text, place + len(text))
        return places

    @property
    def is_sound(self) -> bool:
        """False when a name or a note of the request looks like a mark."""
        return len(self._offset_places) == len(self._time_places) == len(self._rows)

    def batch(self, offsets: tuple[int, ...], now_ms: int) -> bytearray:
        batch = bytearray(self._batch)
        pack_into, time = _INT64.pack_into, _INT64.pack(now_ms)
        _TIMES.pack_into(batch, _BASE_TIMESTAMP_AT, now_ms, now_ms)
        for place, offset in zip(self._offset_places, offsets, strict=True):
            pack_into(batch, place, offset)
        for place in self._time_places:
            batch[place : place + 8] = time
        set_crc(batch)
        return batch

    def entries(
        self, offsets: tuple[int, ...], now_ms: int, first_offset: int
    ) -> list[tuple[str, int, CommittedOffset]]:
        """What its records say, by topic and partition, when they stand in the log from `first_offset` on."""
        return [
            (name, index, CommittedOffset(offset, epoch, note, now_ms, NO_TIMESTAMP, topic_id, record_offset))
            for record_offset, ((name, index, epoch, note, topic_id), offset) in enumerate(
                zip(self._rows, offsets, strict=True), first_offset
            )
        ]


def _units(note: str) -> int:
    """Of UTF-16: in these the limit counts."""
    return len(note.encode("utf-16-be")) // 2
