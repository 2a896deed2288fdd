"""A controller listener in the simulator: frames in, requests to a quorum, responses out, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tailrace.broker.dispatch import Dispatch
from tailrace.env import CloseReason
from tailrace.model.errors import TailraceError
from tailrace.protocol.apis import API_VERSIONS, APIS
from tailrace.protocol.frame import decode_request, decode_request_header, encode_response
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from tailrace.raft.quorum import Quorum
from tailrace.sim.process import Process
from tailrace.sim.stream import SimStream

PORT = 9093
LISTENER = "CONTROLLER"

_SIZE_BYTES = 4
Sees = Callable[[Request, Response], None]


class QuorumServer:
    """`sees` is called with every request and its response."""

    def __init__(self, process: Process, quorum: Quorum, sees: Sees) -> None:
        self.quorum = quorum
        self.sees = sees
        self.dispatch = Dispatch(is_controller=True)
        process.listen(PORT, lambda stream: _Connection(self, stream)).open()


class _Connection:
    def __init__(self, server: QuorumServer, stream: SimStream) -> None:
        self._server = server
        self._stream = stream
        self._data = bytearray()
        self._frames: deque[bytes] = deque()
        self._is_answering = False
        self._forget: Callable[[], None] | None = None

    def connected(self) -> None:
        raise AssertionError("it is connected when it is accepted")

    def received(self, data: memoryview) -> None:
        self._data += data
        while len(self._data) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._data[:_SIZE_BYTES], "big")
            if len(self._data) < end:
                break
            self._frames.append(bytes(self._data[_SIZE_BYTES:end]))
            del self._data[:end]
        self._next()

    def closed(self, reason: CloseReason, detail: str) -> None:
        self._frames.clear()
        if self._forget is not None:
            self._forget()

    def _next(self) -> None:
        if self._frames and not self._is_answering:
            self._is_answering = True
            self._handle(self._frames.popleft())

    def _handle(self, frame: bytes) -> None:
        header, position = decode_request_header(frame)
        request = decode_request(header, frame, position)

        def reply(response: Response) -> None:
            self._forget = None
            self._server.sees(request, response)
            self._stream.send([bytes(part) for part in encode_response(header, response)])
            self._is_answering = False
            self._next()

        if header.request_api_key == API_VERSIONS:
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            reply(ApiVersionsResponse(api_keys=self._server.dispatch.rows(), supported_features=[feature]))
            return
        assert self._server.dispatch.serves(header.request_api_key)
        try:
            forget = self._server.quorum.handle(request, header.request_api_version, LISTENER, reply)
        except TailraceError as error:
            reply(APIS[header.request_api_key].response(error_code=error.code))
        else:
            self._forget = forget if self._is_answering else None
