# For the kernels that are built on this one.

cdef (Py_ssize_t, long long, long long) _rebuild(
    const unsigned char[::1] buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    const unsigned char[::1] kept,
    Py_ssize_t kept_at,
    Py_ssize_t count,
    long long base_timestamp,
    bint same_timestamp,
    bint has_new_base,
    long long new_base,
    unsigned char[::1] out,
    Py_ssize_t out_at,
) noexcept nogil
