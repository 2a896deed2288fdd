"""Registers this node's controller with the active controller, while that is another node.

A controller whose incarnation is not in the committed metadata, because it is new or was restarted, sends
ControllerRegistration to the active controller, and again until the metadata has it. Retries back off from 100 ms to
two minutes, as in Kafka. An active controller writes its registration itself.

Who may call. The node's thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tailrace.controller.controllers import is_registered, registration_request
from tailrace.metadata.versions import has_controller_registrations
from tailrace.model.error_names import error_name
from tailrace.model.errors import UnknownServerError
from tailrace.model.line_limit import LineLimit
from tailrace.protocol.message import Response
from tailrace.protocol.messages.controller_registration import ControllerRegistrationResponse

if TYPE_CHECKING:
    from tailrace.broker.controller_link import ControllerLink
    from tailrace.controller.controller import Controller
    from tailrace.env import Env
    from tailrace.metadata.image import MetadataImage

_log = logging.getLogger(__name__)

FIRST_RETRY_MS: Final = 100
MAX_RETRY_MS: Final = 120_000
CONFIRMATION_MS: Final = 2000
"""After a success the record is awaited this long before the request is repeated."""
_VERSION: Final = 0


class ControllerRegistrar:
    def __init__(self, controller: Controller, link: ControllerLink, image: MetadataImage, env: Env) -> None:
        """`image` is the committed one."""
        self._controller = controller
        self._link = link
        self._image = image
        self._env = env
        self._is_asking = False
        self._failures = 0
        self._leader_id: int | None = None
        """Of the last request: a new leader is asked at once."""
        self._not_before_ms = 0
        self._lines = LineLimit()

    def tick(self) -> None:
        """A few times a second."""
        if self._is_asking or not self._is_needed():
            return
        now_ms = self._env.clock.monotonic_ms()
        leader_id = self._controller.leader_id
        if leader_id == self._leader_id and now_ms < self._not_before_ms:
            return
        if leader_id != self._leader_id:
            self._leader_id, self._failures = leader_id, 0
        self._is_asking = True
        self._link.send(registration_request(self._controller.state.identity), _VERSION, self._answered)

    def _is_needed(self) -> bool:
        identity = self._controller.state.identity
        return (
            self._controller.leader_id not in (None, identity.node_id)
            and has_controller_registrations(self._image.metadata_version)
            and not is_registered(identity, self._image)
        )

    def _answered(self, response: Response) -> None:
        self._is_asking = False
        now_ms = self._env.clock.monotonic_ms()
        if isinstance(response, ControllerRegistrationResponse) and not response.error_code:
            self._failures = 0
            self._lines.reset()
            self._not_before_ms = now_ms + CONFIRMATION_MS
            return
        delay_ms = min(FIRST_RETRY_MS << min(self._failures, 20), MAX_RETRY_MS)
        self._failures += 1
        self._not_before_ms = now_ms + int(delay_ms * self._env.random.uniform(0.98, 1.02))
        node_id = self._controller.state.identity.node_id
        name = error_name(getattr(response, "error_code", UnknownServerError.code))
        if self._lines.is_due(name, now_ms):
            _log.warning("controller cannot register controller=%s error=%s", node_id, name)
