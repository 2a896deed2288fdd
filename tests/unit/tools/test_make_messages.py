"""The maker of message declarations, on schemas small enough to see through."""

from __future__ import annotations

from typing import Any

import pytest

from make_messages import default_text, module_text, snake, struct_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("timeoutMs", "timeout_ms"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("LastKnownElr", "last_known_elr"),
        ("IsKRaftController", "is_kraft_controller"),
        ("From", "from_"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert snake(name) == expected


@pytest.mark.parametrize(
    ("default", "kind", "expected"),
    [
        ("null", "string", "None"),
        ("-1", "int32", "-1"),
        (-1, "int64", "-1"),
        ("0x7fffffff", "int32", "0x7FFFFFFF"),
        ("true", "bool", "True"),
        (False, "bool", "False"),
        ("abc", "string", '"abc"'),
        ("0.5", "float64", "0.5"),
    ],
)
def test_defaults(default: Any, kind: str, expected: str) -> None:
    assert default_text(default, kind) == expected


def schema(name: str, **changes: Any) -> dict[str, Any]:
    topic = [
        {"name": "Name", "type": "string", "versions": "0+"},
        {"name": "Gone", "type": "int8", "versions": "0-1"},
        {"name": "Log", "type": "records", "versions": "3+", "nullableVersions": "3+"},
    ]
    fields = [
        {"name": "Topics", "type": "[]Topic", "versions": "0+", "nullableVersions": "4+", "fields": topic},
        {"name": "State", "type": "State", "versions": "3+", "tag": 0, "taggedVersions": "3+"},
        {"name": "Body", "type": "bytes", "versions": "0+", "zeroCopy": True, "ignorable": True},
    ]
    state = {"name": "State", "versions": "0+", "fields": [{"name": "Id", "type": "uuid", "versions": "3+"}]}
    return {
        "apiKey": 5,
        "name": name,
        "validVersions": "2-4",
        "flexibleVersions": "3+",
        "fields": fields,
        "commonStructs": [state],
        **changes,
    }


def test_a_module_with_names_that_clash() -> None:
    request, response = schema("SomeRequest"), schema("SomeResponse", flexibleVersions="none", fields=[])
    assert struct_names(request) == {"Topic", "State"}
    text = module_text("Some", [("Request", "Request"), ("Response", "Response")], [request, response])
    assert (
        text.partition("import Request, Response, Struct\n")[2]
        == """\
from tailrace.protocol.schema import RECORDS, STRING, UUID, VIEW, Payload, array_of, field


class Topic(Struct):
    name: str = field(STRING)
    log: Payload = field(RECORDS, "3+", nullable="3+")


class RequestState(Struct):
    id: bytes = field(UUID, "3+")


class SomeRequest(Request, key=5, versions="2-4", flexible="3+"):
    topics: list[Topic] | None = field(array_of(Topic), nullable="4+")
    state: RequestState | None = field(RequestState, "3+", tag=0)
    body: Payload = field(VIEW, ignorable=True)


class SomeResponse(Response, key=5, versions="2-4"):
    pass
"""
    )
