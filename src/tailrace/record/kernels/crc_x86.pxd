# The processor's instruction, as the compiler knows it, and what `crc_x86` makes of it.

cdef extern from *:
    unsigned long long __builtin_ia32_crc32di(unsigned long long crc, unsigned long long word) noexcept nogil
    unsigned int __builtin_ia32_crc32qi(unsigned int crc, unsigned char byte) noexcept nogil

ctypedef const unsigned char *Bytes

cdef unsigned int _product(unsigned int a, unsigned int b) noexcept
cdef void _fill(unsigned int *tables, Py_ssize_t zero_bytes)
cdef unsigned int _with_zeros(unsigned int *tables, unsigned int crc) noexcept nogil
cdef unsigned int _side_by_side(
    unsigned int crc, Bytes at, Py_ssize_t each, unsigned int *tables
) noexcept nogil
cdef unsigned int _sum_from(unsigned int crc, Bytes at, Py_ssize_t size) noexcept nogil
cdef unsigned int _sum(Bytes at, Py_ssize_t size) noexcept nogil
cdef void _three_sums(
    Bytes a, Py_ssize_t a_size,
    Bytes b, Py_ssize_t b_size,
    Bytes c, Py_ssize_t c_size,
    unsigned int *sums
) noexcept nogil
