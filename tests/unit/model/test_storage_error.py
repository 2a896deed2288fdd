from __future__ import annotations

import errno

import pytest

from tailrace.model.errors import StorageError


def test_names_what_was_done_the_file_and_the_reason() -> None:
    error = StorageError("load data/t-0", PermissionError(errno.EACCES, "Permission denied", "data/t-0/x.log"))
    assert str(error) == "load data/t-0: data/t-0/x.log: Permission denied"


def test_does_not_name_a_file_twice() -> None:
    assert str(StorageError("read a.log", OSError(errno.EIO, "Input/output error", "a.log"))) == (
        "read a.log: Input/output error"
    )
    assert str(StorageError("flush in d", OSError(errno.EIO, "Input/output error"))) == "flush in d: Input/output error"


@pytest.mark.parametrize(
    ("code", "hint", "is_shortage"),
    [
        (errno.ENOSPC, "free space", True),
        (errno.EDQUOT, "quota", True),
        (errno.EACCES, "permissions", False),
        (errno.EPERM, "permissions", False),
        (errno.EROFS, "for writing", False),
        (errno.EMFILE, "open files", True),
        (errno.ENFILE, "open files", True),
        (errno.EIO, "check the disk", False),
    ],
)
def test_the_hint_fits_the_reason(code: int, hint: str, is_shortage: bool) -> None:
    error = StorageError("write", OSError(code, "refused"))
    assert hint in error.hint
    assert error.is_shortage is is_shortage
