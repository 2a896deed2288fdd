"""The sums of the library, without what its package imports."""

from __future__ import annotations

import subprocess
import sys

import crc32c

from tailrace.record import checksum

UNUSED = ("email", "importlib.metadata", "zipfile", "tempfile", "cramjam", "lz4", "zstandard")
PROGRAM = """
import sys
import tailrace.record.compression, tailrace.record.kernels
print([name for name in {unused} if name in sys.modules])
from tailrace.record.checksum import crc32c
print(crc32c(b"123456789") == 0xE3069283)
"""


def test_sums_are_those_of_the_package() -> None:
    data = bytes(range(256)) * 5
    assert checksum.crc32c(data) == crc32c.crc32c(data)
    assert checksum.crc32c(data[100:], checksum.crc32c(data[:100])) == crc32c.crc32c(data)
    assert checksum.crc32c(memoryview(data)) == crc32c.crc32c(data)
    assert checksum.is_hardware_based == crc32c.hardware_based


def test_a_process_that_uses_no_codec_does_not_import_the_libraries() -> None:
    program = PROGRAM.format(unused=UNUSED)
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
