"""CRC-32C, from the library `crc32c` without the rest of its package.

When the package is imported it reads its own version from the metadata of installed distributions. The modules that
this takes (email, zip files, CSV, temporary files) cost every process 3 MB of memory and a tenth of its start. Only the
extension module is loaded here, and the package itself if the extension is not where it is expected.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Final

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "_crc32c"


def _library() -> ModuleType:
    if _PACKAGE not in sys.modules:
        package = importlib.util.find_spec(_PACKAGE)
        folders = package.submodule_search_locations if package is not None else None
        extension = PathFinder.find_spec(_EXTENSION, folders) if folders else None
        if extension is not None and extension.loader is not None:
            module = importlib.util.module_from_spec(extension)
            extension.loader.exec_module(module)
            return module
    return importlib.import_module(_PACKAGE)


_library_module: Final = _library()

crc32c: Final[Callable[..., int]] = _library_module.crc32c
"""`crc32c(data, value=0)`: of a buffer, continued from the sum of what precedes it."""
is_hardware_based: Final[bool] = _library_module.hardware_based
"""Whether the processor has an instruction for it."""
