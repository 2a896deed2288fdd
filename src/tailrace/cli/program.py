"""How to call this program again from where the reader is."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def program_name() -> str:
    called = sys.argv[0]
    if os.path.basename(called) != "tailrace":
        return "python -m tailrace"
    on_path = shutil.which("tailrace")
    return "tailrace" if on_path is not None and os.path.samefile(on_path, called) else shlex.quote(called)
