"""One connection to a broker: frames out, frames in, nothing believed that the other side says about sizes.

`open` connects and asks with ApiVersions what the broker speaks; every request then goes in the highest version that
both sides have. Requests may follow each other without waiting (`submit`), a broker answers in their order (`receive`).
`call` is one of each.

A deadline that passes in the middle of a frame loses nothing: the next `receive` goes on with it. Whatever else goes
wrong closes the connection: ConnectionLostError, and what was under way may or may not have happened.

With `reuses_memory` all answers come into the same memory, which is what large ones cost most: the views in an answer
(records) are good until the next one is received.

One thread.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tailrace import __version__
from tailrace.client.address import Address
from tailrace.client.deadline import Deadline
from tailrace.client.errors import (
    NONE,
    UNSUPPORTED_VERSION,
    BrokerUnreachableError,
    ConnectionLostError,
    NoAnswerError,
    error_of,
)
from tailrace.model.errors import InvalidDataError, UnsupportedVersionError
from tailrace.protocol.apis import API_VERSIONS, api_of
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.schema import Payload

MAX_RESPONSE_BYTES: Final = 1 << 28
SOFTWARE_NAME: Final = "tailrace"
PARTS_PER_WRITE: Final = 512  # below every system's limit on one sendmsg
MAX_CORRELATION_ID: Final = 0x7FFF_FFFF

_SIZE: Final = struct.Struct(">i")
_ID_AND_ERROR: Final = struct.Struct(">ih")


class _Awaited(NamedTuple):
    correlation_id: int
    api_key: int
    version: int


class Connection:
    def __init__(
        self,
        link: socket.socket,
        address: Address,
        client_id: str,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        *,
        reuses_memory: bool = False,
    ) -> None:
        """`link` is connected. Without `negotiate`, only ApiVersions can be asked."""
        self.address = address
        self.client_id = client_id
        self.broker: ApiVersionsResponse = ApiVersionsResponse()
        self._link = link
        self._max_response_bytes = max_response_bytes
        self._versions: dict[int, tuple[int, int]] = {}
        self._awaited: deque[_Awaited] = deque()
        self._last_id = 0
        self._head = bytearray(SIZE_BYTES)
        self._frame: memoryview | None = None
        self._filled = 0
        self._reuses_memory = reuses_memory
        self._memory = bytearray()
        self.is_closed = False

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        client_id: str = SOFTWARE_NAME,
        timeout_s: float = 10.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        reuses_memory: bool = False,
    ) -> Connection:
        deadline = Deadline(timeout_s)
        try:
            link = socket.create_connection(address, timeout=timeout_s)
        except OSError as cause:
            why = "no answer" if isinstance(cause, TimeoutError) else cause.strerror or str(cause)
            raise BrokerUnreachableError(f"no broker at {address}: {why}") from cause
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(link, address, client_id, max_response_bytes, reuses_memory=reuses_memory)
        try:
            connection.negotiate(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    # Versions

    def negotiate(self, deadline: Deadline) -> None:
        """A broker that does not know our version of ApiVersions says so in version 0, and names its own."""
        api = api_of(API_VERSIONS)
        version = api.last_version
        while True:
            request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
            self._send(request, version, deadline)
            response = self._receive(deadline)[1]
            assert isinstance(response, ApiVersionsResponse)
            if response.error_code == NONE:
                break
            theirs = {each.api_key: each.max_version for each in response.api_keys}.get(API_VERSIONS, 0)
            lower = min(theirs, version - 1)
            if response.error_code != UNSUPPORTED_VERSION or lower < api.first_version:
                raise error_of(response.error_code, f"{self.address} does not tell what it speaks")
            version = lower
        self.broker = response
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def has_api(self, api_key: int) -> bool:
        return self._common_version(api_key) is not None

    def version_for(self, api_key: int, newest: int | None = None) -> int:
        """The highest that both sides have, and not above `newest`; else UnsupportedVersionError."""
        version = self._common_version(api_key, newest)
        if version is None:
            api, theirs = api_of(api_key), self._versions.get(api_key)
            spoken = "does not have it" if theirs is None else f"has versions {theirs[0]} to {theirs[1]}"
            raise UnsupportedVersionError(
                f"{api.name} is needed in a version from {api.first_version} to {newest or api.last_stable_version}, "
                f"but the broker at {self.address} {spoken}"
            )
        return version

    def _common_version(self, api_key: int, newest: int | None = None) -> int | None:
        api = api_of(api_key)
        first, last = self._versions.get(api_key, (0, -1))
        version = min(api.last_stable_version, last, *([] if newest is None else [newest]))
        return version if version >= max(api.first_version, first) else None

    # Requests and answers

    @property
    def awaited(self) -> int:
        """Answers that are still to come."""
        return len(self._awaited)

    def call(self, request: Request, timeout_s: float, *, newest: int | None = None) -> Any:
        """The answer to `request`. Nothing else may be under way."""
        deadline = Deadline(timeout_s)
        if self._awaited:
            raise ConnectionLostError(f"{len(self._awaited)} answers of {self.address} are still to come")
        self._send(request, self.version_for(request.KEY, newest), deadline)
        try:
            return self._receive(deadline)[1]
        except NoAnswerError:
            self.close()  # the answer may still come, and would be taken for that to another question
            raise

    def submit(self, request: Request, timeout_s: float, *, newest: int | None = None, is_answered: bool = True) -> int:
        """Send without waiting; the correlation id that `receive` gives back with the answer."""
        version = self.version_for(request.KEY, newest)
        return self._send(request, version, Deadline(timeout_s), is_answered=is_answered)

    def receive(self, timeout_s: float) -> tuple[int, Response]:
        """The next answer. NoAnswerError when it is not there in time: it may be asked for again."""
        return self._receive(Deadline(timeout_s))

    def has_answer(self) -> bool:
        """Whether bytes, or an end, are there to be read."""
        return not self.is_closed and bool(wait_for([self], 0))

    def close_if_lost(self) -> None:
        """Brokers close what is idle for long: an end that is there already need not be found by the next request."""
        if not self._awaited and self.has_answer():
            self.close()

    def fileno(self) -> int:
        return self._link.fileno()

    def close(self) -> None:
        self.is_closed = True
        self._link.close()

    # Bytes

    def _send(self, request: Request, version: int, deadline: Deadline, *, is_answered: bool = True) -> int:
        if self.is_closed:
            raise ConnectionLostError(f"the connection to {self.address} is closed")
        self._last_id = self._last_id + 1 if self._last_id < MAX_CORRELATION_ID else 1
        parts = encode_request(request, version, self._last_id, self.client_id)
        try:
            self._write(parts, deadline)
        except (TimeoutError, NoAnswerError):  # a part of the request may have been sent
            self.close()
            raise NoAnswerError(f"{self.address} took no request for {deadline}") from None
        except OSError as cause:
            raise self._lost(cause) from cause
        if is_answered:
            self._awaited.append(_Awaited(self._last_id, request.KEY, version))
        return self._last_id

    def _write(self, parts: Sequence[Payload], deadline: Deadline) -> None:
        views = deque(memoryview(part) for part in parts)
        while views:
            self._link.settimeout(deadline.check(f"sending to {self.address}"))
            sent = self._link.sendmsg([views[at] for at in range(min(len(views), PARTS_PER_WRITE))])
            while views and sent >= len(views[0]):
                sent -= len(views.popleft())
            if sent:
                views[0] = views[0][sent:]

    def _receive(self, deadline: Deadline) -> tuple[int, Response]:
        if not self._awaited:
            raise ConnectionLostError(f"nothing was asked of {self.address}")
        try:
            frame = self._read_frame(deadline)
        except TimeoutError:
            raise NoAnswerError(f"no answer of {self.address} for {deadline}") from None
        except OSError as cause:
            raise self._lost(cause) from cause
        awaited = self._awaited.popleft()
        try:
            correlation_id, response = decode_response(awaited.api_key, _version_of(awaited, frame), frame)
        except InvalidDataError as cause:
            raise self._lost(cause) from cause
        if correlation_id != awaited.correlation_id:
            raise self._lost(f"it answers {correlation_id} when asked {awaited.correlation_id}")
        return correlation_id, response

    def _read_frame(self, deadline: Deadline) -> memoryview:
        if self._frame is None:
            self._fill(memoryview(self._head), deadline)
            (size,) = _SIZE.unpack(self._head)
            if not SIZE_BYTES <= size <= self._max_response_bytes:
                raise self._lost(f"it announces an answer of {size} bytes")
            self._frame, self._filled = self._room_for(size), 0
        frame = self._frame
        self._fill(frame, deadline)
        self._frame, self._filled = None, 0
        return frame

    def _room_for(self, size: int) -> memoryview:
        if not self._reuses_memory:
            return memoryview(bytearray(size))
        if len(self._memory) < size:
            self._memory = bytearray(size)
        return memoryview(self._memory)[:size]

    def _fill(self, view: memoryview, deadline: Deadline) -> None:
        while self._filled < len(view):
            self._link.settimeout(max(deadline.left_s, 0.000_1))  # nought would mean not to block
            count = self._link.recv_into(view[self._filled :])
            if not count:
                raise self._lost("it closed")
            self._filled += count

    def _lost(self, why: object) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(f"lost the connection to {self.address}: {why}")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.close()


def wait_for(connections: Iterable[Connection], timeout_s: float) -> list[Connection]:
    """Those of which one has something to be read, as soon as one has."""
    poll, by_number = select.poll(), {}
    for connection in connections:
        by_number[connection.fileno()] = connection
        poll.register(connection.fileno(), select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(timeout_s * 1000)]


def _version_of(awaited: _Awaited, frame: memoryview) -> int:
    """That of the answer, which is the request's; but ApiVersions may be refused, and that in version 0."""
    if awaited.api_key != API_VERSIONS or len(frame) < _ID_AND_ERROR.size:
        return awaited.version
    return 0 if _ID_AND_ERROR.unpack_from(frame)[1] == UNSUPPORTED_VERSION else awaited.version
