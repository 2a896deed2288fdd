"""What a test asks of the simulated disk: settings, calls that shall fail, how a crash goes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from tailrace.model.invariant import InvariantError

Op = Literal[
    "open", "create", "read", "write", "truncate", "sync", "map",
    "stat", "list", "make_dir", "rename", "unlink", "remove_dir", "sync_dir", "set_time",
]  # fmt: skip


class SimulatedCrash(BaseException):
    """The machine is off. Everything raises this until `SimDisk.restart` or `SimDisk.kill`.

    No `except Exception` may live through it.
    """


class MappedFault(InvariantError):  # noqa: N818 - named as what it stands for
    """A mapping was read beyond the end of its file: in reality SIGBUS ends the process."""


class CrashPoint(Enum):
    """How far the operation gets at which `crash_at` strikes."""

    BEFORE = "before"  # nothing of it happens
    DURING = "during"  # a write stops after some of its bytes; for operations without parts the same as BEFORE
    AFTER = "after"  # it happens, but the caller never learns


class Survival(Enum):
    """What a restart finds of what was never synced."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    ANY = "any"  # as the dice fall


@dataclass(slots=True)
class _Rule:
    op: Op | None
    matches: Callable[[str], bool]
    code: int
    skip: int
    left: int | None  # None: for ever


@dataclass(slots=True)
class Faults:
    """Settings may be changed at any moment. A failed call has done nothing, apart from `failed_sync_drops`."""

    garbage_probability: float = 0.25  # that a lost page in newly grown space holds garbage rather than zeros
    short_write_probability: float = 0.0  # that a write stops early and returns a smaller count
    capacity_bytes: int | None = None  # of file pages; names and directories are free
    read_only: bool = False  # every change fails with EROFS
    count_reads: bool = False  # reads, lists, stats count as operations too, so that a crash can strike there
    failed_sync_drops: bool = False  # a failed sync marks the pages clean all the same: a later sync is a lie
    _rules: list[_Rule] = field(default_factory=list)

    def fail_next(
        self,
        op: Op | None = None,
        path: str | Callable[[str], bool] | None = None,
        code: int = errno.EIO,
        *,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Fail the next `times` calls (None: all until `heal`) of `op` on `path`, after letting `skip` of them pass.

        `path` is a pattern ("*.index") or a function; a rename matches by source or target.
        """
        if path is None:
            matches: Callable[[str], bool] = _anything
        elif isinstance(path, str):
            matches = partial(fnmatchcase, pat=path)
        else:
            matches = path
        self._rules.append(_Rule(op, matches, code, skip, times))

    def heal(self) -> None:
        """Forget every failure asked for and not yet delivered."""
        self._rules.clear()

    @property
    def is_failing(self) -> bool:
        """Some calls fail, or will."""
        return bool(self._rules)

    def check(self, op: Op, path: str, target: str | None = None) -> None:
        """Raise the OSError that is due for this call, if any."""
        for rule in self._rules:
            if rule.op is not None and rule.op != op:
                continue
            if not rule.matches(path) and (target is None or not rule.matches(target)):
                continue
            if rule.skip:
                rule.skip -= 1
                continue
            if rule.left is not None:
                rule.left -= 1
                if rule.left == 0:
                    self._rules.remove(rule)
            raise os_error(rule.code, path)

    def copy(self) -> Faults:
        return replace(self, _rules=[replace(rule) for rule in self._rules])


def _anything(path: str) -> bool:
    return True


def os_error(code: int, path: str) -> OSError:
    """As the kernel words it; the class follows from the code (FileNotFoundError, …)."""
    return OSError(code, os.strerror(code), path)
