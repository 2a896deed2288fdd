"""The file `.kafka_cleanshutdown`: every log of this data directory was closed, nothing needs recovery.

    {"version":0,"brokerEpoch":105}

Its being there is what counts; the epoch tells the controller which run of the broker it was.

Crash rule. Written when everything else is durable, and gone, durably, before the first log is loaded: a crash while
loading counts as unclean.

Who may call. The log manager, at start and shutdown.
"""

from __future__ import annotations

import json
from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError
from tailrace.storage.checkpoint import read_small_file, replace_durably
from tailrace.storage.names import join

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH: Final = -1

_VERSION: Final = 0
_MAX_BYTES: Final = 4096


class CleanShutdownMarker:
    __slots__ = ("_directory", "_files", "path")

    def __init__(self, files: Files, directory: str) -> None:
        """Touches no file."""
        self._files = files
        self._directory = directory
        self.path = join(directory, CLEAN_SHUTDOWN_FILE)

    def broker_epoch(self) -> int | None:
        """None where there is no file, or one that says no epoch (old brokers wrote an empty one)."""
        try:
            text = read_small_file(self._files, self.path, _MAX_BYTES)
            content = json.loads(text or "null")
        except (CorruptCheckpointError, ValueError, RecursionError):
            return None
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None

    def take(self) -> bool:
        """Remove the file, durably; whether there was one."""
        try:
            self._files.unlink(self.path)
        except FileNotFoundError:
            return False
        self._files.sync_dir(self._directory)
        return True

    def write(self, broker_epoch: int) -> None:
        text = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        replace_durably(self._files, self.path, text.encode())
