# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
"""Kernel: CRC-32C of stretches of a buffer, without the GIL. For other kernels.

By tables, sixteen bytes at a time, or by whatever sums `install` was given: where the processor has an instruction for
it, `crc_x86` has sums that are several times as fast. Interpreted it is the library's.

Nothing is checked here: whoever calls knows that the bytes are in the buffer.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from crc32c import crc32c

_TABLES = cython.declare(cython.uint[4096])
"""Sixteen tables of 256 sums: of a byte that so many zero bytes follow."""


@cython.cfunc
def _fill_tables() -> cython.void:
    byte: cython.int
    _bit: cython.int
    table: cython.int
    crc: cython.uint
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        _TABLES[byte] = crc
    for byte in range(256):
        for table in range(1, 16):
            crc = _TABLES[256 * (table - 1) + byte]
            _TABLES[256 * table + byte] = (crc >> 8) ^ _TABLES[crc & 0xFF]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sum_by_tables(at: Bytes, size: cython.Py_ssize_t) -> cython.uint:  # noqa: F821
    crc: cython.uint = 0xFFFFFFFF
    while size >= 16:
        crc = (
            _TABLES[3840 + (at[0] ^ (crc & 0xFF))]
            ^ _TABLES[3584 + (at[1] ^ ((crc >> 8) & 0xFF))]
            ^ _TABLES[3328 + (at[2] ^ ((crc >> 16) & 0xFF))]
            ^ _TABLES[3072 + (at[3] ^ (crc >> 24))]
            ^ _TABLES[2816 + at[4]]
            ^ _TABLES[2560 + at[5]]
            ^ _TABLES[2304 + at[6]]
            ^ _TABLES[2048 + at[7]]
            ^ _TABLES[1792 + at[8]]
            ^ _TABLES[1536 + at[9]]
            ^ _TABLES[1280 + at[10]]
            ^ _TABLES[1024 + at[11]]
            ^ _TABLES[768 + at[12]]
            ^ _TABLES[512 + at[13]]
            ^ _TABLES[256 + at[14]]
            ^ _TABLES[at[15]]
        )
        at += 16
        size -= 16
    while size > 0:
        crc = (crc >> 8) ^ _TABLES[(crc ^ at[0]) & 0xFF]
        at += 1
        size -= 1
    return ~crc


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _three_sums_by_tables(
    a: Bytes,  # noqa: F821
    a_size: cython.Py_ssize_t,
    b: Bytes,  # noqa: F821
    b_size: cython.Py_ssize_t,
    c: Bytes,  # noqa: F821
    c_size: cython.Py_ssize_t,
    sums: cython.p_uint,
) -> cython.void:
    sums[0] = _sum_by_tables(a, a_size)
    sums[1] = _sum_by_tables(b, b_size)
    sums[2] = _sum_by_tables(c, c_size)


if cython.compiled:
    _fill_tables()
    _sum = _sum_by_tables
    _three_sums = _three_sums_by_tables


def install(sum_address: cython.size_t, three_sums_address: cython.size_t) -> None:
    """Let these C functions do the sums, for good; zeros bring the tables back. Before any other thread is there."""
    global _sum, _three_sums
    if cython.compiled:
        _sum = cython.cast(Sum, sum_address) if sum_address else _sum_by_tables  # noqa: F821
        _three_sums = (
            cython.cast(ThreeSums, three_sums_address) if three_sums_address else _three_sums_by_tables  # noqa: F821
        )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _crc(buffer: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """`start` is before `end`."""
    if cython.compiled:
        return _sum(cython.address(buffer[start]), end - start)
    return crc32c(memoryview(buffer)[start:end])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _three_crcs(
    buffer: cython.const[cython.uchar][::1],
    a: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
    c: cython.Py_ssize_t,
    c_end: cython.Py_ssize_t,
    sums: cython.p_uint,
) -> cython.void:
    """Three at a time, into `sums`: an instruction takes some cycles, but others may begin in them. Compiled only."""
    if cython.compiled:
        _three_sums(
            cython.address(buffer[a]),
            a_end - a,
            cython.address(buffer[b]),
            b_end - b,
            cython.address(buffer[c]),
            c_end - c,
            sums,
        )


def crc_of_bytes(buffer: cython.const[cython.uchar][::1]) -> int:
    """CRC-32C as other kernels compute it."""
    return _crc(buffer, 0, len(buffer)) if len(buffer) > 0 else 0


def crcs_of_three(
    buffer: cython.const[cython.uchar][::1], first_end: cython.Py_ssize_t, second_end: cython.Py_ssize_t
) -> tuple[int, int, int]:
    """Of three stretches that follow each other, none of them empty."""
    sums = cython.declare(cython.uint[3])
    end: cython.Py_ssize_t = len(buffer)
    if not 0 < first_end < second_end < end:
        raise IndexError(f"no three stretches: {first_end}, {second_end}, {end}")
    if cython.compiled:
        _three_crcs(buffer, 0, first_end, first_end, second_end, second_end, end, sums)
        return sums[0], sums[1], sums[2]
    return _crc(buffer, 0, first_end), _crc(buffer, first_end, second_end), _crc(buffer, second_end, end)
