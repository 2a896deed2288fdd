# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
# ruff: noqa: F821
"""Kernel: CRC-32C by the instruction that x86 processors have had since SSE 4.2, for `crc.install`.

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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sum(at: Bytes, size: cython.Py_ssize_t) -> cython.uint:
    return ~_sum_from(0xFFFFFFFF, at, size)


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
    """As far as the shortest goes side by side: the instruction takes three cycles, but one may begin in each."""
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
