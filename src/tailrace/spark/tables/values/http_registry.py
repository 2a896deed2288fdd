"""A Schema Registry behind its REST interface: Confluent's, and those that speak as it does."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.values.registry import AVRO_SCHEMA, RegisteredSchema, RegistryError

_TIMEOUT_SECONDS: Final = 10.0
_PAUSES_SECONDS: Final = (0.2, 1.0, 3.0)
"""Between tries. One try more than there are pauses."""
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MAX_REFERENCES: Final = 1_000
_NO_SUCH_SCHEMA: Final = 40403
"""Its error code in the answer. A 404 without it is of a wrong address, not about a schema."""
_MEDIA_TYPES: Final = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True)
class HttpRegistry:
    url: str = field(repr=False)
    """With user and password before the host, where it wants them."""
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError as error:
            raise OptionError(f"the registry's address is not one: {error}") from error
        if not has_host:
            raise OptionError("the registry's address has no host")

    @property
    def name(self) -> str:
        parts = urllib.parse.urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", "")).rstrip("/")

    def schema(self, identity: int) -> RegisteredSchema | None:
        answer = self._answer(f"/schemas/ids/{identity}")
        if answer is None:
            return None
        kind = answer.get("schemaType") or AVRO_SCHEMA
        references = self._references(answer, f"schema {identity}")
        return RegisteredSchema(identity, str(kind), self._text(answer), tuple(references.items()))

    def _references(self, answer: dict[str, Any], whose: str) -> dict[str, str]:
        """What a schema refers to, and what that refers to."""
        texts: dict[str, str] = {}
        waiting = [answer]
        while waiting:
            for reference in waiting.pop().get("references") or ():
                name, subject, version = self._reference(reference, whose)
                if name in texts:
                    continue
                if len(texts) == _MAX_REFERENCES:
                    raise RegistryError(f"{self.name}: {whose} refers to more than {_MAX_REFERENCES} others")
                content = self._answer(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")
                if content is None:
                    raise RegistryError(f"{self.name}: {whose} refers to {subject} version {version}: not there")
                texts[name] = self._text(content)
                waiting.append(content)
        return texts

    def _reference(self, reference: Any, whose: str) -> tuple[str, str, int]:
        try:
            return str(reference["name"]), str(reference["subject"]), int(reference["version"])
        except (TypeError, KeyError, ValueError) as error:
            raise RegistryError(f"{self.name}: {whose} has a reference that is none: {reference!r}") from error

    def _text(self, answer: dict[str, Any]) -> str:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RegistryError(f"{self.name} gave an answer without a schema")
        return text

    def _answer(self, path: str) -> dict[str, Any] | None:
        trouble = ""
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                return self._asked(path)
            except urllib.error.HTTPError as error:
                body = _body_of(error)
                if error.code == 404 and _error_code(body) == _NO_SUCH_SCHEMA:
                    return None
                trouble = f"{error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, http.client.HTTPException) as error:
                trouble = str(getattr(error, "reason", None) or error) or type(error).__name__
            if pause_seconds is not None:
                self.pause(pause_seconds)
        raise RegistryError(f"the schema registry {self.name} gives no answer to {path}: {trouble}")

    def _asked(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.name + path, headers=self._headers())
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            body = response.read(_MAX_ANSWER_BYTES + 1)
        if len(body) > _MAX_ANSWER_BYTES:
            raise RegistryError(
                f"the schema registry {self.name} answers {path} with more than {_MAX_ANSWER_BYTES} bytes"
            )
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"the schema registry {self.name} answers {path} with what is not JSON") from error
        if not isinstance(content, dict):
            raise RegistryError(f"the schema registry {self.name} answers {path} with what is not an object")
        return content

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": _MEDIA_TYPES}
        parts = urllib.parse.urlsplit(self.url)
        if parts.username is not None:
            user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        return headers


def _body_of(error: urllib.error.HTTPError) -> bytes:
    """Nothing, where it breaks off."""
    try:
        with error:
            return error.read(_MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return b""


def _error_code(body: bytes) -> int | None:
    try:
        code = json.loads(body).get("error_code")
    except (ValueError, AttributeError, RecursionError):
        return None
    return code if isinstance(code, int) else None
