"""The cluster as the clients of one listener see it.

A client reaches brokers by the listener that it came in on: of each broker it is told the endpoint of that name, and a
broker without one is not there for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration, is_online_directory
from tailrace.model.errors import LeaderNotAvailableError, ListenerNotFoundError
from tailrace.model.ids import DirectoryId


class SeenBroker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ListenerView:
    """Made for one request and dropped with it: it holds what the image said at that moment."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self._image = image
        self._seen: list[SeenBroker] = []
        self._reachable: set[int] = set()
        """Also fenced ones: a leader stays one until the controller says otherwise."""
        self._directories: dict[int, tuple[DirectoryId, ...]] = {}
        """Of the brokers that are reachable and not fenced."""
        for broker in image.brokers.values():
            endpoint = broker.endpoint(listener)
            if endpoint is None:
                continue
            self._seen.append(SeenBroker(broker.id, endpoint.host, endpoint.port, broker.rack, broker.is_fenced))
            self._reachable.add(broker.id)
            if not broker.is_fenced:
                self._directories[broker.id] = broker.directories

    def brokers(self, *, with_fenced: bool = False) -> list[SeenBroker]:
        return [broker for broker in self._seen if with_fenced or not broker.is_fenced]

    def leader(self, partition: PartitionRegistration) -> int:
        """Its id, NO_LEADER where there is none that these clients could reach."""
        return partition.leader if partition.leader in self._reachable else NO_LEADER

    def missing_leader_code(self, partition: PartitionRegistration) -> int:
        """Why `leader` says that there is none."""
        is_registered = partition.leader in self._image.brokers
        return ListenerNotFoundError.code if is_registered else LeaderNotAvailableError.code

    def alive(self, broker_ids: Iterable[int]) -> list[int]:
        return [broker_id for broker_id in broker_ids if broker_id in self._directories]

    def offline_replicas(self, partition: PartitionRegistration) -> list[int]:
        """Those whose broker is gone, fenced or not on this listener, or whose directory has failed."""
        offline = []
        for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
            online = self._directories.get(broker_id)
            if online is None or not is_online_directory(directory, online):
                offline.append(broker_id)
        return offline
