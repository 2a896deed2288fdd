"""CreateTopics. All topics of a request that can be created are created, in one batch; the others have an error each.

TopicRecord, ConfigRecord…, PartitionRecord…      for each topic
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tailrace.controller.config_rules import check_overrides, described
from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_partitions, check_records
from tailrace.controller.new_partitions import chosen, named
from tailrace.controller.state import ClusterState
from tailrace.metadata.image import CLUSTER_DEFAULT, TOPIC_RESOURCE
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.topic_names import check_topic_name, has_collision_characters, unified_name
from tailrace.model.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    RefusedRequestError,
    TailraceError,
    TopicAlreadyExistsError,
)
from tailrace.model.ids import version_4
from tailrace.model.internal_topics import CLUSTER_METADATA
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import TopicRecord

_FIRST_WITH_CONFIGS: Final = 5
"""Version whose answer lists the settings of a new topic."""


def create_topics(state: ClusterState, request: CreateTopicsRequest, version: int) -> Decision:
    """Raises PolicyViolationError where the request as a whole asks for too much."""
    counts = Counter(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA]
    check_partitions(sum(_partitions_asked_for(state, topic) for topic in topics))
    results, records = [], list[VersionedRecord]()
    descriptions = _Descriptions(state) if version >= _FIRST_WITH_CONFIGS else None
    for topic in topics:
        try:
            result, made = _created(state, topic, descriptions)
            check_records(range(len(records) + len(made)))
            results.append(result)
            records += made
        except (
            InvalidConfigError,
            InvalidPartitionsError,
            InvalidReplicaAssignmentError,
            InvalidReplicationFactorError,
            InvalidTopicError,
            RefusedRequestError,
            TopicAlreadyExistsError,
        ) as error:
            results.append(_refused(topic.name, error))
    for name, count in counts.items():
        if count > 1:
            results.append(_refused(name, RefusedRequestError("Duplicate topic name.")))
        elif name == CLUSTER_METADATA:
            results.append(_refused(name, RefusedRequestError(f"Creation of internal topic {name} is prohibited.")))
    return Decision(CreateTopicsResponse(topics=results), () if request.validate_only else records)


def _partitions_asked_for(state: ClusterState, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return state.config.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _refused(name: str, error: TailraceError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))


class _Descriptions:
    """The settings of new topics, made once for all topics of a request that have the same overrides."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._made: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(overrides.items())
        if key not in self._made:
            image, own = self._state.image, str(self._state.identity.node_id)
            layers = image.broker_config(CLUSTER_DEFAULT), image.broker_config(own)
            self._made[key] = described(self._state.settings, overrides, *layers)
        return self._made[key]


def _created(
    state: ClusterState, topic: CreatableTopic, descriptions: _Descriptions | None
) -> tuple[CreatableTopicResult, list[VersionedRecord]]:
    _check_name(state, topic.name)
    overrides = _overrides(topic)
    partitions = _assigned(state, topic) if topic.assignments else _placed(state, topic)
    topic_id = new_topic_id(state)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=None if descriptions is None else descriptions.of(overrides),
    )
    records = [VersionedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0)]
    for key, value in overrides.items():
        record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=key, value=value)
        records.append(VersionedRecord(record, 0))
    level = state.image.metadata_version
    records += (partition.to_record(topic_id, index, level) for index, partition in enumerate(partitions))
    return result, records


def new_topic_id(state: ClusterState) -> bytes:
    """A random one. Kafka keeps those that begin with zeros or a dash (in its base64) for itself or out of the way."""
    while True:
        raw = version_4(state.random.getrandbits(128))
        if raw[0] >> 2 != 62 and raw not in state.image.topics_by_id:
            return raw


def _check_name(state: ClusterState, name: str) -> None:
    if name in state.image.topics:
        raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
    check_topic_name(name)
    if has_collision_characters(name):
        colliding = state.colliding.get(unified_name(name))
        if colliding:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {next(iter(colliding))}")


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    if overrides:
        check_overrides(TOPIC_RESOURCE, topic.name, overrides)
    return overrides


def _assigned(state: ClusterState, topic: CreatableTopic) -> list[PartitionRegistration]:
    if topic.replication_factor != -1:
        raise RefusedRequestError(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != -1:
        raise RefusedRequestError("A manual partition assignment was specified, but numPartitions was not set to -1.")
    partitions: dict[int, PartitionRegistration] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in partitions:
            raise InvalidReplicaAssignmentError(f"Found multiple manual partition assignments for partition {index}")
        partitions[index] = named(state, index, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
    if set(partitions) != set(range(len(partitions))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    return [partitions[index] for index in range(len(partitions))]


def _placed(state: ClusterState, topic: CreatableTopic) -> list[PartitionRegistration]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    config = state.config
    count = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    replication_factor = (
        config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    )
    try:
        return chosen(state, count, replication_factor)
    except InvalidReplicationFactorError as error:
        if str(error).startswith("Unable"):
            raise
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): {error}"
        ) from None
