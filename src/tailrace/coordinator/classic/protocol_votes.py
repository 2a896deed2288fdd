"""Which protocols all members of a group speak, and which one they choose."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class ProtocolVotes:
    """Counts by name, kept as members come and go: whether a newcomer fits is asked at every join."""

    def __init__(self) -> None:
        self._speakers: dict[str, int] = {}

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            self._speakers[name] = self._speakers.get(name, 0) + 1

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            left = self._speakers[name] - 1
            if left:
                self._speakers[name] = left
            else:
                del self._speakers[name]

    def any_common(self, names: Iterable[str], member_count: int) -> bool:
        """Whether one of the names is spoken by all `member_count` members; in an empty group any is."""
        return any(self._speakers.get(name, 0) == member_count for name in names)

    def winner(self, ballots: Collection[Collection[str]]) -> str | None:
        """Each ballot is a member's names, the best first: it goes to the first name that all speak.

        None when there is no such name.
        """
        votes: dict[str, int] = {}
        for ballot in ballots:
            choice = next((name for name in ballot if self._speakers.get(name) == len(ballots)), None)
            if choice is None:
                return None
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__, default=None)
