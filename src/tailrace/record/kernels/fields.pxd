# For the kernels that are built on this one.

from libc.string cimport memcpy

from tailrace.record.kernels.crc cimport _crc, _three_crcs

cdef long long _uint32(const unsigned char[::1] buffer, Py_ssize_t position) noexcept nogil
cdef long long _int32(const unsigned char[::1] buffer, Py_ssize_t position) noexcept nogil
cdef long long _int64(const unsigned char[::1] buffer, Py_ssize_t position) noexcept nogil
cdef void _put_int32(unsigned char[::1] out, Py_ssize_t position, long long value) noexcept nogil
cdef void _put_int64(unsigned char[::1] out, Py_ssize_t position, long long value) noexcept nogil
cdef void _copy(
    const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t size, unsigned char[::1] out, Py_ssize_t position
) noexcept nogil
cdef Py_ssize_t _intact_to(
    const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t behind, Py_ssize_t end
) noexcept nogil
