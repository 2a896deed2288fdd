"""Recorded responses of Apache Kafka to the requests of the tests, so that a comparison needs no running Kafka.

The recording of a series of exchanges is `tests/golden/responses/kafka-4.3.1/SERIES.jsonl`: a JSON array per exchange,
with its name, the fingerprint of its request, and the brief shape of the response. A response that an earlier exchange
already had is `{"same as": NAME}`. `make record-kafka` writes all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from support.kafka.exchanges import Exchange
from support.requests.known_differences import Known, unexpected
from support.requests.response_values import Shape, differences

TESTS = next(each for each in Path(__file__).resolve().parents if each.name == "tests")
FOLDER = TESTS / "golden" / "responses" / "kafka-4.3.1"
SAME_AS = "same as"
RECORD_AGAIN = "if the requests of the test have changed, record the responses again: make record-kafka"


class StaleRecordingError(AssertionError):
    """A series of requests has no recording."""


def load(series: str, folder: Path = FOLDER) -> list[Exchange]:
    path = folder / f"{series}.jsonl"
    if not path.exists():
        raise StaleRecordingError(f"no recording {path.name}; {RECORD_AGAIN}")
    found: list[Exchange] = []
    responses: dict[str, Shape] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, request, response = json.loads(line)
        if isinstance(response, dict) and list(response) == [SAME_AS]:
            response = responses[response[SAME_AS]]
        responses.setdefault(name, response)
        found.append(Exchange(name, request, response))
    return found


def save(series: str, exchanges: Iterable[Exchange], folder: Path = FOLDER) -> None:
    """Keep recorded responses that differ from the new ones only as `support.requests.known_differences` says."""
    path = folder / f"{series}.jsonl"
    before = {each[:2]: each for each in load(series, folder)} if path.exists() else {}
    kept = [_either(series, before.get(each[:2]), each) for each in exchanges]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in _lines(kept)), encoding="utf-8")


def _either(series: str, recorded: Exchange | None, now: Exchange) -> Exchange:
    return recorded if recorded is not None and not _changed(series, recorded, now) else now


def _lines(exchanges: Iterable[Exchange]) -> Iterator[str]:
    first_with: dict[str, str] = {}  # by response, the name under which it is found
    names: set[str] = set()
    for name, request, response in exchanges:
        text = json.dumps(response, ensure_ascii=False)
        same = {SAME_AS: first_with[text]} if text in first_with and isinstance(response, dict) else response
        if name not in names:
            names.add(name)
            first_with.setdefault(text, name)
        yield json.dumps([name, request, same], ensure_ascii=False)


def recorded_series(folder: Path = FOLDER) -> set[str]:
    return {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.jsonl")}


def disagreements(series: str, kafka: Sequence[Exchange], ours: Sequence[Exchange], seen: set[Known]) -> list[str]:
    """Differences between our responses and Kafka's. Known differences go to `seen` instead.

    The comparison ends at the first request that differs: responses to different requests cannot be compared.
    """
    found: list[str] = []
    for theirs, own in zip_longest(kafka, ours):
        if theirs is None or own is None or theirs[:2] != own[:2]:
            found.append(f"{series}: Kafka received {_request(theirs)}, we received {_request(own)}; {RECORD_AGAIN}")
            break
        case = _case(series, own.name)
        found += [
            f"{case}, {path}:\n  Kafka {expected}\n  ours  {got}"
            for path, expected, got in unexpected(case, differences(theirs.response, own.response), seen)
        ]
    return found


def changes(series: str, recorded: Sequence[Exchange], now: Sequence[Exchange]) -> list[str]:
    """Differences between the responses of a running Kafka and the recorded ones."""
    found: list[str] = []
    for before, after in zip_longest(recorded, now):
        if before is None or after is None or before[:2] != after[:2]:
            found.append(f"{series}: recorded {_request(before)}, now {_request(after)}; {RECORD_AGAIN}")
            break
        found += [f"{line}; {RECORD_AGAIN}" for line in _changed(series, before, after)]
    return found


def _changed(series: str, before: Exchange, after: Exchange) -> list[str]:
    """`differences` lets a message for people appear, so both ways are looked at."""
    case = _case(series, before.name)
    for one, other in ((before, after), (after, before)):
        if found := unexpected(case, differences(one.response, other.response), set()):
            return [f"{case}, {path}: {was} or {now}" for path, was, now in found]
    return []


def _request(exchange: Exchange | None) -> str:
    return "nothing" if exchange is None else f"{exchange.name!r} ({exchange.request})"


def _case(series: str, name: str) -> str:
    """The name of an exchange in `support.requests.known_differences`: with its conversation, if it is part of one."""
    folder, _, conversation = series.rpartition("/")
    return f"{conversation}: {name}" if folder else name
