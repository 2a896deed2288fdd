"""A coordinator whose log takes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tailrace.coordinator.shard import Shard
from tailrace.model.errors import NotEnoughReplicasError


@contextmanager
def refused_appends() -> Iterator[None]:
    """Nothing is appended, and so nothing replayed."""

    def refuse(*_: Any) -> None:
        raise NotEnoughReplicasError("too few replicas are in sync")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Shard, "_append", refuse)
        yield
