"""Records whose offsets are not their batch's, in a batch with a right CRC: nobody else's record goes for them."""

from __future__ import annotations

import pytest

from support.compaction.compacted_logs import CompactedLog
from support.logs.builders import DIRECTORY, NOW_MS
from support.logs.log_files import read_file, write_file
from support.records.raw_records import batch, record
from tailrace.model.errors import InvalidRecordError
from tailrace.record.compression import GZIP
from tailrace.storage import names

LOG_PATH = f"{DIRECTORY}/{names.log_name(0)}"


def made(deltas: tuple[int, ...], keys: bytes, base_offset: int, last_delta: int, codec: int = 0) -> bytes:
    payload = b"".join(record(delta, key=bytes([key])) for delta, key in zip(deltas, keys, strict=True))
    times = {"base_timestamp": NOW_MS, "max_timestamp": NOW_MS}
    return batch(payload, len(deltas), codec, base_offset=base_offset, last_offset_delta=last_delta, **times)[0]


def log_of(data: bytes) -> CompactedLog:
    log = CompactedLog()
    log.world.kill()
    write_file(log.disk, LOG_PATH, data)
    log.open(was_compacted=True)
    log.settle()
    return log


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("deltas", [(100,), (2**31 - 1,), (-1,), (0, 0), (1, 0), (0, 3)])
def test_a_batch_with_offsets_that_are_not_its_own_is_not_compacted(deltas: tuple[int, ...], codec: int) -> None:
    """A is overwritten later; were its first record believed to stand at B's offset, B would go."""
    strange = made(deltas, b"A" * len(deltas), 0, 2, codec)
    data = strange + made((0,), b"B", 100, 0) + made((0,), b"A", 200, 0)
    log = log_of(data)
    with pytest.raises(InvalidRecordError):
        log.clean()
    assert read_file(log.disk, LOG_PATH) == data
    assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_gaps_between_the_records_of_a_batch_are_as_good_as_none(codec: int) -> None:
    log = log_of(made((0, 5, 9), b"ABA", 0, 12, codec) + made((0,), b"C", 100, 0))
    log.clean()
    assert [each.offset for each in log.data_records()] == [5, 9, 100]
