"""Why the broker cannot listen on an address, and which setting to change."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from tailrace.model.errors import TailraceError

_HINTS: Final = {
    errno.EADDRINUSE: "stop the process that uses it, or set another port in {}",
    errno.EADDRNOTAVAIL: "set an address of this machine in {}: none of its network interfaces has this one",
    errno.EACCES: "set a port above 1023 in {}, or run as a user who may use this one",
}


class BindError(TailraceError):
    def __init__(self, setting: str, where: object, cause: OSError) -> None:
        """The hint names `setting` as what to change."""
        if isinstance(cause, socket.gaierror):
            reason, hint = (
                cause.strerror,
                "set a host name that can be resolved, or an IP address of this machine, in {}",
            )
        else:
            reason = os.strerror(cause.errno) if cause.errno else str(cause)
            hint = _HINTS.get(cause.errno or 0, "set another address in {}")
        super().__init__(f"cannot listen on {where}: {reason}")
        self.hint = hint.format(setting)  # type: ignore[misc]
