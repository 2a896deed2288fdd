"""What entries were before changes that are not committed yet.

A commit is replayed when it is appended, and could still be lost: until the high watermark has passed it, whoever
fetches offsets is shown what was there before. With one replica everything is committed at once, and this stays empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from tailrace.coordinator.offsets.entry import CommittedOffset

Place = tuple[str, int]
"""Topic and partition."""
_NONE: Final[dict[Place, deque[CommittedOffset | None]]] = {}


class UnsettledChanges:
    def __init__(self, is_committed: Callable[[int], bool]) -> None:
        self._is_committed = is_committed
        self._changes: deque[tuple[int, str, Place]] = deque()
        """Offset in the coordinator's log, group and place of each, in order."""
        self._before: dict[str, dict[Place, deque[CommittedOffset | None]]] = {}
        """By group and place, what each change has replaced: the first is what is committed."""

    def __len__(self) -> int:
        return len(self._changes)

    def note(self, offset: int, group_id: str, place: Place, before: CommittedOffset | None) -> None:
        """The record at `offset` has changed what `group_id` has at `place`."""
        if self._changes:
            self.settle()
        if not self._is_committed(offset):
            self._changes.append((offset, group_id, place))
            self._before.setdefault(group_id, {}).setdefault(place, deque()).append(before)

    def settle(self) -> None:
        """Forget what is committed by now."""
        changes = self._changes
        while changes and self._is_committed(changes[0][0]):
            _, group_id, place = changes.popleft()
            places = self._before[group_id]
            places[place].popleft()
            if not places[place]:
                del places[place]
                if not places:
                    del self._before[group_id]

    def places(self, group_id: str) -> Iterator[tuple[Place, CommittedOffset | None]]:
        """Where the group's table does not show what is committed, and what is. After `settle`."""
        for place, steps in self._before.get(group_id, _NONE).items():
            yield place, steps[0]
