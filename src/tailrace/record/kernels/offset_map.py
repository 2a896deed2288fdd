# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: the hash table of compaction, which knows the greatest offset of every key.

    clear_table  empties it
    digest       SipHash-2-4 with a result of 128 bits
    put_rows     enters the keys of records
    find         looks up one key
    keep_rows    decides which of some records stay

The table is an array of uint64, three a slot: the two halves of the key's digest, then the offset. An empty slot is all
zeros. A digest that is all zeros is taken for the one that is 1, so that no entry, not even one of offset 0, looks like
an empty slot.

A key is looked for at up to 13 slots that its digest names, by the four bytes from each of its bytes 0 to 12 on, and
then at those that follow the last of these. There are less than 2³² slots. Records come as the rows that `whole` makes
of them; rows are not believed to lie inside the buffer. Bounds checks are off in C.
"""

from __future__ import annotations

import cython

# What `keep_rows` says of a record.
DROPPED, KEPT, KEPT_TOMBSTONE = range(3)

_LOW_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_V0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_V1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_V2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_V3 = cython.declare(cython.ulonglong, 0x7465646279746573)

_HASHED_PROBES = cython.declare(cython.Py_ssize_t, 13)
_AHEAD = cython.declare(cython.Py_ssize_t, 64)  # so many keys are looked up together
_GIL_WORTH_ROWS = cython.declare(cython.Py_ssize_t, 512)  # some 50 microseconds; for the why see `whole`


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _cut(word: cython.ulonglong) -> cython.ulonglong:
    """To 64 bits: a C number has no more, and the time to say so would be felt."""
    return word if cython.compiled else word & 0xFFFFFFFFFFFFFFFF


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotated(word: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return _cut(word << bits) | word >> (64 - bits)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mixed(
    v0: cython.ulonglong, v1: cython.ulonglong, v2: cython.ulonglong, v3: cython.ulonglong
) -> tuple[cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong]:
    """One round."""
    v0 = _cut(v0 + v1)
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = _cut(v2 + v3)
    v3 = _rotated(v3, 16) ^ v2
    v0 = _cut(v0 + v3)
    v3 = _rotated(v3, 21) ^ v0
    v2 = _cut(v2 + v1)
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _byte(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.ulonglong:
    return buffer[position]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes, the lowest first. Compilers know this form and make one read of it."""
    return (
        _byte(buffer, position)
        | _byte(buffer, position + 1) << 8
        | _byte(buffer, position + 2) << 16
        | _byte(buffer, position + 3) << 24
        | _byte(buffer, position + 4) << 32
        | _byte(buffer, position + 5) << 40
        | _byte(buffer, position + 6) << 48
        | _byte(buffer, position + 7) << 56
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _digest(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
) -> tuple[cython.ulonglong, cython.ulonglong]:
    v0: cython.ulonglong = _V0 ^ secret_low
    v1: cython.ulonglong = _V1 ^ secret_high ^ 0xEE
    v2: cython.ulonglong = _V2 ^ secret_low
    v3: cython.ulonglong = _V3 ^ secret_high
    word: cython.ulonglong
    low: cython.ulonglong
    high: cython.ulonglong
    place: cython.Py_ssize_t
    left: cython.Py_ssize_t = size
    while left >= 8:
        word = _word(buffer, position)
        v3 ^= word
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
        v0 ^= word
        position += 8
        left -= 8
    word = size & 0xFF
    word <<= 56
    for place in range(left):
        word |= _byte(buffer, position + place) << (8 * place)
    v3 ^= word
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for _ in range(4):
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    high = v0 ^ v1 ^ v2 ^ v3
    if low == 0 and high == 0:
        low = 1
    return low, high


def digest(
    key: cython.const[cython.uchar][::1], secret_low: cython.ulonglong, secret_high: cython.ulonglong
) -> tuple[int, int]:
    """The first and the second eight bytes of the key's digest, each as a number with its lowest byte first."""
    low: cython.ulonglong
    high: cython.ulonglong
    low, high = _digest(key, 0, len(key), secret_low, secret_high)
    return low, high


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _probed(
    low: cython.ulonglong, high: cython.ulonglong, attempt: cython.Py_ssize_t, slots: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The slot to look at after `attempt` others. A number of 32 bits is scaled to the count of slots, not divided by
    it: that takes a tenth of the time."""
    bits: cython.ulonglong
    beyond: cython.ulonglong = 0
    count: cython.ulonglong = slots
    if attempt < 8:
        bits = low >> (8 * attempt)
        if attempt > 4:
            bits |= high << (64 - 8 * attempt)
        bits &= _LOW_32
    elif attempt < _HASHED_PROBES:
        bits = (high >> (8 * (attempt - 8))) & _LOW_32
    else:
        bits = high >> 32
        beyond = attempt - _HASHED_PROBES + 1
    bits = bits * count >> 32
    return (bits + beyond) % count if beyond > 0 else bits


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _place_of(
    table: cython.ulonglong[::1],
    slots: cython.Py_ssize_t,
    low: cython.ulonglong,
    high: cython.ulonglong,
) -> cython.Py_ssize_t:
    """Where in the array the digest's slot begins, or the empty one that it would get; −1 when there is neither."""
    attempt: cython.Py_ssize_t = 0
    cell: cython.Py_ssize_t
    while attempt < slots + _HASHED_PROBES - 1:
        cell = 3 * _probed(low, high, attempt, slots)
        if table[cell] == low and table[cell + 1] == high:
            return cell
        if table[cell] == 0 and table[cell + 1] == 0:
            return cell
        attempt += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _offset_of(table: cython.ulonglong[::1], ahead: cython.p_ulonglong, at: cython.Py_ssize_t) -> cython.longlong:
    """That of the key whose digest and first place are `ahead[at]` and the two behind it; −1 when it has none."""
    cell: cython.Py_ssize_t = ahead[at + 2]
    offset: cython.longlong
    if table[cell] != ahead[at] or table[cell + 1] != ahead[at + 1]:
        cell = _place_of(table, len(table) // 3, ahead[at], ahead[at + 1])
    if cell < 0 or (table[cell] == 0 and table[cell + 1] == 0):
        return -1
    offset = table[cell + 2]
    return offset


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_mark(
    obsolete: cython.const[cython.uchar][::1], obsolete_from: cython.longlong, offset: cython.longlong
) -> cython.bint:
    return offset >= obsolete_from and (offset - obsolete_from) >> 3 < len(obsolete)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_marked(
    obsolete: cython.const[cython.uchar][::1], obsolete_from: cython.longlong, offset: cython.longlong
) -> cython.bint:
    return (obsolete[(offset - obsolete_from) >> 3] >> ((offset - obsolete_from) & 7)) & 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mark(obsolete: cython.uchar[::1], obsolete_from: cython.longlong, offset: cython.longlong) -> cython.void:
    bit: cython.int = 1
    if _has_mark(obsolete, obsolete_from, offset):
        obsolete[(offset - obsolete_from) >> 3] |= bit << ((offset - obsolete_from) & 7)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look_ahead(
    table: cython.ulonglong[::1],
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    buffer: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    ahead: cython.p_ulonglong,
) -> cython.bint:
    """Leave in `ahead`, for each of `count` rows from `first` on, the digest of its key, all zeros without one, where
    in the array its first slot begins, and the words at both ends of it; False when a key is not in the buffer.

    The words are not needed: that they were read is. The table is far larger than any cache, and reads that do not
    wait for each other wait together.
    """
    place: cython.Py_ssize_t
    cell: cython.Py_ssize_t
    slots: cython.Py_ssize_t = len(table) // 3
    low: cython.ulonglong
    high: cython.ulonglong
    for place in range(count):
        cell = 8 * (first + place)
        low = 0
        high = 0
        if rows[cell + 3] >= 0:
            if rows[cell + 2] < 0 or rows[cell + 2] > len(buffer) - rows[cell + 3]:
                return False
            low, high = _digest(buffer, rows[cell + 2], rows[cell + 3], secret_low, secret_high)
        ahead[4 * place] = low
        ahead[4 * place + 1] = high
        ahead[4 * place + 2] = 3 * _probed(low, high, 0, slots)
    for place in range(count):
        cell = ahead[4 * place + 2]
        ahead[4 * place + 3] = table[cell] ^ table[cell + 2]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_rows(
    table: cython.ulonglong[::1],
    entries: cython.longlong,
    limit: cython.longlong,
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    buffer: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    from_offset: cython.longlong,
    obsolete: cython.uchar[::1],
    obsolete_from: cython.longlong,
) -> tuple[cython.Py_ssize_t, cython.longlong, cython.longlong]:
    slots: cython.Py_ssize_t = len(table) // 3
    row: cython.Py_ssize_t
    place: cython.Py_ssize_t = 0
    cell: cython.Py_ssize_t
    low: cython.ulonglong
    high: cython.ulonglong
    offset: cython.longlong
    known: cython.longlong
    last_put: cython.longlong = -1
    ahead = cython.declare(cython.ulonglong[256])
    for row in range(count):
        place = row % _AHEAD
        if place == 0 and not _look_ahead(
            table, secret_low, secret_high, buffer, rows, row, min(count - row, _AHEAD), ahead
        ):
            return -1, entries, last_put
        offset = rows[8 * row]
        if rows[8 * row + 3] < 0 or offset < from_offset:
            continue
        if entries >= limit:
            return row, entries, last_put
        low = ahead[4 * place]
        high = ahead[4 * place + 1]
        cell = ahead[4 * place + 2]
        if table[cell] != low or table[cell + 1] != high:
            cell = _place_of(table, slots, low, high)
        if cell < 0:
            return row, entries, last_put
        if table[cell] == 0 and table[cell + 1] == 0:
            table[cell] = low
            table[cell + 1] = high
            table[cell + 2] = offset
            entries += 1
        else:
            known = table[cell + 2]
            if offset > known:
                table[cell + 2] = offset
                _mark(obsolete, obsolete_from, known)
            elif offset < known:
                _mark(obsolete, obsolete_from, offset)
        last_put = offset
    return count, entries, last_put


def put_rows(
    table: cython.ulonglong[::1],
    entries: cython.longlong,
    limit: cython.longlong,
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    buffer: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    from_offset: cython.longlong,
    obsolete: cython.uchar[::1],
    obsolete_from: cython.longlong,
) -> tuple[int, int, int]:
    """Enter the keys of the first `count` rows, whose bytes are in `buffer`, with their offsets; the greatest stays,
    and the others are marked in `obsolete`, whose first bit is that of `obsolete_from`.

    Rows without a key or below `from_offset`, which is at least 0, are passed over. Stops at the first key that comes
    when there are `limit` entries. Returns how many rows were taken, the entries there are now, and the offset of the
    last key entered, −1 when there was none.
    """
    taken: cython.Py_ssize_t
    last_put: cython.longlong
    if len(table) < 3 or count < 0 or 8 * count > len(rows) or from_offset < 0 or obsolete_from < 0:
        raise IndexError(f"{count} rows from offset {from_offset} on: there are {len(rows) // 8}, {len(table)} cells")
    if count < _GIL_WORTH_ROWS:
        taken, entries, last_put = _put_rows(
            table,
            entries,
            limit,
            secret_low,
            secret_high,
            buffer,
            rows,
            count,
            from_offset,
            obsolete,
            obsolete_from,
        )
    else:
        with cython.nogil:
            taken, entries, last_put = _put_rows(
                table,
                entries,
                limit,
                secret_low,
                secret_high,
                buffer,
                rows,
                count,
                from_offset,
                obsolete,
                obsolete_from,
            )
    if taken < 0:
        raise IndexError(f"a key is outside a buffer of {len(buffer)} bytes")
    return taken, entries, last_put


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _clear(table: cython.ulonglong[::1]) -> cython.void:
    cell: cython.Py_ssize_t
    for cell in range(len(table)):
        table[cell] = 0


def clear_table(table: cython.ulonglong[::1]) -> None:
    """Make every slot an empty one.

    Fresh memory needs it too. A page that is read before it was ever written is one that all such pages share, and the
    first write then costs every thread of the process.
    """
    with cython.nogil:
        _clear(table)


def find(
    table: cython.ulonglong[::1],
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    key: cython.const[cython.uchar][::1],
) -> int:
    """The offset of the key, −1 when it is not in the table."""
    ahead = cython.declare(cython.ulonglong[3])
    if len(table) < 3:
        raise IndexError(f"a table of {len(table)} cells has no slot")
    ahead[0], ahead[1] = _digest(key, 0, len(key), secret_low, secret_high)
    ahead[2] = 3 * _probed(ahead[0], ahead[1], 0, len(table) // 3)
    return _offset_of(table, ahead, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep_rows(
    table: cython.ulonglong[::1],
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    latest_offset: cython.longlong,
    keeps_tombstones: cython.bint,
    buffer: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    kept: cython.uchar[::1],
    kept_at: cython.Py_ssize_t,
    obsolete: cython.const[cython.uchar][::1],
    obsolete_from: cython.longlong,
) -> cython.longlong:
    row: cython.Py_ssize_t
    place: cython.Py_ssize_t
    offset: cython.longlong
    has_value: cython.bint
    keyless: cython.longlong = 0
    ahead_of: cython.Py_ssize_t = -1
    ahead = cython.declare(cython.ulonglong[256])
    for row in range(count):
        offset = rows[8 * row]
        has_value = rows[8 * row + 5] >= 0
        kept[kept_at + row] = 0
        if offset <= latest_offset:
            if rows[8 * row + 3] < 0:
                keyless += 1
                continue
            if not has_value and not keeps_tombstones:
                continue
            if _has_mark(obsolete, obsolete_from, offset):
                if _is_marked(obsolete, obsolete_from, offset):
                    continue
            else:
                place = row % _AHEAD
                if ahead_of != row - place:
                    ahead_of = row - place
                    if not _look_ahead(
                        table, secret_low, secret_high, buffer, rows, ahead_of, min(count - ahead_of, _AHEAD), ahead
                    ):
                        return -1
                if offset < _offset_of(table, ahead, 4 * place):
                    continue
        kept[kept_at + row] = 1 if has_value else 2
    return keyless


def keep_rows(
    table: cython.ulonglong[::1],
    secret_low: cython.ulonglong,
    secret_high: cython.ulonglong,
    latest_offset: cython.longlong,
    keeps_tombstones: cython.bint,
    buffer: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    kept: cython.uchar[::1],
    kept_at: cython.Py_ssize_t,
    obsolete: cython.const[cython.uchar][::1],
    obsolete_from: cython.longlong,
) -> int:
    """Say for each of the first `count` rows, from `kept[kept_at]` on, whether the record stays: DROPPED, KEPT, or
    KEPT_TOMBSTONE when it has no value. Returns how many were dropped because they have no key.

    Beyond `latest_offset` all stay. Up to it a record stays that has a key, whose key has no greater offset in the
    table, and that has a value, unless `keeps_tombstones`. Where `obsolete` has a bit for the offset, that bit is as
    good as the table, since the record was put there itself.
    """
    keyless: cython.longlong
    if (
        len(table) < 3
        or count < 0
        or 8 * count > len(rows)
        or kept_at < 0
        or kept_at > len(kept) - count
        or obsolete_from < 0
    ):
        raise IndexError(f"{count} rows for {len(kept)} marks from {kept_at} on: there are {len(rows) // 8}")
    if count < _GIL_WORTH_ROWS:
        keyless = _keep_rows(
            table,
            secret_low,
            secret_high,
            latest_offset,
            keeps_tombstones,
            buffer,
            rows,
            count,
            kept,
            kept_at,
            obsolete,
            obsolete_from,
        )
    else:
        with cython.nogil:
            keyless = _keep_rows(
                table,
                secret_low,
                secret_high,
                latest_offset,
                keeps_tombstones,
                buffer,
                rows,
                count,
                kept,
                kept_at,
                obsolete,
                obsolete_from,
            )
    if keyless < 0:
        raise IndexError(f"a key is outside a buffer of {len(buffer)} bytes")
    return keyless
