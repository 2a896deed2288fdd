"""The versions of APIs that the other side of a connection has, and the one to use of each.

The value of an ApiVersions response. A side that was never asked has no `PeerVersions`: Kafka's replica fetchers, for
example, use the version that the cluster's metadata version implies.
"""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.apis import api_of
from tailrace.protocol.messages.api_versions import ApiVersionsResponse

_ABSENT: Final = (0, -1)


class PeerVersions:
    __slots__ = ("_ranges", "_usable", "peer")

    def __init__(self, response: ApiVersionsResponse, peer: str) -> None:
        """`peer` names the other side in errors: "the broker at localhost:9092"."""
        self.peer = peer
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self._usable: dict[tuple[int, int | None], int | None] = {}
        """What was asked for before: the answers never change."""

    def has_api(self, api_key: int) -> bool:
        return self._newest_common(api_key, None) is not None

    def version_for(self, api_key: int, newest: int | None = None) -> int:
        """The highest that both sides have, and not above `newest`; else UnsupportedVersionError.

        A version that may still change is never used.
        """
        try:
            version = self._usable[api_key, newest]
        except KeyError:
            version = self._usable[api_key, newest] = self._newest_common(api_key, newest)
        if version is None:
            api, theirs = api_of(api_key), self._ranges.get(api_key)
            spoken = "does not have it" if theirs is None else f"has versions {theirs[0]} to {theirs[1]}"
            last = api.last_stable_version if newest is None else newest
            raise UnsupportedVersionError(
                f"{api.name} is needed in a version from {api.first_version} to {last}, but {self.peer} {spoken}"
            )
        return version

    def _newest_common(self, api_key: int, newest: int | None) -> int | None:
        api = api_of(api_key)
        first, last = self._ranges.get(api_key, _ABSENT)
        version = min(api.last_stable_version, last)
        if newest is not None and newest < version:
            version = newest
        return version if version >= api.first_version and version >= first else None
