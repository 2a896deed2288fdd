"""AlterConfigs and IncrementalAlterConfigs: overrides of topics, of brokers, and of all brokers together.

AlterConfigs says all overrides that a resource is to have; the others go. IncrementalAlterConfigs says what to do with
each key. A resource is changed as a whole or not at all, each on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.config.validation import APPEND, DELETE, GROUP, SET, SUBTRACT, edited_list
from tailrace.controller.config_rules import RESOURCES, can_be_appended_to, check_overrides, default_text
from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_records
from tailrace.controller.min_isr import MIN_ISR, check_change
from tailrace.controller.state import ClusterState
from tailrace.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from tailrace.metadata.topic_names import check_topic_name
from tailrace.model.errors import (
    BrokerIdNotRegisteredError,
    InvalidConfigError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from tailrace.protocol.messages import alter_configs, incremental_alter_configs
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import ClearElrRecord

MAX_ID_DIGITS: Final = 10
"""Of a node id, an int32. Python refuses to convert a text of some thousand digits."""

Changes = dict[str, str | None]
"""New values by key; None takes the override away."""


def incremental_alter(
    state: ClusterState, request: incremental_alter_configs.IncrementalAlterConfigsRequest
) -> Decision:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses, records = [], list[VersionedRecord]()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error = None
        try:
            _check_once(counts, kind, name)
            changes = {each.name: _operated(state, kind, name, each) for each in resource.configs}
            records += _changed(state, kind, name, changes)
        except TailraceError as refusal:
            error = refusal
        responses.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                resource_type=kind, resource_name=name, **_outcome(error)
            )
        )
    check_records(records)
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)
    return Decision(response, () if request.validate_only else records)


def legacy_alter(state: ClusterState, request: alter_configs.AlterConfigsRequest) -> Decision:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses, records = [], list[VersionedRecord]()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error = None
        try:
            _check_once(counts, kind, name)
            wanted: Changes = {each.name: each.value for each in resource.configs}
            gone: Changes = {key: None for key in state.image.configs.get((kind, name), {}) if key not in wanted}
            records += _changed(state, kind, name, wanted | gone)
        except TailraceError as refusal:
            error = refusal
        responses.append(
            alter_configs.AlterConfigsResourceResponse(resource_type=kind, resource_name=name, **_outcome(error))
        )
    check_records(records)
    response = alter_configs.AlterConfigsResponse(responses=responses)
    return Decision(response, () if request.validate_only else records)


def _outcome(error: TailraceError | None) -> dict[str, Any]:
    if error is None:
        return {"error_message": None}
    return {"error_code": error.code, "error_message": str(error)}


def _check_once(counts: Mapping[tuple[int, str], int], kind: int, name: str) -> None:
    if kind not in RESOURCES:
        raise UnsupportedVersionError(f"Unknown resource type {kind}.")
    if counts[kind, name] > 1:
        raise RefusedRequestError("Duplicate resource.")


def _operated(
    state: ClusterState, kind: int, name: str, change: incremental_alter_configs.AlterableConfig
) -> str | None:
    """The value that the operation leads to; None for no override."""
    operation, key = change.config_operation, change.name
    if operation == SET:
        return change.value
    if operation == DELETE:
        return None
    if operation not in (APPEND, SUBTRACT):
        raise RefusedRequestError(f"Unknown operations type {operation}")
    if not can_be_appended_to(kind, key):
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        raise InvalidConfigError(f"Can't {verb} to key {key} because its type is not LIST.")
    present = state.image.configs.get((kind, name), {}).get(key)
    if present is None:
        present = default_text(kind, key) or ""
    return edited_list(present, operation, change.value or "")


def _changed(state: ClusterState, kind: int, name: str, changes: Changes) -> Sequence[VersionedRecord]:
    """The records that make the changes, after all that can be wrong with them was checked."""
    present = state.image.configs.get((kind, name), {})
    # A broker's are written again though they are the same: that makes it read files anew that they name.
    changes = {key: value for key, value in changes.items() if value != present.get(key) or kind == BROKER_RESOURCE}
    merged = present | changes
    after = {key: value for key, value in merged.items() if value is not None}
    _check_name(kind, name)
    check_overrides(kind, name, after, state.config)
    _check_existence(state, kind, name)
    if state.has_elr and kind == BROKER_RESOURCE:
        check_change(name, changes)
    records = []
    for key, value in changes.items():
        record = ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        records.append(VersionedRecord(record, 0))
    if MIN_ISR in changes and state.has_elr:
        # Who was eligible under the old minimum may not be under the new one.
        records.append(VersionedRecord(ClearElrRecord(topic_name=name if kind == TOPIC_RESOURCE else ""), 0))
    return records


def _check_name(kind: int, name: str) -> None:
    if kind == BROKER_RESOURCE:
        if name == CLUSTER_DEFAULT:
            return
        digits = name.removeprefix("-").removeprefix("+")
        if not digits.isascii() or not digits.isdecimal() or len(digits) > MAX_ID_DIGITS:
            raise RefusedRequestError("Unable to parse broker name as a base 10 number.")
        if int(name) < 0:
            raise RefusedRequestError("Invalid negative broker ID.")
    elif not name:
        what = {TOPIC_RESOURCE: "topic", GROUP: "group"}.get(kind, "client metrics")
        raise RefusedRequestError(f"Default {what} resources are not allowed.")
    elif kind == TOPIC_RESOURCE:
        check_topic_name(name)


def _check_existence(state: ClusterState, kind: int, name: str) -> None:
    if kind == TOPIC_RESOURCE and name not in state.image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    if kind == BROKER_RESOURCE and name != CLUSTER_DEFAULT:
        known = {*state.image.brokers, *state.image.controllers, state.identity.node_id}
        if int(name) not in known:
            raise BrokerIdNotRegisteredError(f"No node with id {name} found.")
