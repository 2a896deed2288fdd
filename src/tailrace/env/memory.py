"""Large pieces of memory that are all zeros, from the operating system itself.

To make one costs nothing: a page comes when it is first written, and nobody waits under the GIL while megabytes are
filled with zeros. They go back to the operating system with the last reference.
"""

from __future__ import annotations

import mmap


def zeroed_memory(size: int) -> memoryview:
    """`size` bytes, at least one, to be read and written by any thread."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
