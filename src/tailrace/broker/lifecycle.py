"""A broker's life as the controller sees it: it registers, sends heartbeats, and leaves after a controlled shutdown.

    start      register this incarnation with its endpoints, features and directories
    heartbeat  every broker.heartbeat.interval.ms; the first ones follow each other until the broker is unfenced
    shutdown   heartbeats that ask to leave, until the controller has moved what this broker led

One request is in flight at a time. One that fails or times out is repeated after 100 ms, then 200 ms and so on, up to
`broker.heartbeat.interval.ms`, as Kafka does: a broker that restarts is refused until the session of its last process
ends. A broker that the controller does not know, or knows in another epoch, registers again with the same incarnation
id; so does one whose directories are not listed, when a higher metadata.version has them. The next heartbeat, sent at
once, reports a directory that fails.

The broker cannot continue, and the process ends, if

- the first registration does not succeed within `initial.broker.registration.timeout.ms`; the error names the last
  reason and what to do. Every error may pass until then: another controller may be elected, a session may end. (The
  node ends as well if it knows no active controller for so long after its start: it needs the metadata to register.)
- no heartbeat reports a failed directory to a controller within `log.dir.failure.timeout.ms`: the cluster would go on
  to take this broker for the leader of replicas that it does not have.

A broker leaves at once if it was never unfenced, or if the controller no longer knows it: it leads nothing then. It
leaves without a controlled shutdown

- when too many controllers refuse connections, twice in a row, for one to be active: leaderships cannot be moved.
- when no heartbeat had a response for `broker.session.timeout.ms`, and for a second since the shutdown began: an active
  controller that this broker cannot reach has fenced it. (Kafka waits five minutes.)
- after five minutes, if a controller responds and does not let it go.

Nothing is lost by that: logs are flushed and closed as after a controlled shutdown.

Who may call. The node, on its thread. Everything goes through the node's link to the controller.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import SINGLE_REPLICAS
from tailrace.model.error_names import error_name
from tailrace.model.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    LogDirUnreportedError,
    RegistrationTimeoutError,
    RequestTimedOutError,
    StaleBrokerEpochError,
    TailraceError,
    UnsupportedVersionError,
)
from tailrace.model.line_limit import LineLimit
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
"""The broker leaves then though the controller has not let it go."""
MIN_SHUTDOWN_MS: Final = 1_000
"""A controller has this long to respond, however long none did before."""
PROBE_INTERVAL_MS: Final = 250
REFUSALS: Final = 2
_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 2
_UNKNOWN_TO_CONTROLLER: Final = (StaleBrokerEpochError.code, BrokerIdNotRegisteredError.code)
START_CONTROLLERS: Final = "start the controllers, and check that this host can connect to their listeners"
_HINTS: Final = {
    DuplicateBrokerRegistrationError.code: (
        "stop the other broker with this node.id, or give this one another; a broker that was killed keeps its id for"
        " broker.session.timeout.ms"
    ),
    InconsistentClusterIdError.code: "log.dirs belong to another cluster: name its controllers, or other directories",
    InvalidRegistrationError.code: "check that no other broker has a copy of these log.dirs",
    UnsupportedVersionError.code: "run a release that supports every finalized feature of the cluster",
}


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
        """With all that there is to say about this broker."""
        self._is_known = False
        """The controller has this incarnation; it may lead."""
        self._is_asking = False
        """A request is under way."""
        self._is_urgent = False
        """The next one is to follow at once."""
        self._sent_directories: list[bytes] = []
        """The failed ones in the last heartbeat."""
        self._turn = 0
        """Of the request that is planned: an older plan is void."""
        self._last_leaving_was_early = False
        self._last_error = 0
        """Of the last registration."""
        self._reported_directories: set[bytes] = set()
        """Failed directories that a controller knows of."""
        self._lines = LineLimit()
        self._responded_ms = 0
        """When a controller last responded."""
        self._refusals = 0
        """Probes in a row after which no controller can be active."""
        self._when_unfenced: Callable[[], None] | None = None
        self._when_failed: Callable[[TailraceError], None] | None = None
        self._when_gone: Callable[[], None] | None = None

    def start(self, unfenced: Callable[[], None], failed: Callable[[TailraceError], None]) -> None:
        """Register and ask to be unfenced: the logs must be open. `unfenced` is called once, when clients may come.

        `failed` is called once, if the broker cannot continue: see the module.
        """
        self.stage = Stage.STARTING
        self._when_unfenced, self._when_failed = unfenced, failed
        self._node.replicas.on_directory_failed.add(self._directory_failed)
        timeout_ms = self._node.config.initial_broker_registration_timeout_ms
        self._node.env.jobs.later("broker-registration-timeout", timeout_ms, self._registration_timed_out)
        self._go_on()

    def shutdown(self, done: Callable[[], None]) -> None:
        """Leave; `done` when this broker leads nothing, or when it is of no use to wait longer: see the module."""
        can_lead = self._is_known and self.stage is Stage.RUNNING
        if not can_lead or not self._node.config.controlled_shutdown_enable:
            self._gone(done)
            return
        self.stage = Stage.LEAVING
        self._when_gone = done
        self._node.env.jobs.later("broker-shutdown", MAX_SHUTDOWN_MS, lambda: self._give_up("it is not let go"))
        session_ms = self._node.config.broker_session_timeout_ms
        self._responded_ms = max(self._responded_ms, self._now_ms() + MIN_SHUTDOWN_MS - session_ms)
        self._probe_later()
        self.hurry()

    def hurry(self) -> None:
        """There is something to tell the controller now."""
        self._is_urgent = True
        if not self._is_asking:
            self._plan(0)

    def register_again(self) -> None:
        """The metadata can hold more about this broker than it could when it registered."""
        if self._is_registered and self.stage in (Stage.STARTING, Stage.RUNNING):
            self._is_registered = False
            self.hurry()

    def _fail(self, error: TailraceError) -> None:
        self.stage = Stage.GONE
        if self._when_failed is not None:
            self._when_failed(error)

    # When

    def _plan(self, delay_ms: int) -> None:
        self._turn += 1
        turn = self._turn
        self._node.env.jobs.later("broker-heartbeat", 0 if self._is_urgent else delay_ms, lambda: self._due(turn))

    def _due(self, turn: int) -> None:
        if turn == self._turn and not self._is_asking:
            self._go_on()

    def _plan_after_failure(self) -> None:
        max_ms = self._node.config.broker_heartbeat_interval_ms
        delay_ms = min(FIRST_RETRY_MS << min(self._failures, 20), max_ms)
        self._failures += 1
        self._is_urgent = False
        self._plan(int(delay_ms * self._node.env.random.uniform(0.98, 1.02)))

    def _succeeded(self) -> None:
        self._failures = 0
        self._lines.reset()

    def _log_failure(self, line: str, code: int) -> None:
        if self._lines.is_due((line, code), self._now_ms()):
            hint = _HINTS.get(code)
            next_step = f"; next step: {hint}" if hint else ""
            _log.warning("%s broker=%s error=%s%s", line, self._node.node_id, error_name(code), next_step)

    def _go_on(self) -> None:
        if self.stage in (Stage.NEW, Stage.GONE):
            return
        self._is_asking, self._is_urgent = True, False
        if self._is_registered:
            self._node.controller.send(self._heartbeat(), _HEARTBEAT_VERSION, self._heartbeat_ended)
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
                for name, (first, last) in {**node.supported_features, SINGLE_REPLICAS: (0, 0)}.items()
            ],
            rack=node.config.broker_rack,
            log_dirs=sorted(_ids(node.logs.directories.live)),
            previous_broker_epoch=NO_EPOCH if previous is None else previous,
        )

    def _registered(self, response: Response) -> None:
        self._is_asking = False
        assert isinstance(response, BrokerRegistrationResponse), "a response has the type that belongs to its request"
        if response.error_code:
            self._last_error = response.error_code
            self._log_failure("broker cannot register", response.error_code)
            self._plan_after_failure()
            return
        self._succeeded()
        self.broker_epoch = response.broker_epoch
        self._is_registered = self._is_known = True
        _log.info("broker %s is registered in epoch %s", self._node.node_id, self.broker_epoch)
        self._go_on()

    def _registration_timed_out(self) -> None:
        if self.stage is not Stage.STARTING or self.broker_epoch != NO_EPOCH:
            return
        node, code = self._node, self._last_error
        timeout_ms = node.config.initial_broker_registration_timeout_ms
        reason = error_name(code) if code else "no response"
        self._fail(
            RegistrationTimeoutError(
                f"broker {node.node_id} could not register with the active controller in {timeout_ms} ms: {reason}",
                _HINTS.get(code, START_CONTROLLERS),
            )
        )

    # Heartbeats

    def _directory_failed(self, directory: LogDirectory) -> None:
        self.hurry()
        timeout_ms = self._node.config.log_dir_failure_timeout_ms
        self._node.env.jobs.later("log-dir-failure-timeout", timeout_ms, lambda: self._check_reported(directory))

    def _check_reported(self, directory: LogDirectory) -> None:
        if self.stage not in (Stage.STARTING, Stage.RUNNING):
            return
        if directory.id is not None and directory.id not in self._reported_directories:
            timeout_ms = self._node.config.log_dir_failure_timeout_ms
            self._fail(
                LogDirUnreportedError(
                    f"broker {self._node.node_id} could not report in {timeout_ms} ms that {directory.path} has failed"
                )
            )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        node, directories = self._node, self._node.logs.directories
        self._sent_directories = _ids(directories.offline)
        return BrokerHeartbeatRequest(
            broker_id=node.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=node.image.offset,
            want_fence=False,
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=self._sent_directories,
            cordoned_log_dirs=self._cordoned(),
        )

    def _cordoned(self) -> list[bytes] | None:
        """None if the controller knows it."""
        cordoned = _ids([each for each in self._node.logs.directories.live if each.is_cordoned])
        broker = self._node.image.brokers.get(self._node.node_id)
        known = (broker.cordoned_directories or ()) if broker is not None else ()
        return None if set(known) == set(cordoned) else sorted(cordoned)

    def _heartbeat_ended(self, response: Response) -> None:
        self._is_asking = False
        if self.stage is Stage.GONE:
            return
        assert isinstance(response, BrokerHeartbeatResponse), "a response has the type that belongs to its request"
        if response.error_code != RequestTimedOutError.code:
            self._responded_ms = self._now_ms()
        if response.error_code:
            self._heartbeat_failed(response.error_code)
            return
        self._succeeded()
        self._reported_directories.update(self._sent_directories)
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

    def _heartbeat_failed(self, code: int) -> None:
        self._log_failure("heartbeat failed", code)
        if code in _UNKNOWN_TO_CONTROLLER:
            self._is_registered = self._is_known = False
            if self.stage is Stage.LEAVING and self._when_gone is not None:
                self._gone(self._when_gone)
                return
        self._plan_after_failure()

    # The end

    def _leave(self, response: BrokerHeartbeatResponse) -> None:
        if response.should_shut_down:
            if self._when_gone is not None:
                self._gone(self._when_gone)
            return
        self._plan(LEAVING_MS if self._last_leaving_was_early else CATCH_UP_MS)
        self._last_leaving_was_early = True

    def _probe_later(self) -> None:
        self._node.env.jobs.later("broker-shutdown", PROBE_INTERVAL_MS, self._probe)

    def _probe(self) -> None:
        if self.stage is not Stage.LEAVING:
            return
        silent_ms = self._now_ms() - self._responded_ms
        if silent_ms >= self._node.config.broker_session_timeout_ms:
            self._give_up("no controller responds")
        elif self._is_asking or self._failures:
            self._node.controller.probe(self._probed)
        else:
            self._probed(False)

    def _probed(self, none_is_active: bool) -> None:
        self._refusals = self._refusals + 1 if none_is_active else 0
        if self._refusals == REFUSALS:
            self._give_up("the controllers refuse connections")
        elif self.stage is Stage.LEAVING:
            self._probe_later()

    def _give_up(self, reason: str) -> None:
        if self.stage is Stage.LEAVING and self._when_gone is not None:
            _log.warning("broker leaves without controlled shutdown broker=%s: %s", self._node.node_id, reason)
            self._gone(self._when_gone)

    def _gone(self, done: Callable[[], None]) -> None:
        self.stage = Stage.GONE
        self._when_gone = None
        done()

    def _now_ms(self) -> int:
        return self._node.env.clock.monotonic_ms()


def _ids(directories: list[LogDirectory]) -> list[bytes]:
    return [directory.id for directory in directories if directory.id is not None]
