"""What a declared message is to those who use it: a plain value with the fields of all versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tailrace.protocol.apis import APIS
from tailrace.protocol.layout import least_bytes, version_of
from tailrace.protocol.message import Request, Struct
from tailrace.protocol.messages.create_topics import CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tailrace.protocol.messages.share_fetch import PartitionData as SharePartitionData
from tailrace.protocol.schema import INT32, STRING, UUID, ArrayOf, array_of, field, in_versions, version_range


def test_fields_have_the_defaults_of_the_schema() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.rack_id, request.topics) == (-1, 0x7FFFFFFF, "", [])
    assert CreateTopicsRequest().timeout_ms == 60_000
    assert request.cluster_id is None
    assert FetchTopic().topic_id == bytes(16)


def test_defaults_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    assert second.topics == []
    one, other = SharePartitionData(), SharePartitionData()
    one.current_leader.leader_id = 5
    assert other.current_leader.leader_id != 5


def test_a_tagged_struct_that_is_not_sent_is_none() -> None:
    assert PartitionData().diverging_epoch is None
    assert PartitionData().records is None


def test_is_made_by_keywords_only() -> None:
    with pytest.raises(TypeError):
        FetchTopic("orders")  # type: ignore[misc]
    with pytest.raises(TypeError):
        FetchTopic(name="orders")  # type: ignore[call-arg]


def test_has_slots() -> None:
    with pytest.raises(AttributeError):
        FetchTopic().name = "orders"  # type: ignore[attr-defined]


def test_compares_by_value_and_kind() -> None:
    def request(offset: int) -> FetchRequest:
        partition = FetchPartition(partition=1, fetch_offset=offset)
        return FetchRequest(topics=[FetchTopic(topic="orders", partitions=[partition])])

    assert request(5) == request(5)
    assert request(5) != request(6)
    assert FetchRequest() != FetchResponse()
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_prints_what_differs_from_the_defaults() -> None:
    topic = FetchTopic(topic_id=bytes(range(16)), partitions=[FetchPartition(partition=1)])
    assert repr(topic) == "FetchTopic(topic_id=AAECAwQFBgcICQoLDA0ODw, partitions=[FetchPartition(partition=1)])"
    assert repr(PartitionData(records=memoryview(b"\x01" * 40))) == f"PartitionData(records=<40 bytes {'01' * 32}…>)"


def test_a_struct_without_fields_is_a_value_too() -> None:
    class Nothing(Struct):
        pass

    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"


@pytest.mark.parametrize(
    ("text", "bounds"), [("", None), ("3", (3, 3)), ("3-5", (3, 5)), ("3+", (3, 0x7FFF)), ("0+", (0, 0x7FFF))]
)
def test_ranges_of_versions(text: str, bounds: tuple[int, int] | None) -> None:
    assert version_range(text) == bounds


@pytest.mark.parametrize("text", ["x", "3-", "-3", "3..5", "3+5"])
def test_a_wrong_range_is_refused_when_declared(text: str) -> None:
    with pytest.raises(TypeError):
        version_range(text)


def test_versions_include_their_ends() -> None:
    assert [version for version in range(8) if in_versions(version, "3-5")] == [3, 4, 5]


def structs_of(struct: type[Struct]) -> Iterator[type[Struct]]:
    """The struct itself and all that its fields are made of."""
    yield struct
    for f in struct.__fields__:
        inner = f.type.element if isinstance(f.type, ArrayOf) else f.type
        if isinstance(inner, type):
            yield from structs_of(inner)


def test_no_element_of_an_array_takes_no_bytes() -> None:
    """Otherwise a length could not be held against the bytes that follow it."""
    for api in APIS.values():
        for message in (api.request, api.response):
            for number in range(message.VERSIONS[0], message.VERSIONS[1] + 1):
                version = version_of(message, number)
                for struct in structs_of(message):
                    for f in struct.__fields__:
                        if isinstance(f.type, ArrayOf) and in_versions(number, f.versions):
                            assert least_bytes(f.type.element, version) > 0, (message, number, f.name)


def test_the_least_size_counts_every_field() -> None:
    class Item(Struct):
        number: int = field(INT32)
        name: str = field(STRING, "1+")
        identity: bytes = field(UUID, "2+")
        parts: list[int] = field(array_of(INT32), "2+")

    class Some(Request, key=99, versions="0-3", flexible="3+"):
        items: list[Item] = field(array_of(Item))

    assert [least_bytes(Item, version_of(Some, number)) for number in range(4)] == [4, 6, 26, 4 + 1 + 16 + 1 + 1]
