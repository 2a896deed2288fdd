# For the kernels that are built on this one.

cdef long long _walk(
    const unsigned char[::1] buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_offset,
    long long base_timestamp,
    bint same_timestamp,
    long long[::1] rows,
    Py_ssize_t row,
) noexcept nogil

cdef bint _are_in_order(
    long long[::1] rows,
    Py_ssize_t row,
    Py_ssize_t count,
    long long first_offset,
    long long last_offset,
) noexcept nogil

cdef (Py_ssize_t, long long, long long, long long) _check(
    const unsigned char[::1] buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    long long record,
    long long count,
    long long base_timestamp,
    bint same_timestamp,
    bint require_key,
    long long earliest,
    long long latest,
) noexcept nogil
