"""Which APIs a listener serves, and who handles them: one table for dispatch and for ApiVersions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tailrace.model.errors import InvalidRequestError, UnsupportedVersionError
from tailrace.protocol.apis import API_VERSIONS, APIS, PRODUCE
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from tailrace.broker.context import RequestContext
    from tailrace.broker.node import Node

Reply = Callable[[Any], None]
Handler = Callable[["Node", "RequestContext", Any, Reply], None]

_OTHER_LISTENER: Final = "check that the client has the address of a broker, or of a controller, as it needs"
_OLDEST_LISTED_PRODUCE: Final = 0  # librdkafka wants to see versions that nobody serves any more

# Module of `tailrace.broker.handlers` by api key. Produce is not handled one by one, but in runs.
BROKER_HANDLERS: Final = {
    0: "",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "controller_request",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "acls",
    30: "acls",
    31: "acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    43: "controller_request",
    44: "incremental_alter_configs",
    45: "controller_request",
    46: "controller_request",
    47: "offset_delete",
    55: "controller_request",
    57: "controller_request",
    60: "describe_cluster",
    61: "describe_producers",
    64: "controller_request",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    80: "controller_request",
    81: "controller_request",
    83: "initialize_share_group_state",
    84: "read_share_group_state",
    85: "write_share_group_state",
    86: "delete_share_group_state",
    87: "read_share_group_state_summary",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
}
CONTROLLER_HANDLERS: Final = {
    1: "raft",
    18: "api_versions",
    19: "create_topics",
    20: "controller_request",
    29: "acls",
    30: "acls",
    31: "acls",
    32: "describe_configs",
    33: "alter_configs",
    37: "create_partitions",
    43: "controller_request",
    44: "incremental_alter_configs",
    45: "controller_request",
    46: "controller_request",
    52: "raft",
    53: "raft",
    54: "raft",
    55: "controller_request",
    56: "controller_request",
    57: "controller_request",
    58: "envelope",
    59: "raft",
    60: "describe_cluster",
    62: "controller_request",
    63: "controller_request",
    64: "controller_request",
    67: "controller_request",
    70: "controller_request",
    73: "controller_request",
    80: "raft",
    81: "raft",
    82: "raft",
}


class Dispatch:
    """Of one kind of listener. Handlers are imported when first used: a start waits for none of them."""

    def __init__(self, *, is_controller: bool) -> None:
        self.is_controller = is_controller
        self._modules = CONTROLLER_HANDLERS if is_controller else BROKER_HANDLERS
        self._handlers: dict[int, Handler] = {}

    def serves(self, key: int) -> bool:
        return key in self._modules

    def handler(self, key: int, version: int) -> Handler | None:
        """None for ApiVersions in a version that does not exist. Otherwise what cannot be handled is an error."""
        if key not in self._modules:
            raise InvalidRequestError(f"api key {key} is not served on this listener; next step: {_OTHER_LISTENER}")
        api = APIS[key]
        if not api.first_version <= version <= api.last_stable_version:
            if key == API_VERSIONS:
                return None
            raise UnsupportedVersionError(
                f"{api.name} has versions {api.first_version} to {api.last_stable_version}, not {version}"
            )
        found = self._handlers.get(key)
        if found is None:
            module = import_module(f"tailrace.broker.handlers.{self._modules[key]}")
            found = self._handlers[key] = module.handle
        return found

    def rows(self) -> list[ApiVersion]:
        """What ApiVersions lists."""
        rows = []
        for key in sorted(self._modules):
            api = APIS[key]
            first = _OLDEST_LISTED_PRODUCE if key == PRODUCE else api.first_version
            rows.append(ApiVersion(api_key=key, min_version=first, max_version=api.last_stable_version))
        return rows

    def unknown_api_versions(self) -> ApiVersionsResponse:
        """The answer to a version from the future: in version 0, with the versions to try instead."""
        api = APIS[API_VERSIONS]
        row = ApiVersion(api_key=api.key, min_version=api.first_version, max_version=api.last_stable_version)
        return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=[row])
