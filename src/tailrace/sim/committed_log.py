"""The committed metadata log of a simulated cluster: what its nodes have reported, each batch once.

A model to compare nodes with. It replays the records, and rebuilds the image of any offset from the next checkpoint
below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replacement import image_of
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord, encode_metadata_record
from tailrace.raft.voters import Voter
from tailrace.sim.event_log import Violation

CHECKPOINT_BATCHES: Final = 64
"""Between two checkpoints, whose images are also compared with those of nodes."""


@dataclass(slots=True)
class CommittedBatch:
    last_offset: int
    epoch: int
    records: list[VersionedRecord]


class CommittedLog:
    def __init__(self, voters: tuple[Voter, ...]) -> None:
        """`voters` are the first ones, configured or formatted."""
        self.batches: list[CommittedBatch] = []
        self.image = MetadataImage()
        self.voters = voters
        """Of the newest batch that has voters."""
        self.voters_since = -1
        """The offset of that batch."""
        self.voter_changes = 0
        self._indexes: dict[int, int] = {}
        self._checkpoints: list[list[VersionedRecord]] = []
        self._held_back: list[list[Record] | None] = []
        self._digests: dict[int, bytes] = {}

    @property
    def end(self) -> int:
        """The offset after the last one that any node has reported as committed."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def index_of(self, last_offset: int) -> int | None:
        """Which batch ends with the offset; −1 for the offset before the first batch."""
        return -1 if last_offset < 0 else self._indexes.get(last_offset)

    def add(
        self, last_offset: int, epoch: int, records: list[VersionedRecord], voters: tuple[Voter, ...] | None
    ) -> None:
        """`voters`: what a batch of the quorum makes the voters, if it has any."""
        if self.batches and epoch < self.batches[-1].epoch:
            raise Violation(f"offset {last_offset} is committed in epoch {epoch}, after {self.batches[-1].epoch}")
        if len(self.batches) % CHECKPOINT_BATCHES == 0:
            self._checkpoints.append(list(self.image.records()))
            self._held_back.append(None if self.image.held_back is None else list(self.image.held_back))
        self._indexes[last_offset] = len(self.batches)
        self.batches.append(CommittedBatch(last_offset, epoch, records))
        _apply(self.image, self.batches[-1])
        if voters is not None:
            self.voters, self.voters_since = voters, last_offset
            self.voter_changes += 1

    def records_since(self, count: int) -> Iterator[Record]:
        """Of all batches but the first `count`."""
        for batch in self.batches[count:]:
            for each in batch.records:
                yield each.record

    def digest_at(self, index: int) -> bytes:
        """Of the image after the batch with this index."""
        known = self._digests.get(index)
        if known is None:
            known = self._digests[index] = image_digest(
                self.image if index == len(self.batches) - 1 else self._image_at(index)
            )
        return known

    def _image_at(self, index: int) -> MetadataImage:
        number = index // CHECKPOINT_BATCHES
        image = image_of(self._checkpoints[number])
        held_back = self._held_back[number]
        image.held_back = None if held_back is None else list(held_back)
        for batch in self.batches[number * CHECKPOINT_BATCHES : index + 1]:
            _apply(image, batch)
        return image


def image_digest(image: MetadataImage) -> bytes:
    """The same for images that say the same, however they came about."""
    hashed = blake2b(digest_size=16)
    for encoded in sorted(encode_metadata_record(*each) for each in image.records()):
        hashed.update(encoded)
    return hashed.digest()


def _apply(image: MetadataImage, batch: CommittedBatch) -> None:
    delta = MetadataDelta(image)
    for each in batch.records:
        delta.replay(each.record)
    image.offset, image.epoch = batch.last_offset, batch.epoch
