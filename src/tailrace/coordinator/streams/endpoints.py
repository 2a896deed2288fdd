"""Which partitions are where: what an instance of an application has to know to pass a question on to another.

Members say where their application answers; each is told of all, when something has changed since it heard last.

An instance has one endpoint and several threads, which are members of their own. Kafka 4.3.1 has a row for each of
them, of which clients keep the last; here an endpoint has one row, with the partitions of all its threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tailrace.coordinator.streams.configured import ConfiguredSubtopology
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.member import StreamsMember, UserEndpoint
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.messages.streams_group_heartbeat import EndpointToPartitions, ResponseEndpoint, TopicPartition

_Partitions = dict[str, set[int]]
"""By topic."""


class _Places(NamedTuple):
    active: _Partitions
    standby: _Partitions


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, image: MetadataImage
) -> list[EndpointToPartitions]:
    """Of the group with `updated` in it."""
    subtopologies = {} if group.configured is None else group.configured.subtopologies
    found: dict[UserEndpoint, _Places] = {}
    for member in {**group.members, updated.id: updated}.values():
        if member.endpoint is not None:
            places = found.setdefault(member.endpoint, _Places({}, {}))
            _add(places.active, member.owned.active, subtopologies, image)
            _add(places.standby, member.owned.standby, subtopologies, image)
    return [
        EndpointToPartitions(
            user_endpoint=ResponseEndpoint(host=endpoint.host, port=endpoint.port),
            active_partitions=_rows(places.active),
            standby_partitions=_rows(places.standby),
        )
        for endpoint, places in found.items()
    ]


def _add(
    partitions: _Partitions,
    tasks: Mapping[str, Collection[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    image: MetadataImage,
) -> None:
    """Of all source topics of the tasks; a narrow one has no partition for the last tasks."""
    for key, indexes in tasks.items():
        subtopology = subtopologies.get(key)
        for name in () if subtopology is None else subtopology.sources:
            topic = image.topics.get(name)
            if topic is not None:
                count = len(topic.partitions)
                partitions.setdefault(name, set()).update(index for index in indexes if index < count)


def _rows(partitions: _Partitions) -> list[TopicPartition]:
    return [TopicPartition(topic=name, partitions=sorted(indexes)) for name, indexes in sorted(partitions.items())]
