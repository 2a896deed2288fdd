"""The life of a broker: what it asks of the controller, when, and what it does with each response."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tailrace.broker.lifecycle import BrokerLifecycle, Stage
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import SINGLE_REPLICAS, SUPPORTED_FEATURES
from tailrace.model.errors import LogDirUnreportedError, RegistrationTimeoutError, TailraceError
from tailrace.model.ids import DirectoryId
from tailrace.model.listeners import Listeners
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

FIRST, SECOND = DirectoryId(b"1" * 16), DirectoryId(b"2" * 16)


class Directories:
    def __init__(self) -> None:
        self.all = [
            SimpleNamespace(id=SECOND, path="/b", is_live=True, is_cordoned=False),
            SimpleNamespace(id=FIRST, path="/a", is_live=True, is_cordoned=False),
        ]

    @property
    def live(self) -> list[Any]:
        return [each for each in self.all if each.is_live]

    @property
    def offline(self) -> list[Any]:
        return [each for each in self.all if not each.is_live]


class Timers:
    """Actions by when they are due; the test moves the time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.planned: list[tuple[int, Callable[[], None]]] = []

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self.planned.append((self.now_ms + delay_ms, action))

    def pass_ms(self, delay_ms: int) -> None:
        end = self.now_ms + delay_ms
        while due := sorted((each for each in self.planned if each[0] <= end), key=lambda each: each[0]):
            self.planned.remove(due[0])
            self.now_ms = due[0][0]
            due[0][1]()
        self.now_ms = end


class Rig:
    """The node as the lifecycle sees it. Requests wait until the test answers them."""

    def __init__(self, **settings: Any) -> None:
        self.asked: list[tuple[Request, Callable[[Response], None]]] = []
        self.jobs = Timers()
        self.directories = Directories()
        config = {
            "broker_rack": "r",
            "broker_heartbeat_interval_ms": 2000,
            "broker_session_timeout_ms": 9000,
            "controlled_shutdown_enable": True,
            "initial_broker_registration_timeout_ms": 60_000,
            "log_dir_failure_timeout_ms": 30_000,
        }
        self.node = SimpleNamespace(
            node_id=1,
            cluster_id="cluster",
            config=SimpleNamespace(**(config | settings)),
            env=SimpleNamespace(
                jobs=self.jobs, random=random.Random(1), clock=SimpleNamespace(monotonic_ms=lambda: self.jobs.now_ms)
            ),
            image=MetadataImage(),
            controller=SimpleNamespace(send=self._send, probe=self._probe),
            supported_features=SUPPORTED_FEATURES,
            logs=SimpleNamespace(directories=self.directories, previous_broker_epoch=41),
            replicas=SimpleNamespace(on_directory_failed=Listeners()),
        )
        self.lifecycle = BrokerLifecycle(cast(Any, self.node), (Endpoint("PLAINTEXT", "h", 9092),), b"i" * 16)
        self.events: list[str] = []
        self.errors: list[TailraceError] = []
        self.refusals: list[bool] = []
        """What the next probes find; after that, controllers accept connections."""

    def _probe(self, done: Callable[[bool], None]) -> None:
        done(self.refusals.pop(0) if self.refusals else False)

    def _send(self, request: Request, version: int, done: Callable[[Response], None]) -> None:
        self.asked.append((request, done))

    def take(self) -> tuple[Any, Callable[[Response], None]]:
        assert len(self.asked) == 1, f"{len(self.asked)} requests are under way"
        return self.asked.pop()

    def answer(self, response: Response) -> Any:
        request, done = self.take()
        done(response)
        return request

    def start(self) -> None:
        self.lifecycle.start(lambda: self.events.append("unfenced"), self.errors.append)

    def answer_all(self, response: Response, ms: int) -> list[Request]:
        """Every request of this time gets the same response at once."""
        end, requests = self.jobs.now_ms + ms, []
        while self.jobs.now_ms < end:
            if self.asked:
                requests.append(self.answer(response))
            self.jobs.pass_ms(10)
        return requests

    def run(self) -> Rig:
        """Registered and unfenced."""
        self.start()
        self.answer(BrokerRegistrationResponse(broker_epoch=50))
        self.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        return self


def test_it_registers_beats_and_is_unfenced() -> None:
    rig = Rig()
    rig.node.image.offset = 60
    rig.start()
    registration = rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    assert isinstance(registration, BrokerRegistrationRequest)
    assert (registration.broker_id, registration.cluster_id, registration.rack) == (1, "cluster", "r")
    assert registration.incarnation_id == b"i" * 16
    assert [(each.name, each.host, each.port) for each in registration.listeners] == [("PLAINTEXT", "h", 9092)]
    features = {each.name: (each.min_supported_version, each.max_supported_version) for each in registration.features}
    assert features == {**SUPPORTED_FEATURES, SINGLE_REPLICAS: (0, 0)}
    assert registration.log_dirs == [FIRST, SECOND]
    assert registration.previous_broker_epoch == 41
    assert rig.lifecycle.broker_epoch == 50
    beat = rig.answer(BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True))
    assert isinstance(beat, BrokerHeartbeatRequest)
    assert (beat.broker_epoch, beat.current_metadata_offset, beat.want_fence, beat.want_shut_down) == (
        50,
        60,
        False,
        False,
    )
    assert rig.events == []
    rig.jobs.pass_ms(10)
    rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert rig.events == ["unfenced"]
    assert rig.lifecycle.stage is Stage.RUNNING


def test_it_beats_at_its_interval() -> None:
    rig = Rig().run()
    for _ in range(3):
        rig.jobs.pass_ms(1999)
        assert rig.asked == []
        rig.jobs.pass_ms(1)
        rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert rig.events == ["unfenced"]


def test_refused_registrations_are_tried_again_ever_later() -> None:
    rig = Rig()
    rig.start()
    waited = []
    for _ in range(9):
        rig.answer(BrokerRegistrationResponse(error_code=101))
        began = rig.jobs.now_ms
        while not rig.asked:
            rig.jobs.pass_ms(1)
        waited.append(rig.jobs.now_ms - began)
    assert waited[0] == pytest.approx(100, rel=0.05)
    assert waited[1] == pytest.approx(200, rel=0.05)
    assert waited[-1] == pytest.approx(2000, rel=0.05)


@pytest.mark.parametrize("code", [77, 102])
def test_a_broker_that_is_no_longer_known_registers_again(code: int) -> None:
    rig = Rig().run()
    rig.jobs.pass_ms(2000)
    rig.answer(BrokerHeartbeatResponse(error_code=code))
    rig.jobs.pass_ms(110)
    request = rig.answer(BrokerRegistrationResponse(broker_epoch=70))
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.incarnation_id == b"i" * 16
    assert rig.lifecycle.broker_epoch == 70
    assert rig.take()[0].broker_epoch == 70


def test_one_request_at_a_time() -> None:
    rig = Rig().run()
    rig.jobs.pass_ms(2000)
    rig.lifecycle.hurry()
    rig.jobs.pass_ms(60_000)
    rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    rig.jobs.pass_ms(0)
    rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    rig.jobs.pass_ms(1999)
    assert rig.asked == []


def test_a_failed_directory_is_told_at_once() -> None:
    rig = Rig().run()
    rig.directories.all[0].is_live = False
    rig.node.replicas.on_directory_failed(rig.directories.all[0])
    rig.jobs.pass_ms(0)
    request = rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert request.offline_log_dirs == [SECOND]


def test_cordoned_directories_are_told_as_long_as_the_controller_does_not_know() -> None:
    rig = Rig().run()
    rig.directories.all[1].is_cordoned = True
    rig.jobs.pass_ms(2000)
    request = rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert request.cordoned_log_dirs == [FIRST]
    rig.node.image.brokers[1] = BrokerRegistration(1, 50, b"i" * 16, cordoned_directories=(FIRST,))
    rig.jobs.pass_ms(2000)
    assert rig.answer(BrokerHeartbeatResponse()).cordoned_log_dirs is None


def test_it_leaves_when_the_controller_lets_it() -> None:
    rig = Rig().run()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    rig.jobs.pass_ms(0)
    request = rig.answer(BrokerHeartbeatResponse(is_fenced=False))
    assert request.want_shut_down
    for pause_ms in (10, 50, 50):
        assert rig.events == ["unfenced"]
        rig.jobs.pass_ms(pause_ms - 1)
        assert rig.asked == []
        rig.jobs.pass_ms(1)
        request, done = rig.take()
        rig.asked.append((request, done))
        if pause_ms == 10:
            rig.answer(BrokerHeartbeatResponse(is_fenced=False))
            continue
        rig.answer(BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True))
        break
    assert rig.events == ["unfenced", "gone"]
    rig.jobs.pass_ms(1_000_000)
    assert rig.asked == []
    assert rig.events == ["unfenced", "gone"]


@pytest.mark.parametrize("has_timeouts", [True, False])
def test_it_leaves_when_no_controller_responds_for_a_session(has_timeouts: bool) -> None:
    """A probe that is accepted is no response."""
    rig = Rig().run()
    rig.jobs.pass_ms(1_500)
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    if has_timeouts:
        assert rig.answer_all(BrokerHeartbeatResponse(error_code=7), 7_490)
    else:
        rig.jobs.pass_ms(7_490)
    assert rig.events == ["unfenced"]
    rig.jobs.pass_ms(260)
    assert rig.events == ["unfenced", "gone"]
    assert rig.errors == []


def test_a_controller_has_a_second_to_respond_after_a_long_silence() -> None:
    rig = Rig().run()
    rig.answer_all(BrokerHeartbeatResponse(error_code=7), 60_000)
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    rig.jobs.pass_ms(990)
    assert rig.events == ["unfenced"]
    rig.jobs.pass_ms(260)
    assert rig.events == ["unfenced", "gone"]


@pytest.mark.parametrize("has_timeouts", [True, False])
def test_it_leaves_when_the_controllers_refuse_twice_in_a_row(has_timeouts: bool) -> None:
    rig = Rig().run()
    rig.refusals = [True, False, True, True]
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    if has_timeouts:
        rig.answer_all(BrokerHeartbeatResponse(error_code=7), 990)
    else:
        rig.jobs.pass_ms(990)
    assert rig.events == ["unfenced"]
    rig.jobs.pass_ms(20)
    assert (rig.events, rig.refusals) == (["unfenced", "gone"], [])


def test_it_leaves_after_five_minutes_if_the_controller_does_not_let_it_go() -> None:
    rig = Rig().run()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    assert rig.answer_all(BrokerHeartbeatResponse(is_fenced=False), 299_990)
    assert rig.events == ["unfenced"]
    rig.jobs.pass_ms(10)
    assert rig.events == ["unfenced", "gone"]
    assert rig.errors == []


@pytest.mark.parametrize("code", [77, 102])
def test_it_leaves_at_once_if_the_controller_no_longer_knows_it(code: int) -> None:
    rig = Rig().run()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    rig.jobs.pass_ms(0)
    rig.answer(BrokerHeartbeatResponse(error_code=code))
    rig.jobs.pass_ms(400_000)
    assert (rig.events, rig.asked) == (["unfenced", "gone"], [])


def test_it_leaves_at_once_if_it_was_never_unfenced() -> None:
    rig = Rig()
    rig.start()
    rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    rig.answer(BrokerHeartbeatResponse(is_fenced=True))
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    assert rig.events == ["gone"]
    rig.jobs.pass_ms(400_000)
    assert (rig.asked, rig.errors) == ([], [])


def test_it_hands_over_its_leaders_if_it_is_registering_again() -> None:
    rig = Rig().run()
    rig.lifecycle.register_again()
    rig.jobs.pass_ms(0)
    assert isinstance(rig.asked[0][0], BrokerRegistrationRequest)
    rig.events.clear()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    assert rig.events == []
    rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    rig.jobs.pass_ms(0)
    assert rig.answer(BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True)).want_shut_down
    assert rig.events == ["gone"]


@pytest.mark.parametrize("is_registered", [True, False])
def test_it_leaves_at_once(is_registered: bool) -> None:
    rig = Rig(controlled_shutdown_enable=False).run() if is_registered else Rig()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    assert rig.events[-1] == "gone"
    assert rig.asked == []


# What ends the process


@pytest.mark.parametrize(
    ("code", "name", "hint"),
    [
        (101, "DUPLICATE_BROKER_REGISTRATION", "node.id"),
        (104, "INCONSISTENT_CLUSTER_ID", "log.dirs belong to another cluster"),
        (119, "INVALID_REGISTRATION", "copy of these log.dirs"),
        (35, "UNSUPPORTED_VERSION", "finalized feature"),
        (7, "REQUEST_TIMED_OUT", "start the controllers"),
    ],
)
def test_a_broker_that_cannot_register_in_time_reports_why(code: int, name: str, hint: str) -> None:
    rig = Rig()
    rig.start()
    assert len(rig.answer_all(BrokerRegistrationResponse(error_code=code), 59_990)) > 9
    assert rig.errors == []
    rig.jobs.pass_ms(10)
    (error,) = rig.errors
    assert isinstance(error, RegistrationTimeoutError)
    assert str(error) == f"broker 1 could not register with the active controller in 60000 ms: {name}"
    assert hint in error.hint
    rig.asked.clear()
    rig.jobs.pass_ms(100_000)
    assert (rig.asked, len(rig.errors)) == ([], 1)


def test_a_broker_without_any_response_cannot_register() -> None:
    rig = Rig(initial_broker_registration_timeout_ms=5_000)
    rig.start()
    rig.jobs.pass_ms(5_000)
    (error,) = rig.errors
    assert "in 5000 ms: no response" in str(error)
    rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    assert rig.asked == []


def test_only_the_first_registration_has_a_deadline() -> None:
    rig = Rig().run()
    rig.jobs.pass_ms(2_000)
    rig.answer(BrokerHeartbeatResponse(error_code=77))
    rig.answer_all(BrokerRegistrationResponse(error_code=101), 120_000)
    assert rig.errors == []


def test_a_broker_that_registered_may_wait_longer_to_be_unfenced() -> None:
    rig = Rig()
    rig.start()
    rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    rig.answer_all(BrokerHeartbeatResponse(is_fenced=True), 61_000)
    assert rig.errors == []


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_failed_directory_must_be_reported_in_time(is_reported: bool) -> None:
    rig = Rig().run()
    rig.directories.all[0].is_live = False
    rig.node.replicas.on_directory_failed(rig.directories.all[0])
    code = 0 if is_reported else 7
    rig.answer_all(BrokerHeartbeatResponse(error_code=code), 29_990)
    assert rig.errors == []
    rig.answer_all(BrokerHeartbeatResponse(error_code=code), 100)
    assert [(type(error), str(error)) for error in rig.errors] == (
        [] if is_reported else [(LogDirUnreportedError, "broker 1 could not report in 30000 ms that /b has failed")]
    )


def test_a_heartbeat_that_was_sent_before_the_failure_does_not_report_it() -> None:
    rig = Rig().run()
    rig.jobs.pass_ms(2_000)
    rig.directories.all[0].is_live = False
    rig.node.replicas.on_directory_failed(rig.directories.all[0])
    rig.answer(BrokerHeartbeatResponse())
    rig.jobs.pass_ms(30_000)
    assert [type(error) for error in rig.errors] == [LogDirUnreportedError]
