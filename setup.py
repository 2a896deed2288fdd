"""Declares the kernels as optional compiled extensions; everything else is in pyproject.toml.

Each kernel is an ordinary Python file in Cython's pure-Python mode. Where a C compiler is at hand it becomes an
extension module beside its source; where none is, the build goes on and the source runs interpreted. `crc_x86` uses an
instruction of x86-64 and is built there alone.
"""

import platform
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("src/tailrace/record/kernels")
ONLY_X86 = "crc_x86"

is_x86 = platform.machine().lower() in ("x86_64", "amd64")
sources = [
    source
    for source in sorted(KERNELS.glob("*.py"))
    if source.stem != "__init__" and (is_x86 or source.stem != ONLY_X86)
]

extensions = cythonize(
    [
        Extension(
            f"tailrace.record.kernels.{source.stem}",
            [str(source)],
            extra_compile_args=["-O3", "-g0", *(["-msse4.2"] if source.stem == ONLY_X86 else [])],
        )
        for source in sources
    ],
    build_dir="build/kernels",
    compiler_directives={"language_level": "3"},
)
for extension in extensions:
    extension.optional = True  # set here because cythonize makes new extensions and drops this attribute

setup(ext_modules=extensions)
