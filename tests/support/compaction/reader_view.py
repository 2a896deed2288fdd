"""What readers see of a log, as values for a `support.compaction.model.Ledger`; and where a crash fell."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

from support.compaction.model import ABORT, EMPTIED, Rec, Seen
from tailrace.record.control import control_of
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.fetch import Isolation
from tailrace.storage.names import DELETED_SUFFIX
from tailrace.storage.unified_log import UnifiedLog

FETCH_BYTES = 1 << 20


def seen_in(log: UnifiedLog) -> list[Seen]:
    """Every batch from the log start to the log end, CRCs checked."""
    found: list[Seen] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, FETCH_BYTES).read()
        if not data:
            break
        for batch in batches(data):
            check_integrity(data, batch)
            found.append(_seen(data, batch))
            offset = batch.next_offset
    return found


def _seen(data: bytes, batch: ShallowBatch) -> Seen:
    control = None
    if batch.is_control:
        record = control_of(data, batch)
        control = EMPTIED if record is None else record.type
    return Seen(
        batch.base_offset,
        batch.last_offset,
        _records(data, batch),
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        control,
        batch.delete_horizon_ms,
    )


def _records(data: bytes, batch: ShallowBatch) -> tuple[Rec, ...]:
    return tuple(
        Rec(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records_of(data, batch)
    )


def committed_from(log: UnifiedLog, offset: int) -> list[Rec]:
    """What a consumer with `isolation.level=read_committed` hands out from `offset` on, up to the last stable one."""
    found: list[Rec] = []
    position = offset
    while position < log.last_stable_offset:
        fetched = log.read(position, FETCH_BYTES, Isolation.TXN_COMMITTED)
        data = fetched.read()
        if not data:
            break
        to_come = sorted(fetched.aborted or (), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for batch in batches(data):
            while to_come and to_come[0].first_offset <= batch.last_offset:
                aborted.add(to_come.pop(0).producer_id)
            if batch.is_control:
                record = control_of(data, batch)
                if record is not None and record.type == ABORT:
                    aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                found += [record for record in _records(data, batch) if record.offset >= offset]
            position = batch.next_offset
    return found


PLACES = (
    ("load", ("storage/loader.py", "manager/log_loading.py", "manager/log_directories.py")),
    ("retention", ("storage/segment_deletion.py",)),
    ("swap", ("storage/segment_swap.py", "storage/swap.py")),
    ("rewrite", ("storage/compaction/", "storage/steps.py")),
    ("cleaner", ("storage/cleaner/",)),
    ("append", ("storage/appender.py",)),
    ("flush", ("storage/flusher.py",)),
    ("checkpoint", ("storage/checkpoint.py",)),
)
"""By which source files a crash passed: the first that fits counts."""


def place_of(crash: SimulatedCrash) -> str:
    """Where in the code the crash fell; files that were renamed `.deleted` are unlinked by "deletion"."""
    frames = list(_frames(crash))
    struck = next(frame.f_locals for frame in frames if frame.f_code.co_name == "change")
    if struck["op"] == "unlink" and struck["path"].endswith(DELETED_SUFFIX):
        return "deletion"
    passed = [frame.f_code.co_filename for frame in frames]
    for place, sources in PLACES:
        if any(source in name for name in passed for source in sources):
            return place
    return "other"


def _frames(crash: SimulatedCrash) -> Iterator[FrameType]:
    step = crash.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next
