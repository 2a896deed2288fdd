from __future__ import annotations

import pickle
from typing import Final
from uuid import UUID

import pytest

from tailrace.model.ids import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ZERO_DIRECTORY_ID,
    ZERO_TOPIC_ID,
    DirectoryId,
    TopicId,
    Uuid,
)

TEXT: Final = "dp_vzmL5QQGAyPhHLl-m9g"
RAW: Final = bytes.fromhex("769fefce62f9410180c8f8472e5fa6f6")
KINDS: Final = (Uuid, TopicId, DirectoryId)


@pytest.mark.parametrize("kind", KINDS)
def test_parse_returns_an_id_of_the_class_that_parses(kind: type[Uuid]) -> None:
    found = kind.parse(TEXT)
    assert type(found) is kind
    assert bytes(found) == RAW
    assert type(kind.of(UUID(bytes=RAW))) is kind
    assert kind.of(UUID(bytes=RAW)) == found


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_prints_as_22_characters_of_url_safe_base64(kind: type[Uuid]) -> None:
    found = kind(RAW)
    assert (str(found), f"{found}", "%s" % found) == (TEXT, TEXT, TEXT)  # noqa: UP031
    assert repr(found) == f"{kind.__name__}.parse('{TEXT}')"


def test_parse_allows_padding() -> None:
    assert TopicId.parse(TEXT + "==") == TopicId(RAW)


@pytest.mark.parametrize("text", ["", TEXT[:-1], TEXT + "AAAA", TEXT[:-1] + "!", "A" * 1_000_000])
def test_parse_refuses_other_texts(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        DirectoryId.parse(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("size", [0, 15, 17])
def test_an_id_of_another_size_than_16_bytes_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"not {size}"):
        TopicId(bytes(size))


def test_ids_are_equal_and_hashed_by_value() -> None:
    assert TopicId(RAW) == TopicId(bytes(bytearray(RAW))) == RAW
    assert TopicId(RAW) != TopicId(bytes(16))
    assert {TopicId(RAW): 1}[TopicId(RAW)] == 1
    assert {(RAW, 0): 1}[TopicId(RAW), 0] == 1


def test_a_pickled_id_keeps_its_class() -> None:
    found = pickle.loads(pickle.dumps(DirectoryId(RAW)))
    assert type(found) is DirectoryId
    assert found == RAW


def test_an_id_has_no_attributes() -> None:
    with pytest.raises(AttributeError):
        TopicId(RAW).name = ""  # type: ignore[attr-defined]


def test_reserved_directory_ids_are_those_of_kafka() -> None:
    assert bytes(ZERO_TOPIC_ID) == bytes(ZERO_DIRECTORY_ID) == bytes(MIGRATING_DIRECTORY) == bytes(16)
    assert str(UNASSIGNED_DIRECTORY) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert str(LOST_DIRECTORY) == "AAAAAAAAAAAAAAAAAAAAAg"


def test_the_lowest_100_directory_ids_are_reserved() -> None:
    assert DirectoryId((99).to_bytes(16, "big")).is_reserved
    assert not DirectoryId((100).to_bytes(16, "big")).is_reserved
    assert not DirectoryId((1 << 127).to_bytes(16, "big")).is_reserved
