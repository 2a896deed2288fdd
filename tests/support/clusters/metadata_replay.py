"""The metadata that a stopped node has on its disk: a replay of its newest snapshot and of its log.

Two nodes agree if their replays up to one committed offset give the same image, voters included, and if every batch
that both have in their logs is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tailrace.config.quorum import QuorumConfig
from tailrace.env.real import real_env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replacement import image_of
from tailrace.protocol.record_frame import encode_metadata_record
from tailrace.raft.metadata_log import MetadataBatch, MetadataLog, load
from tailrace.raft.voter_history import StoredVoters, VoterHistory
from tailrace.raft.voters import Voter


class Replay(NamedTuple):
    image: MetadataImage
    voters: tuple[Voter, ...]
    batches: Mapping[int, tuple[int, tuple[str, ...]]]
    """Epoch and contents of each batch of the log, by its last offset. NoOp records are among them."""

    @property
    def records(self) -> list[bytes]:
        return [encode_metadata_record(*each) for each in self.image.records()]


def replay(data_directory: Path, end_offset: int) -> Replay:
    """Everything below `end_offset`, which is committed. The node does not run."""
    log = load(real_env(), str(data_directory), QuorumConfig())
    try:
        usable = [each for each in log.snapshots if 0 < each.offset <= end_offset]
        start = 0
        image = MetadataImage()
        if usable:
            image, start = image_of(log.reader(usable[-1]).records()), usable[-1].offset
        delta = MetadataDelta(image)
        for batch in log.batches(start, end_offset):
            for each in batch.records:
                delta.replay(each.record)
        voters = VoterHistory((), StoredVoters.read(log)).below(end_offset).voters
        found = {batch.last_offset: contents(batch) for batch in _all_batches(log, end_offset)}
        return Replay(image, voters, found)
    finally:
        log.log.abandon()


def _all_batches(log: MetadataLog, end_offset: int) -> Iterator[MetadataBatch]:
    return log.batches(log.log.log_start_offset, end_offset)


def contents(batch: MetadataBatch) -> tuple[int, tuple[str, ...]]:
    records = (encode_metadata_record(*each).hex() for each in batch.records)
    return batch.epoch, (*map(str, batch.controls), *records)


def disagreements(replays: Mapping[int, Replay]) -> Iterator[str]:
    """Between the first node and each other one."""
    (first_id, first), *others = replays.items()
    for node_id, other in others:
        if other.records != first.records:
            yield f"the images of nodes {first_id} and {node_id} differ"
        if other.voters != first.voters:
            yield f"node {first_id} has voters {first.voters}, node {node_id} {other.voters}"
        both = first.batches.keys() & other.batches.keys()
        different = sorted(offset for offset in both if first.batches[offset] != other.batches[offset])
        if not both:
            yield f"the logs of nodes {first_id} and {node_id} have no batch in common"
        if different:
            yield f"the logs of nodes {first_id} and {node_id} differ at offset {different[0]}"
