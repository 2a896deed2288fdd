"""Reports to the controller in which of this broker's directories a replica is, if the metadata says otherwise.

One request is in flight at a time and carries all replicas that were reported since the last one. After an error the
next request follows PAUSE_MS later: it reports where the replicas are then, without those that the broker no longer
has. Nothing is sent before this process is registered: the metadata may list an earlier incarnation, or another broker
with the same id, whose directories are others.

A metadata.version before 3.7 has no directories of replicas: nothing is reported until it is raised.

Who may call. The broker, on the node's thread.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.lifecycle import NO_EPOCH
from tailrace.metadata.versions import has_directories
from tailrace.model.error_names import error_name
from tailrace.model.errors import NotLeaderOrFollowerError, UnknownTopicIdError, UnknownTopicOrPartitionError
from tailrace.model.ids import DirectoryId, TopicId
from tailrace.model.line_limit import LineLimit
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
_NOT_OURS: Final = (UnknownTopicIdError.code, UnknownTopicOrPartitionError.code, NotLeaderOrFollowerError.code)


class _Replica(NamedTuple):
    topic_id: TopicId
    partition: int


class ReplicaDirectories:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._unconfirmed: dict[_Replica, DirectoryId] = {}
        """The directory's id of each replica that the controller has not confirmed."""
        self._is_busy = False
        """A request is in flight, or the pause after one that failed."""
        self._lines = LineLimit()

    def report(self, topic_id: TopicId, partition: int, directory_id: DirectoryId) -> None:
        if has_directories(self._node.image.metadata_version):
            self._unconfirmed[_Replica(topic_id, partition)] = directory_id
            self._send()

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def _send(self) -> None:
        if self._is_busy or not self._unconfirmed:
            return
        self._is_busy = True
        node = self._node
        if node.broker_epoch == NO_EPOCH:
            self._send_later()
            return
        sent = dict(islice(self._unconfirmed.items(), MAX_IN_REQUEST))
        request = AssignReplicasToDirsRequest(
            broker_id=node.node_id, broker_epoch=node.broker_epoch, directories=_directories(sent)
        )
        node.controller.send(request, _VERSION, partial(self._responded, sent))

    def _responded(self, sent: dict[_Replica, DirectoryId], response: Response) -> None:
        assert isinstance(response, AssignReplicasToDirsResponse), "a response has the type of its request"
        settled = _settled(response)
        for replica in settled:
            if replica in sent and self._unconfirmed.get(replica) == sent[replica]:
                del self._unconfirmed[replica]
        if len(settled) < len(sent):
            name = error_name(response.error_code)
            if self._lines.is_due(name, self._node.env.clock.monotonic_ms()):
                left = len(sent) - len(settled)
                _log.warning("directories of replicas are not assigned yet replicas=%d error=%s", left, name)
            self._send_later()
        else:
            self._lines.reset()
            self._send_next()

    def _send_later(self) -> None:
        self._node.env.jobs.later("replica-directories", PAUSE_MS, self._send_next)

    def _send_next(self) -> None:
        self._is_busy = False
        self._send()


def _directories(sent: dict[_Replica, DirectoryId]) -> list[RequestDirectoryData]:
    directories: dict[DirectoryId, RequestDirectoryData] = {}
    topics: dict[tuple[DirectoryId, TopicId], RequestTopicData] = {}
    for replica, directory_id in sent.items():
        topic = topics.get((directory_id, replica.topic_id))
        if topic is None:
            topic = topics[directory_id, replica.topic_id] = RequestTopicData(topic_id=replica.topic_id)
            directories.setdefault(directory_id, RequestDirectoryData(id=directory_id)).topics.append(topic)
        topic.partitions.append(RequestPartitionData(partition_index=replica.partition))
    return list(directories.values())


def _settled(response: AssignReplicasToDirsResponse) -> set[_Replica]:
    """The replicas that need not be reported again."""
    if response.error_code:
        return set()
    return {
        _Replica(TopicId(topic.topic_id), partition.partition_index)
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.error_code or partition.error_code in _NOT_OURS
    }
