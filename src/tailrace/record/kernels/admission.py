# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: a produced batch proven, and given its place in the log, in one step.

`admit` takes a batch as nearly all producers send them: of format v2, uncompressed, with nothing in its attributes and
offsets from 0 on. Everything is checked that a leader has to check, its CRC and every record among it, before the first
byte is changed. What is not right, or only unusual, it leaves as it came: `storage.validator` looks at that again, and
says what is wrong.

Bounds checks are off in C: every read of the buffer stands behind a comparison of our own with its size.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.crc import _crc
    from tailrace.record.kernels.fields import _int32, _int64, _put_int32, _put_int64, _uint32
    from tailrace.record.kernels.whole import _check

_GREATEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFE)

# Whoever gives the GIL away may wait milliseconds for it; to hold it for some microseconds hurts nobody.
_GIL_WORTH_BYTES = cython.declare(cython.Py_ssize_t, 1 << 17)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_right(
    batch: cython.const[cython.uchar][::1],
    count: cython.longlong,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> cython.bint:
    """Whether it has the CRC and the records that it states, and its greatest timestamp is theirs."""
    position: cython.Py_ssize_t
    taken: cython.longlong
    max_timestamp: cython.longlong
    _record: cython.longlong
    size: cython.Py_ssize_t = len(batch)
    if _crc(batch, 21, size) != _uint32(batch, 17):
        return False
    position, taken, max_timestamp, _record = _check(
        batch, 61, size, 0, count, _int64(batch, 27), False, require_key, earliest, latest
    )
    return position == size and taken == count and max_timestamp == _int64(batch, 35)


def admit(
    batch: cython.uchar[::1],
    first_offset: cython.longlong,
    leader_epoch: cython.longlong,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> tuple[int, ...] | None:
    """Write `first_offset`, at least 0, and `leader_epoch` into the batch, which is all of the buffer.

    Returns the fields of its `ShallowBatch`; None, and nothing is changed, unless it is right and of the usual kind.
    Timestamps other than −1 must lie within [earliest, latest].
    """
    size: cython.Py_ssize_t = len(batch)
    count: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.longlong
    sequence: cython.longlong
    right: cython.bint
    if size < 61 or batch[16] != 2 or batch[21] != 0 or batch[22] != 0:
        return None
    count = _int32(batch, 57)
    if _int32(batch, 8) != size - 12 or _int64(batch, 0) != 0 or count < 1 or _int32(batch, 23) != count - 1:
        return None
    if first_offset < 0 or first_offset > _GREATEST_OFFSET - (count - 1):
        return None
    producer_id = _int64(batch, 43)
    producer_epoch = batch[51]
    producer_epoch = (producer_epoch << 8 | batch[52]) - (0x10000 if producer_epoch & 0x80 else 0)
    sequence = _int32(batch, 53)
    if producer_id > -1 and (producer_epoch < 0 or sequence < 0):
        return None
    if size < _GIL_WORTH_BYTES:
        right = _is_right(batch, count, require_key, earliest, latest)
    else:
        with cython.nogil:
            right = _is_right(batch, count, require_key, earliest, latest)
    if not right:
        return None
    _put_int64(batch, 0, first_offset)
    _put_int32(batch, 12, leader_epoch)
    return (
        0,
        size,
        2,
        first_offset,
        first_offset + count - 1,
        _int64(batch, 35),
        leader_epoch,
        0,
        producer_id,
        producer_epoch,
        sequence,
        count,
        _uint32(batch, 17),
        _int64(batch, 27),
    )
