# For the kernels that are built on this one, and the one that replaces its sums.

ctypedef const unsigned char *Bytes
ctypedef unsigned int (*Sum)(Bytes at, Py_ssize_t size) noexcept nogil
ctypedef void (*ThreeSums)(
    Bytes a, Py_ssize_t a_size,
    Bytes b, Py_ssize_t b_size,
    Bytes c, Py_ssize_t c_size,
    unsigned int *sums
) noexcept nogil

cdef Sum _sum
cdef ThreeSums _three_sums

cdef unsigned int _sum_by_tables(Bytes at, Py_ssize_t size) noexcept nogil
cdef void _three_sums_by_tables(
    Bytes a, Py_ssize_t a_size,
    Bytes b, Py_ssize_t b_size,
    Bytes c, Py_ssize_t c_size,
    unsigned int *sums
) noexcept nogil

cdef long long _crc(const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cdef void _three_crcs(
    const unsigned char[::1] buffer,
    Py_ssize_t a, Py_ssize_t a_end,
    Py_ssize_t b, Py_ssize_t b_end,
    Py_ssize_t c, Py_ssize_t c_end,
    unsigned int *sums
) noexcept nogil
