"""Recordings of responses: saving, loading, and comparing. A stale recording and a wrong response are both found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.kafka.exchanges import Exchange
from support.kafka.recordings import StaleRecordingError, changes, disagreements, load, recorded_series, save

GOOD = [
    Exchange("first", "aa", {"error_code": 0, "names": ["x"]}),
    Exchange("second", "bb", "closed"),
    Exchange("third", "cc", {"error_code": 0, "names": ["x"]}),
    Exchange("first", "dd", {"error_code": 3, "names": []}),
    Exchange("fourth", "ee", {"error_code": 3, "names": []}),
]


def with_response(name: str, response: Any) -> list[Exchange]:
    return [each._replace(response=response) if each.name == name else each for each in GOOD]


def test_load_returns_what_was_saved(tmp_path: Path) -> None:
    save("groups/some", GOOD, tmp_path)
    assert load("groups/some", tmp_path) == GOOD
    assert recorded_series(tmp_path) == {"groups/some"}


def test_each_response_is_stored_once(tmp_path: Path) -> None:
    save("some", GOOD, tmp_path)
    lines = (tmp_path / "some.jsonl").read_text().splitlines()
    assert lines[2] == '["third", "cc", {"same as": "first"}]'
    # A reference means the first exchange of a name, so the response of the second "first" is stored twice.
    assert [line.count("error_code") for line in lines] == [1, 0, 0, 1, 1]


def test_load_without_a_recording_raises(tmp_path: Path) -> None:
    with pytest.raises(StaleRecordingError, match="make record-kafka"):
        load("nothing", tmp_path)


def test_the_same_exchanges_agree() -> None:
    assert disagreements("some", GOOD, GOOD, set()) == []
    assert changes("some", GOOD, GOOD) == []


def test_a_response_that_differs_is_reported() -> None:
    (found,) = disagreements("groups/some", GOOD, with_response("third", {"error_code": 7, "names": ["x"]}), set())
    assert found == "some: third, error_code:\n  Kafka 0\n  ours  7"


@pytest.mark.parametrize(
    "ours",
    [GOOD[:-1], [*GOOD, GOOD[0]], [GOOD[0]._replace(request="xx"), *GOOD[1:]], [GOOD[1], GOOD[0], *GOOD[2:]]],
    ids=["one request less", "one request more", "another request", "another order"],
)
def test_requests_that_differ_from_the_recording_are_reported(ours: list[Exchange]) -> None:
    (found,) = disagreements("some", GOOD, ours, set())
    assert "make record-kafka" in found
    (found,) = changes("some", GOOD, ours)
    assert "make record-kafka" in found


def test_responses_are_compared_up_to_the_first_request_that_differs() -> None:
    wrong = [*with_response("second", "silence")[:2], GOOD[2]._replace(request="xx"), *GOOD[3:]]
    first, second = disagreements("some", GOOD, wrong, set())
    assert first.startswith("second, :")
    assert "make record-kafka" in second


def test_a_changed_response_of_kafka_is_reported() -> None:
    (found,) = changes("some", GOOD, with_response("second", "silence"))
    assert "closed or silence" in found


@pytest.mark.parametrize("words", [("words", None), (None, "words")])
def test_a_message_that_kafka_added_or_dropped_is_reported(words: tuple[str | None, str | None]) -> None:
    before, after = ([Exchange("some", "aa", {"error_message": each})] for each in words)
    assert changes("some", before, before) == []
    assert len(changes("some", before, after)) == 1


def test_known_differences_do_not_change_a_recording(tmp_path: Path) -> None:
    """The high watermark of the quorum differs from run to run."""
    name = "DescribeQuorum v1 the quorum"
    before, after, other = (
        [Exchange(name, "aa", {"topics": [{"partitions": [{"high_watermark": mark, "leader_id": leader}]}]})]
        for mark, leader in ((10, 1), (20, 1), (20, 2))
    )
    save("some", before, tmp_path)
    save("some", after, tmp_path)
    assert load("some", tmp_path) == before
    save("some", other, tmp_path)
    assert load("some", tmp_path) == other
