"""A broker's life as the controller sees it: it registers, shows that it lives, and leaves in good order.

    start      register this incarnation with its endpoints, features and directories
    heartbeat  every broker.heartbeat.interval.ms; the first ones follow each other until the broker is unfenced
    shutdown   heartbeats that ask to leave, until the controller has moved what this broker led

What fails is tried again, at first after 100 ms, then ever later. A broker whose registration the controller no longer
knows registers anew. A directory that fails is told at once, with the next heartbeat.

Who may call. The node, on its thread. Everything goes through the node's channel to the controller.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.metadata.endpoint import Endpoint
from tailrace.model.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError
from tailrace.protocol.message import Response
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.storage.manager.log_directory import LogDirectory

_log = logging.getLogger(__name__)

NO_EPOCH: Final = -1
FIRST_RETRY_MS: Final = 100
CATCH_UP_MS: Final = 10
"""Between heartbeats of a broker that only waits to have read its own registration, or for its last leaders to go."""
LEAVING_MS: Final = 50
MAX_SHUTDOWN_MS: Final = 300_000
"""After so long the broker leaves though the controller has not let it go."""
_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 2
_UNKNOWN_TO_CONTROLLER: Final = (StaleBrokerEpochError.code, BrokerIdNotRegisteredError.code)


class Stage(enum.Enum):
    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    GONE = "gone"


class BrokerLifecycle:
    def __init__(self, node: Node, endpoints: tuple[Endpoint, ...], incarnation_id: bytes) -> None:
        """`endpoints` are what clients and other brokers are to connect to."""
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True
        self.stage = Stage.NEW
        self._node = node
        self._endpoints = endpoints
        self._incarnation_id = incarnation_id
        self._failures = 0
        self._is_registered = False
        self._is_asking = False
        """A request is under way."""
        self._is_urgent = False
        """The next one is to follow at once."""
        self._turn = 0
        """Of the request that is planned: an older plan is void."""
        self._last_leaving_was_early = False
        self._when_unfenced: Callable[[], None] | None = None
        self._when_gone: Callable[[], None] | None = None

    def start(self, unfenced: Callable[[], None]) -> None:
        """Register and ask to be unfenced: the logs must be open. `unfenced` is called once, when clients may come."""
        self.stage = Stage.STARTING
        self._when_unfenced = unfenced
        self._node.replicas.on_directory_failed = lambda directory: self.hurry()
        self._go_on()

    def shutdown(self, done: Callable[[], None]) -> None:
        """Leave; `done` when nothing is led any more, or when nobody answers for too long."""
        if not self._is_registered or not self._node.config.controlled_shutdown_enable:
            self._gone(done)
            return
        self.stage = Stage.LEAVING
        self._when_gone = done
        self._node.env.jobs.later("broker-shutdown", MAX_SHUTDOWN_MS, self._give_up)
        self.hurry()

    def hurry(self) -> None:
        """There is something to tell the controller now."""
        self._is_urgent = True
        if not self._is_asking:
            self._plan(0)

    # When

    def _plan(self, delay_ms: int) -> None:
        self._turn += 1
        turn = self._turn
        self._node.env.jobs.later("broker-heartbeat", 0 if self._is_urgent else delay_ms, lambda: self._due(turn))

    def _due(self, turn: int) -> None:
        if turn == self._turn and not self._is_asking:
            self._go_on()

    def _plan_after_failure(self) -> None:
        most_ms = self._node.config.broker_session_timeout_ms
        delay_ms = min(FIRST_RETRY_MS << min(self._failures, 20), most_ms)
        self._failures += 1
        self._is_urgent = False
        self._plan(int(delay_ms * self._node.env.random.uniform(0.98, 1.02)))

    def _go_on(self) -> None:
        if self.stage in (Stage.NEW, Stage.GONE):
            return
        self._is_asking, self._is_urgent = True, False
        if self._is_registered:
            self._node.controller.send(self._heartbeat(), _HEARTBEAT_VERSION, self._heard)
        else:
            self._node.controller.send(self._registration(), _REGISTRATION_VERSION, self._registered)

    # Registration

    def _registration(self) -> BrokerRegistrationRequest:
        node = self._node
        previous = node.logs.previous_broker_epoch
        return BrokerRegistrationRequest(
            broker_id=node.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[Listener(**endpoint._asdict()) for endpoint in self._endpoints],
            features=[
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in node.supported_features.items()
            ],
            rack=node.config.broker_rack,
            log_dirs=sorted(_ids(node.logs.directories.live)),
            previous_broker_epoch=NO_EPOCH if previous is None else previous,
        )

    def _registered(self, response: Response) -> None:
        self._is_asking = False
        if not isinstance(response, BrokerRegistrationResponse) or response.error_code:
            code = getattr(response, "error_code", None)
            _log.warning("broker %s cannot register: the controller answers error %s", self._node.node_id, code)
            self._plan_after_failure()
            return
        self._failures = 0
        self.broker_epoch = response.broker_epoch
        self._is_registered = True
        _log.info("broker %s is registered in epoch %s", self._node.node_id, self.broker_epoch)
        self._go_on()

    # Heartbeats

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        node, directories = self._node, self._node.logs.directories
        return BrokerHeartbeatRequest(
            broker_id=node.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=node.image.offset,
            want_fence=False,
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=_ids(directories.offline),
            cordoned_log_dirs=self._cordoned(),
        )

    def _cordoned(self) -> list[bytes] | None:
        """None where the controller knows it."""
        cordoned = _ids([each for each in self._node.logs.directories.live if each.is_cordoned])
        broker = self._node.image.brokers.get(self._node.node_id)
        known = (broker.cordoned_directories or ()) if broker is not None else ()
        return None if set(known) == set(cordoned) else sorted(cordoned)

    def _heard(self, response: Response) -> None:
        self._is_asking = False
        if not isinstance(response, BrokerHeartbeatResponse) or response.error_code:
            code = getattr(response, "error_code", None)
            _log.warning("a heartbeat of broker %s is answered with error %s", self._node.node_id, code)
            if code in _UNKNOWN_TO_CONTROLLER and self.stage is not Stage.LEAVING:
                self._is_registered = False
            self._plan_after_failure()
            return
        self._failures = 0
        self.is_fenced = response.is_fenced
        if self.stage is Stage.LEAVING:
            self._leave(response)
            return
        if self.stage is Stage.STARTING and not response.is_fenced:
            self.stage = Stage.RUNNING
            if self._when_unfenced is not None:
                self._when_unfenced()
        is_waiting = self.stage is Stage.STARTING
        self._plan(CATCH_UP_MS if is_waiting else self._node.config.broker_heartbeat_interval_ms)

    # The end

    def _leave(self, response: BrokerHeartbeatResponse) -> None:
        if response.should_shut_down:
            if self._when_gone is not None:
                self._gone(self._when_gone)
            return
        self._plan(LEAVING_MS if self._last_leaving_was_early else CATCH_UP_MS)
        self._last_leaving_was_early = True

    def _give_up(self) -> None:
        if self.stage is Stage.LEAVING and self._when_gone is not None:
            _log.warning("broker %s leaves though the controller has not let it go", self._node.node_id)
            self._gone(self._when_gone)

    def _gone(self, done: Callable[[], None]) -> None:
        self.stage = Stage.GONE
        self._when_gone = None
        done()


def _ids(directories: list[LogDirectory]) -> list[bytes]:
    return [directory.id.raw for directory in directories if directory.id is not None]
