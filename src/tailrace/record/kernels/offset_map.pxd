# For the kernels that are built on this one.

cdef (Py_ssize_t, long long, long long) _put_rows(
    unsigned long long[::1] table,
    long long entries,
    long long limit,
    unsigned long long secret_low,
    unsigned long long secret_high,
    const unsigned char[::1] buffer,
    long long[::1] rows,
    Py_ssize_t count,
    long long from_offset,
    unsigned char[::1] obsolete,
    long long obsolete_from,
) noexcept nogil

cdef long long _keep_rows(
    unsigned long long[::1] table,
    unsigned long long secret_low,
    unsigned long long secret_high,
    long long latest_offset,
    bint keeps_tombstones,
    const unsigned char[::1] buffer,
    long long[::1] rows,
    Py_ssize_t count,
    unsigned char[::1] kept,
    Py_ssize_t kept_at,
    const unsigned char[::1] obsolete,
    long long obsolete_from,
) noexcept nogil
