# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: finds the records of a refused batch that break a rule about single records (`model.record_rules`).

It runs on rows of `whole.walk_some`, and only after a batch was refused: no valid batch comes here. It keeps the GIL,
because a call takes microseconds. Bounds checks are off in C: `find_rejected` compares its arguments with the sizes of
the arrays.
"""

from __future__ import annotations

import cython

# Columns of a row of five int64, one row for each rejected record.
REJECTED_ROW = 5
REJECTED_INDEX, REJECTED_FAULT, REJECTED_TIMESTAMP, REJECTED_KEY_LENGTH, REJECTED_VALUE_LENGTH = range(REJECTED_ROW)

_NO_KEY = cython.declare(cython.longlong, 0)  # the faults of `model.record_rules`
_OUT_OF_RANGE = cython.declare(cython.longlong, 1)
_BROKER_STAMPED = cython.declare(cython.longlong, 2)

_MAX_RECORD = cython.declare(cython.longlong, 1 << 62)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_rejected(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    first_record: cython.longlong,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
    is_stamped: cython.bint,
    found: cython.longlong[::1],
    filled: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t]:
    place: cython.Py_ssize_t
    cell: cython.Py_ssize_t
    timestamp: cython.longlong
    fault: cython.longlong
    for place in range(count):
        cell = 8 * place
        if 5 * filled + 5 > len(found) or rows[cell] != first_record + place:
            return place, filled
        timestamp = rows[cell + 1]
        if rows[cell + 3] < 0 and require_key:
            fault = _NO_KEY
        elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
            fault = _OUT_OF_RANGE
        elif is_stamped:
            fault = _BROKER_STAMPED
        else:
            continue
        found[5 * filled] = first_record + place
        found[5 * filled + 1] = fault
        found[5 * filled + 2] = timestamp
        found[5 * filled + 3] = rows[cell + 3]
        found[5 * filled + 4] = rows[cell + 5]
        filled += 1
    return count, filled


def find_rejected(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    first_record: cython.longlong,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
    is_stamped: cython.bint,
    found: cython.longlong[::1],
    filled: cython.Py_ssize_t,
) -> tuple[int, int]:
    """Check the first `count` rows, which are records from number `first_record` on, walked with base offset 0.

    Adds a row to `found`, after the `filled` rows it has, for each record that is rejected. Kafka's order decides
    between several faults of one record: key, timestamp, timestamp type. Returns how many rows were checked and how
    many `found` has: it stops when `found` is full and at a record whose offset is not its number.
    """
    if count < 0 or count > len(rows) // 8 or filled < 0 or first_record < 0 or first_record > _MAX_RECORD:
        raise IndexError(f"{count} rows from record {first_record}, {filled} found: there are {len(rows) // 8} rows")
    count, filled = _find_rejected(rows, count, first_record, require_key, earliest, latest, is_stamped, found, filled)
    return count, filled
