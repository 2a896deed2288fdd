"""Features of a cluster: which levels are supported and finalized, and changes of them.

Works on brokers (`Cluster`), which forward changes to the active controller, and on controllers (`Controllers`).

One thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.client.caller import Caller
from tailrace.client.errors import NONE, error_of
from tailrace.protocol.conversation import api_versions_request
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class Feature(NamedTuple):
    """`level` is None for a feature that the node supports and the cluster has not finalized."""

    name: str
    supported: tuple[int, int]
    level: int | None


class FeatureAdmin:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def features(self) -> list[Feature]:
        """By name, as the node that responds knows them."""

        def ask() -> list[Feature]:
            # Not the response with which the connection began: levels change while it lasts.
            response = self._caller.any_connection().call(api_versions_request(), self._caller.timeout_s)
            if response.error_code != NONE:
                raise error_of(response.error_code, "asking for features")
            levels = {each.name: each.max_version_level for each in response.finalized_features}
            supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
            names = sorted(supported.keys() | levels.keys())
            return [Feature(name, supported.get(name, (0, 0)), levels.get(name)) for name in names]

        return self._caller.retry("asking for features", ask)

    def update(self, levels: Mapping[str, int], *, upgrade_type: int = UPGRADE, validate_only: bool = False) -> None:
        """All levels or none. Returns when the active controller has committed them."""
        request = UpdateFeaturesRequest(
            timeout_ms=int(self._caller.timeout_s * 1000),
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )

        def ask() -> None:
            response: UpdateFeaturesResponse = self._caller.call(request)
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)
            for each in response.results:
                if each.error_code != NONE:
                    raise error_of(each.error_code, each.error_message)

        self._caller.retry("updating features", ask)
