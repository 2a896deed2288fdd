"""The loader keeps the committed image, and passes events on in a fixed order."""

from __future__ import annotations

from typing import Any

import pytest

from support.metadata.quorum import topic
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import InconsistentMetadataError, StorageError, TailraceError, UnsupportedVersionError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import NoOpRecord
from tailrace.protocol.records.topics import RemoveTopicRecord
from tailrace.raft.metadata_loader import MetadataLoader


class Controller:
    """Writes down what it is notified of, with the offset of the image at that moment."""

    def __init__(self, loader: MetadataLoader) -> None:
        self.loader = loader
        self.events: list[Any] = []
        self.refusal: TailraceError | None = None
        loader.controller = self

    def prepare(self, image: MetadataImage) -> str:
        return f"{len(image.topics)} topics"

    def loaded(self, prepared: str, delta: MetadataDelta) -> None:
        self.events.append(("loaded", prepared, delta.image.offset))

    def committed(self, records: Any, delta: MetadataDelta, last_offset: int, epoch: int, timestamp_ms: int) -> None:
        self.events.append(("committed", len(records), last_offset, self.loader.image.offset))

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.events.append(("leader", leader_id, epoch))

    def became_leader(self, epoch: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.events.append(("active", epoch))

    def resigned(self) -> None:
        self.events.append("resigned")

    def failed(self, error: TailraceError) -> None:
        self.events.append(error)


@pytest.fixture
def failures() -> list[TailraceError]:
    return []


@pytest.fixture
def loader(failures: list[TailraceError]) -> MetadataLoader:
    return MetadataLoader(failures.append)


def test_the_controller_is_notified_before_the_delta_is_published(loader: MetadataLoader) -> None:
    controller = Controller(loader)
    loader.on_changed.add(lambda delta: controller.events.append(sorted(delta.touched_topics())))
    loader.leader_changed(1, 4)
    loader.became_leader(4)
    loader.committed([topic("t")], 3, 4, 9)
    loader.committed([VersionedRecord(NoOpRecord(), 0)], 4, 4, 9)
    loader.resigned()
    loader.loaded(loader.prepare(iter([topic("u")])), 8, 5, 9)
    assert controller.events == [
        ("leader", 1, 4),
        ("active", 4),
        ("committed", 1, 3, 3),
        ["t"],
        ("committed", 1, 4, 4),
        "resigned",
        ("loaded", "1 topics", 8),
        ["t", "u"],
    ]
    assert (loader.image.offset, loader.image.epoch, loader.image.timestamp_ms) == (8, 5, 9)


def test_a_node_without_a_controller_follows_the_metadata(loader: MetadataLoader) -> None:
    deltas: list[MetadataDelta] = []
    loader.on_changed.add(deltas.append)
    loader.leader_changed(7, 2)
    loader.committed([topic("t")], 3, 2, 9)
    loader.became_leader(3)
    loader.resigned()
    assert [each.touched_topics() for each in deltas] == [{"t"}]


def test_a_controller_that_cannot_become_active_stops_the_process(
    loader: MetadataLoader, failures: list[TailraceError]
) -> None:
    controller = Controller(loader)
    controller.refusal = UnsupportedVersionError("metadata.version 31")
    loader.became_leader(1)
    assert failures == controller.events == [controller.refusal]


def test_a_failed_log_stops_the_process(loader: MetadataLoader, failures: list[TailraceError]) -> None:
    error = StorageError("sync", OSError(5, "Input/output error"))
    loader.failed(error)
    controller = Controller(loader)
    loader.failed(error)
    assert failures == [error, error]
    assert controller.events == [error]


def test_records_that_contradict_the_image_are_an_error(loader: MetadataLoader) -> None:
    with pytest.raises(InconsistentMetadataError):
        loader.committed([VersionedRecord(RemoveTopicRecord(topic_id=b"x" * 16), 0)], 3, 1, 0)
