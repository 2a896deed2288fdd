"""Replays of metadata logs, as cluster tests compare them: they agree unless something differs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clusters.metadata_replay import Replay, disagreements
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.raft.voters import Voter

VOTERS = (Voter(1), Voter(2), Voter(3))


def replayed(setting: str = "1") -> Replay:
    image = MetadataImage()
    record = ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=setting)
    MetadataDelta(image).replay(record)
    return Replay(image, VOTERS, {5: (1, ("a",)), 9: (2, ("b",))})


def test_equal_replays_agree_even_if_one_log_was_trimmed() -> None:
    assert list(disagreements({1: replayed(), 2: replayed(), 3: replayed()._replace(batches={9: (2, ("b",))})})) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda other: replayed("2"), "the images of nodes 1 and 2 differ"),
        (lambda other: other._replace(voters=VOTERS[:2]), "voters"),
        (lambda other: other._replace(batches={5: (1, ("a",)), 9: (3, ("b",))}), "differ at offset 9"),
        (lambda other: other._replace(batches={5: (1, ("c",)), 9: (2, ("b",))}), "differ at offset 5"),
        (lambda other: other._replace(batches={}), "no batch in common"),
    ],
)
def test_each_difference_is_reported(change: Callable[[Replay], Replay], text: str) -> None:
    (found,) = disagreements({1: replayed(), 2: change(replayed())})
    assert text in found
