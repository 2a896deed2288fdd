"""The files that belong into a data directory, beside the directories of partitions.

Whatever else is there is somebody else's: it is left alone, and a start says that it is there.
"""

from __future__ import annotations

from typing import Final

from tailrace.storage.cleaner.uncleanable import UNCLEANABLE_FILE
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.manager.directory_checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_FILE,
)
from tailrace.storage.manager.log_directory import LOCK_FILE
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE
from tailrace.storage.names import TEMPORARY_SUFFIX

CHECKPOINT_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, REPLICATION_FILE, CLEANER_FILE)
KNOWN_FILES: Final = frozenset(
    {META_PROPERTIES_FILE, LOCK_FILE, CLEAN_SHUTDOWN_FILE, UNCLEANABLE_FILE, "bootstrap.checkpoint", *CHECKPOINT_FILES}
)


def is_known(name: str) -> bool:
    return name.removesuffix(TEMPORARY_SUFFIX) in KNOWN_FILES
