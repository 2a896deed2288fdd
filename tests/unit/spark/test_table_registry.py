"""Schemas from a registry's REST interface, and from a folder."""

from __future__ import annotations

import base64
import http.client
import json
import pickle
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.values.folder_registry import FolderRegistry
from tailrace.spark.tables.values.framing import framed
from tailrace.spark.tables.values.http_registry import HttpRegistry
from tailrace.spark.tables.values.registry import RegistryError, registry_at
from tailrace.spark.tables.values.spec import ValueSpec

NO_SCHEMA = (404, {"error_code": 40403, "message": "Schema 9 not found"})
NO_PATH = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})


class FakeRegistry:
    """Answers as it is told; a list of answers is given one after the other, the last one for good."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Authorization")))
                answer = registry.answers.get(self.path, NO_PATH)
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                status, content = answer if isinstance(answer, tuple) else (200, answer)
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.address = f"127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def _of(server: FakeRegistry, pauses: list[float] | None = None, user: str = "") -> HttpRegistry:
    return HttpRegistry(f"http://{user}{server.address}/", ([] if pauses is None else pauses).append)


def test_a_schema_with_all_it_refers_to(server: FakeRegistry) -> None:
    server.answers = {
        "/schemas/ids/7": {
            "schemaType": "PROTOBUF",
            "schema": "main",
            "references": [{"name": "a.proto", "subject": "s/a", "version": 2}],
        },
        "/subjects/s%2Fa/versions/2": {
            "schema": "first",
            "references": [
                {"name": "b.proto", "subject": "b", "version": 1},
                {"name": "a.proto", "subject": "s/a", "version": 2},
            ],
        },
        "/subjects/b/versions/1": {"schema": "second"},
    }
    found = _of(server).schema(7)
    assert found is not None
    assert (found.id, found.kind, found.text) == (7, "PROTOBUF", "main")
    assert dict(found.references) == {"a.proto": "first", "b.proto": "second"}


def test_a_schema_without_a_type_is_avro(server: FakeRegistry) -> None:
    server.answers = {"/schemas/ids/1": {"schema": '"string"'}}
    found = _of(server).schema(1)
    assert found is not None
    assert found.kind == "AVRO"


def test_an_unknown_id_is_none_and_a_wrong_address_an_error(server: FakeRegistry) -> None:
    server.answers = {"/schemas/ids/9": NO_SCHEMA}
    registry = _of(server)
    assert registry.schema(9) is None
    with pytest.raises(RegistryError, match="404"):
        registry.schema(8)


def test_trouble_is_tried_again(server: FakeRegistry) -> None:
    server.answers = {"/schemas/ids/1": [(500, {}), (429, b"slow down"), {"schema": '"long"'}]}
    pauses: list[float] = []
    found = _of(server, pauses).schema(1)
    assert found is not None
    assert found.text == '"long"'
    assert len(pauses) == 2


def test_trouble_that_stays_stops_the_job(server: FakeRegistry) -> None:
    server.answers = {"/schemas/ids/1": (503, b"")}
    pauses: list[float] = []
    with pytest.raises(RegistryError, match="503"):
        _of(server, pauses).schema(1)
    assert len(server.asked) == len(pauses) + 1 > 2


def test_a_refusal_that_breaks_off_is_an_error_too(server: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_off(self: urllib.error.HTTPError, size: int) -> bytes:
        raise http.client.IncompleteRead(b"{")

    monkeypatch.setattr(urllib.error.HTTPError, "read", breaks_off, raising=False)
    server.answers = {"/schemas/ids/1": (503, b"")}
    with pytest.raises(RegistryError, match="503"):
        _of(server).schema(1)


def test_nobody_there() -> None:
    made = FakeRegistry()
    made.close()
    with pytest.raises(RegistryError, match="no answer"):
        _of(made).schema(1)


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"[1]",
        {"schema": 5},
        {},
        {"schema": "x", "references": [{"name": "a"}]},
        {"schema": "x", "references": [5]},
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_none(server: FakeRegistry, answer: Any) -> None:
    server.answers = {"/schemas/ids/1": answer}
    with pytest.raises(RegistryError):
        _of(server).schema(1)


def test_a_reference_that_is_not_there(server: FakeRegistry) -> None:
    references = [{"name": "a", "subject": "gone", "version": 3}]
    server.answers = {
        "/schemas/ids/1": {"schema": "x", "references": references},
        "/subjects/gone/versions/3": NO_SCHEMA,
    }
    with pytest.raises(RegistryError, match="gone version 3"):
        _of(server).schema(1)


def test_user_and_password_are_sent_and_not_shown(server: FakeRegistry) -> None:
    server.answers = {"/schemas/ids/1": (401, b"")}
    registry = _of(server, user="ann:s%40cret@")
    with pytest.raises(RegistryError, match="401") as raised:
        registry.schema(1)
    assert server.asked == [("/schemas/ids/1", "Basic " + base64.b64encode(b"ann:s@cret").decode())]
    assert "cret" not in f"{raised.value} {registry.name} {registry!r}"


@pytest.mark.parametrize("place", ["http://", "http://host:99999", "ftp://host/x", ""])
def test_a_place_that_is_none(place: str) -> None:
    with pytest.raises(OptionError):
        registry_at(place)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text('"string"')
    (tmp_path / "2.proto").write_text("two")
    (tmp_path / "3.json").write_text("{}")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "line.proto").write_text("line")
    (tmp_path / "shop.Line.avsc").write_text("avro line")
    registry = registry_at(f"file:{tmp_path}")
    found = [registry.schema(identity) for identity in (1, 2, 3)]
    assert [one and (one.kind, one.text) for one in found] == [
        ("AVRO", '"string"'),
        ("PROTOBUF", "two"),
        ("JSON", "{}"),
    ]
    assert [one and dict(one.references) for one in found] == [
        {"shop.Line": "avro line"},
        {"shop/line.proto": "line"},
        {},
    ]
    assert registry.schema(4) is None
    assert pickle.loads(pickle.dumps(registry)) == registry


def test_a_folder_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no folder"):
        FolderRegistry(str(tmp_path / "gone")).schema(1)
    (tmp_path / "1.avsc").write_bytes(b"\xff")
    with pytest.raises(RegistryError, match=r"1\.avsc"):
        FolderRegistry(str(tmp_path)).schema(1)
    (tmp_path / "1.json").write_text("{}")
    with pytest.raises(RegistryError, match=r"1\.avsc and 1\.json"):
        FolderRegistry(str(tmp_path)).schema(1)


def test_ids_are_discovered_looked_up_once_and_unknown_ones_are_dead_letters(server: FakeRegistry) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    server.answers = {
        "/schemas/ids/1": {"schema": json.dumps(record)},
        "/schemas/ids/9": NO_SCHEMA,
        "/schemas/ids/5": {"schema": "{}", "schemaType": "JSON"},
    }
    plan = ValueSpec("avro", registry=f"http://{server.address}", framed=True).plan(None, None)
    assert list(plan.fields) == []
    values = pa.array([framed(1, b"\x02"), framed(9, b""), None, framed(5, b"{}"), b"\x01"], pa.binary())
    found = plan.decoder().decode(values).discovered
    assert found.schema_ids == {1, 9, 5}
    assert server.asked == []
    plan = plan.grown([found, found])
    decoded = plan.decoder().decode(values)
    assert not decoded.discovered
    assert [field.name for field in plan.fields] == ["a"]
    assert decoded.columns[0].to_pylist() == [1, None, None, None, None]
    assert decoded.bad.keys() == {1, 3, 4}
    assert "has no schema 9" in decoded.bad[1]
    assert "JSON, not AVRO" in decoded.bad[3]
    assert len(server.asked) == 3
    assert plan.grown([found]).fields == plan.fields
    assert len(server.asked) == 3


def test_a_registry_that_does_not_answer_is_no_dead_letter(tmp_path: Path) -> None:
    plan = ValueSpec("avro", registry=str(tmp_path / "gone"), framed=True).plan(None, None)
    found = plan.decoder().decode(pa.array([framed(1, b"")], pa.binary())).discovered
    with pytest.raises(RegistryError):
        plan.grown([found])
