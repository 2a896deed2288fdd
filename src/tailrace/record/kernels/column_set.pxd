# For the kernel that is built on this one.

cimport cython

from tailrace.record.kernels.bytes_column cimport BytesColumn


@cython.final
cdef class ColumnSet:
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t rows_without_headers
    cdef readonly long long needed_headers
    cdef readonly int full
    cdef Py_ssize_t _row_room
    cdef long long[::1] _offsets
    cdef long long[::1] _timestamps
    cdef int[::1] _types
    cdef BytesColumn _keys
    cdef BytesColumn _values
    cdef bint _wants_keys
    cdef bint _wants_values
    cdef bint _wants_headers
    cdef int[::1] _header_ends
    cdef unsigned char[::1] _header_bits
    cdef BytesColumn _header_keys
    cdef BytesColumn _header_values

    cdef Py_ssize_t _give(
        self,
        const unsigned char[::1] buffer,
        const long long[::1] walked,
        Py_ssize_t first,
        Py_ssize_t end,
        int timestamp_type,
    ) noexcept nogil
    cdef void _put_numbers(
        self, const long long[::1] walked, Py_ssize_t first, Py_ssize_t count, int timestamp_type
    ) noexcept nogil
    cdef Py_ssize_t _put_headers(
        self, const unsigned char[::1] buffer, const long long[::1] walked, Py_ssize_t first, Py_ssize_t count
    ) noexcept nogil
    cdef bint _put_headers_of(
        self, const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end
    ) noexcept nogil
