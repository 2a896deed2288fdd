# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
# ruff: noqa: F821
"""Kernel: CRC-32C by the instruction that x86 processors have had since SSE 4.2, for `crc.install`.

The instruction takes three cycles, but one may begin in each. So a long stretch is summed as three that lie side by
side, and the sums are put together: that of a stretch with so many zero bytes behind it is a product, modulo the
polynomial, with a power of x that depends on how many they are.

Built for x86-64 alone, and to be asked for addresses only where the processor is known to have the instruction. It has
no interpreted form.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sum_from(crc: cython.uint, at: Bytes, size: cython.Py_ssize_t) -> cython.uint:
    wide: cython.ulonglong = crc
    word: cython.ulonglong
    while size >= 8:
        memcpy(cython.address(word), at, 8)
        wide = __builtin_ia32_crc32di(wide, word)
        at += 8
        size -= 8
    crc = cython.cast(cython.uint, wide)
    while size > 0:
        crc = __builtin_ia32_crc32qi(crc, at[0])
        at += 1
        size -= 1
    return crc


_LONG = cython.declare(cython.Py_ssize_t, 4096)
_SHORT = cython.declare(cython.Py_ssize_t, 256)
"""How long each of three stretches is, as long as there are as many bytes."""
_BEHIND_LONG = cython.declare(cython.uint[1024])
_BEHIND_SHORT = cython.declare(cython.uint[1024])
"""Four tables of 256 products: of each byte of a sum, with so many zero bytes behind it."""


@cython.cfunc
@cython.exceptval(check=False)
def _product(a: cython.uint, b: cython.uint) -> cython.uint:
    """Of polynomials whose highest coefficient is the lowest bit, modulo that of the CRC."""
    product: cython.uint = 0
    _bit: cython.int
    for _bit in range(32):
        if a & 0x80000000:
            product ^= b
        a <<= 1
        b = (b >> 1) ^ (0x82F63B78 if b & 1 else 0)
    return product


@cython.cfunc
def _fill(tables: cython.p_uint, zero_bytes: cython.Py_ssize_t) -> cython.void:
    power: cython.uint = 0x80000000  # 1
    square: cython.uint = 0x00800000  # x to the power of 8: one zero byte
    byte: cython.uint
    place: cython.int
    while zero_bytes > 0:
        if zero_bytes & 1:
            power = _product(power, square)
        square = _product(square, square)
        zero_bytes >>= 1
    for place in range(4):
        for byte in range(256):
            tables[256 * place + byte] = _product(power, byte << (8 * place))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _with_zeros(tables: cython.p_uint, crc: cython.uint) -> cython.uint:
    return (
        tables[crc & 0xFF]
        ^ tables[256 + ((crc >> 8) & 0xFF)]
        ^ tables[512 + ((crc >> 16) & 0xFF)]
        ^ tables[768 + (crc >> 24)]
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _side_by_side(crc: cython.uint, at: Bytes, each: cython.Py_ssize_t, tables: cython.p_uint) -> cython.uint:
    """The sum of three stretches of `each` bytes, a multiple of eight, that follow each other."""
    first: cython.ulonglong = crc
    second: cython.ulonglong = 0
    third: cython.ulonglong = 0
    word: cython.ulonglong
    end: Bytes = at + each
    while at < end:
        memcpy(cython.address(word), at, 8)
        first = __builtin_ia32_crc32di(first, word)
        memcpy(cython.address(word), at + each, 8)
        second = __builtin_ia32_crc32di(second, word)
        memcpy(cython.address(word), at + 2 * each, 8)
        third = __builtin_ia32_crc32di(third, word)
        at += 8
    crc = _with_zeros(tables, cython.cast(cython.uint, first)) ^ cython.cast(cython.uint, second)
    return _with_zeros(tables, crc) ^ cython.cast(cython.uint, third)


if cython.compiled:
    _fill(_BEHIND_LONG, _LONG)
    _fill(_BEHIND_SHORT, _SHORT)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sum(at: Bytes, size: cython.Py_ssize_t) -> cython.uint:
    crc: cython.uint = 0xFFFFFFFF
    while size >= 3 * _LONG:
        crc = _side_by_side(crc, at, _LONG, _BEHIND_LONG)
        at += 3 * _LONG
        size -= 3 * _LONG
    while size >= 3 * _SHORT:
        crc = _side_by_side(crc, at, _SHORT, _BEHIND_SHORT)
        at += 3 * _SHORT
        size -= 3 * _SHORT
    return ~_sum_from(crc, at, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _three_sums(
    a: Bytes,
    a_size: cython.Py_ssize_t,
    b: Bytes,
    b_size: cython.Py_ssize_t,
    c: Bytes,
    c_size: cython.Py_ssize_t,
    sums: cython.p_uint,
) -> cython.void:
    """As far as the shortest goes side by side."""
    wide_a: cython.ulonglong = 0xFFFFFFFF
    wide_b: cython.ulonglong = 0xFFFFFFFF
    wide_c: cython.ulonglong = 0xFFFFFFFF
    word_a: cython.ulonglong
    word_b: cython.ulonglong
    word_c: cython.ulonglong
    at: cython.Py_ssize_t = 0
    shared: cython.Py_ssize_t = min(a_size, b_size, c_size)
    while at + 8 <= shared:
        memcpy(cython.address(word_a), a + at, 8)
        memcpy(cython.address(word_b), b + at, 8)
        memcpy(cython.address(word_c), c + at, 8)
        wide_a = __builtin_ia32_crc32di(wide_a, word_a)
        wide_b = __builtin_ia32_crc32di(wide_b, word_b)
        wide_c = __builtin_ia32_crc32di(wide_c, word_c)
        at += 8
    sums[0] = ~_sum_from(cython.cast(cython.uint, wide_a), a + at, a_size - at)
    sums[1] = ~_sum_from(cython.cast(cython.uint, wide_b), b + at, b_size - at)
    sums[2] = ~_sum_from(cython.cast(cython.uint, wide_c), c + at, c_size - at)


def addresses() -> tuple[int, int]:
    """Of the functions for one sum and for three, as `crc.install` takes them."""
    return cython.cast(cython.size_t, cython.address(_sum)), cython.cast(cython.size_t, cython.address(_three_sums))
