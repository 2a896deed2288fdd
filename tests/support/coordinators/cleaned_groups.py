"""Groups as a coordinator loads them from a log that a cleaner has been over."""

from __future__ import annotations

from support.coordinators.classic import ClassicRig
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.records import GROUP_RECORDS, decode_record
from tailrace.protocol.codec import encode
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.fetch import Isolation


def records_in_log(rig: ClassicRig) -> list[CoordinatorRecord]:
    data = rig.pair.leader.log.read(0, 1 << 26, Isolation.LOG_END).read()
    found = [
        decode_record(GROUP_RECORDS, record.key, record.value)
        for batch in batches(data)
        for record in records_of(data, batch)
    ]
    return [record for record in found if record is not None]


def cleaned(records: list[CoordinatorRecord], end: int, *, keeps_tombstones: bool) -> list[CoordinatorRecord]:
    """Up to `end` only the last record of each key is left; behind it, all of them."""
    last = {_key(record): place for place, record in enumerate(records[:end])}
    kept = [record for place, record in enumerate(records[:end]) if last[_key(record)] == place]
    return [record for record in kept if keeps_tombstones or record.value is not None] + records[end:]


def loaded(rig: ClassicRig, records: list[CoordinatorRecord]) -> GroupShard:
    machine = GroupShard(rig.pair.leader.machine.shard)
    for offset, record in enumerate(records):
        machine.replay(record, offset, None)
    return machine


def _key(record: CoordinatorRecord) -> tuple[int, bytes]:
    return record.key.KEY, bytes(encode(record.key, 0))
