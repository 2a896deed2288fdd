# For the kernel that is built on this one.

cimport cython
from libc.string cimport memcpy


@cython.final
cdef class BytesColumn:
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t used_bytes
    cdef readonly Py_ssize_t nulls
    cdef readonly Py_ssize_t needed_bytes
    cdef int[::1] _ends
    cdef unsigned char[::1] _bits
    cdef unsigned char[::1] _bytes
    cdef Py_ssize_t _room

    cdef Py_ssize_t _fitting(
        self, const long long[::1] rows, Py_ssize_t first, Py_ssize_t count, Py_ssize_t part
    ) noexcept nogil
    cdef void _put(
        self,
        const unsigned char[::1] buffer,
        const long long[::1] rows,
        Py_ssize_t first,
        Py_ssize_t count,
        Py_ssize_t part,
    ) noexcept nogil
    cdef bint _put_one(self, const unsigned char[::1] buffer, Py_ssize_t start, long long length) noexcept nogil
    cdef void _back_to(self, Py_ssize_t rows, Py_ssize_t used_bytes, Py_ssize_t nulls) noexcept nogil
