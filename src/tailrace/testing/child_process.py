"""A `tailrace serve` as a child process: its ready line, its log, and how it ends.

The child ends with this process in any case (`env.real.parent`), and so do children that a fork of this process holds.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from tailrace.env.real.parent import DIRECTORY_VARIABLE, PIPE_VARIABLE
from tailrace.model.errors import TailraceError

STOP_TIMEOUT_SECONDS: Final = 60.0

_READY: Final = re.compile(rb"^ready: .+\n", re.MULTILINE)


class BrokerStartError(TailraceError):
    """The child ended, or was not ready in time. The message ends with what it said."""

    hint = "the last lines above are the broker's own"


class ChildProcess:
    """The process, and the pipe whose end tells it that we are gone."""

    def __init__(self, command: Sequence[str], log: IO[bytes], removable: Path | None) -> None:
        theirs, self._pipe = os.pipe()
        variables = {**os.environ, PIPE_VARIABLE: str(theirs)}
        if removable is not None:
            variables[DIRECTORY_VARIABLE] = str(removable)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=variables,
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C is for the tests; they then end the broker
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
        _children.add(self)

    def wait_until_ready(self, timeout_s: float) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not _READY.search(said):
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise BrokerStartError(f"the broker was not ready within {timeout_s:g} s")
                piece = os.read(self.process.stdout.fileno(), 4096)
                if not piece:
                    code = self.process.wait()
                    raise BrokerStartError(f"the broker ended with exit code {code} before it was ready")
                said += piece

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TimeoutError(f"the broker did not end within {STOP_TIMEOUT_SECONDS:g} s of {how.name}") from None
        finally:
            self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.release()

    def release(self) -> None:
        """Close our end of the pipe."""
        _children.discard(self)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


_children: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _forget_children() -> None:
    """A fork of this process holds the pipes too, and would keep the brokers alive beyond us."""
    for child in list(_children):
        child.release()


os.register_at_fork(after_in_child=_forget_children)
