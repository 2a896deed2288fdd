"""A process that is not to outlive the one that started it: a broker in a test.

The parent makes a pipe, keeps the writing end and names the reading end in the variable `TAILRACE_PARENT_PIPE`. It
never writes: when the pipe closes, the parent is gone, however it went. (Linux's `PR_SET_PDEATHSIG` is no way to do
this: it fires already when the thread ends that made the child.)

A parent that wants its directory removed names that too. Whoever is killed cannot tidy up, so that the child does.
"""

from __future__ import annotations

import os
import signal
import time
from threading import Thread
from typing import Final

PIPE_VARIABLE: Final = "TAILRACE_PARENT_PIPE"
DIRECTORY_VARIABLE: Final = "TAILRACE_PARENT_DIRECTORY"
GRACE_SECONDS: Final = 10.0


def watch_parent() -> None:
    """Call once, at the start of a process. Does nothing where no parent asked for it.

    When the parent is gone, the process gets SIGTERM, which is to end it; after `GRACE_SECONDS` it ends in any case.
    With a directory to remove there is nothing to close properly: directory and process go at once.
    """
    pipe = os.environ.pop(PIPE_VARIABLE, "")
    directory = os.environ.pop(DIRECTORY_VARIABLE, "")
    if pipe.isdecimal():
        os.set_inheritable(int(pipe), False)
        Thread(target=_end_with_parent, args=(int(pipe), directory), name="parent", daemon=True).start()


def _end_with_parent(pipe: int, directory: str) -> None:
    while os.read(pipe, 1):
        pass
    if directory:
        import shutil

        shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
