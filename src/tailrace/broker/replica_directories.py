"""Tells the controller in which of this broker's directories a replica is, where it does not know yet.

One request is under way at a time and carries what has gathered meanwhile. What fails is told again after a pause; a
replica that has moved on by then is told of where it is, and one that is not ours any more is forgotten.

Who may call. The broker, on the node's thread.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.model.errors import NotLeaderOrFollowerError, UnknownTopicIdError, UnknownTopicOrPartitionError
from tailrace.model.ids import TopicId
from tailrace.protocol.message import Response
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

MAX_IN_REQUEST: Final = 2000
PAUSE_MS: Final = 1000
_VERSION: Final = 0
_NO_EPOCH: Final = -1
_NOT_OURS: Final = (UnknownTopicIdError.code, UnknownTopicOrPartitionError.code, NotLeaderOrFollowerError.code)


class _Replica(NamedTuple):
    topic_id: bytes
    partition: int


class ReplicaDirectories:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._untold: dict[_Replica, bytes] = {}
        """The directory's id of each replica that the controller has not confirmed."""
        self._is_busy = False
        """A request is under way, or the pause after one that failed."""

    def report(self, topic_id: TopicId, partition: int, directory_id: TopicId) -> None:
        self._untold[_Replica(topic_id.raw, partition)] = directory_id.raw
        self._send()

    def __len__(self) -> int:
        return len(self._untold)

    def _send(self) -> None:
        if self._is_busy or not self._untold:
            return
        self._is_busy = True
        told = dict(islice(self._untold.items(), MAX_IN_REQUEST))
        node = self._node
        broker = node.image.brokers.get(node.node_id)
        request = AssignReplicasToDirsRequest(
            broker_id=node.node_id,
            broker_epoch=_NO_EPOCH if broker is None else broker.epoch,
            directories=_directories(told),
        )
        node.controller.send(request, _VERSION, partial(self._answered, told))

    def _answered(self, told: dict[_Replica, bytes], response: Response) -> None:
        settled = _settled(response)
        for replica in settled:
            if replica in told and self._untold.get(replica) == told[replica]:
                del self._untold[replica]
        if len(settled) < len(told):
            _log.warning("%d replicas' directories are still to be told to the controller", len(told) - len(settled))
            self._node.env.jobs.later("replica-directories", PAUSE_MS, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self._is_busy = False
        self._send()


def _directories(told: dict[_Replica, bytes]) -> list[RequestDirectoryData]:
    directories: dict[bytes, RequestDirectoryData] = {}
    topics: dict[tuple[bytes, bytes], RequestTopicData] = {}
    for replica, directory_id in told.items():
        topic = topics.get((directory_id, replica.topic_id))
        if topic is None:
            topic = topics[directory_id, replica.topic_id] = RequestTopicData(topic_id=replica.topic_id)
            directories.setdefault(directory_id, RequestDirectoryData(id=directory_id)).topics.append(topic)
        topic.partitions.append(RequestPartitionData(partition_index=replica.partition))
    return list(directories.values())


def _settled(response: Response) -> set[_Replica]:
    """The replicas that need not be told again."""
    if not isinstance(response, AssignReplicasToDirsResponse) or response.error_code:
        return set()
    return {
        _Replica(topic.topic_id, partition.partition_index)
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.error_code or partition.error_code in _NOT_OURS
    }
