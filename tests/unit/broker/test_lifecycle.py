"""A broker's life, told by what it asks of the controller."""

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
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.model.ids import TopicId
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

FIRST, SECOND = TopicId(b"1" * 16), TopicId(b"2" * 16)


class Directories:
    def __init__(self) -> None:
        self.all = [
            SimpleNamespace(id=SECOND, is_live=True, is_cordoned=False),
            SimpleNamespace(id=FIRST, is_live=True, is_cordoned=False),
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
        }
        self.node = SimpleNamespace(
            node_id=1,
            cluster_id="cluster",
            config=SimpleNamespace(**(config | settings)),
            env=SimpleNamespace(jobs=self.jobs, random=random.Random(1)),
            image=MetadataImage(),
            controller=SimpleNamespace(send=self._send),
            supported_features=SUPPORTED_FEATURES,
            logs=SimpleNamespace(directories=self.directories, previous_broker_epoch=41),
            replicas=SimpleNamespace(on_directory_failed=None),
        )
        self.lifecycle = BrokerLifecycle(cast(Any, self.node), (Endpoint("PLAINTEXT", "h", 9092),), b"i" * 16)
        self.events: list[str] = []

    def _send(self, request: Request, version: int, done: Callable[[Response], None]) -> None:
        self.asked.append((request, done))

    def take(self) -> tuple[Any, Callable[[Response], None]]:
        assert len(self.asked) == 1, f"{len(self.asked)} requests are under way"
        return self.asked.pop()

    def answer(self, response: Response) -> Any:
        request, done = self.take()
        done(response)
        return request

    def run(self) -> Rig:
        """Registered and unfenced."""
        self.lifecycle.start(lambda: self.events.append("unfenced"))
        self.answer(BrokerRegistrationResponse(broker_epoch=50))
        self.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        return self


def test_it_registers_beats_and_is_unfenced() -> None:
    rig = Rig()
    rig.node.image.offset = 60
    rig.lifecycle.start(lambda: rig.events.append("unfenced"))
    registration = rig.answer(BrokerRegistrationResponse(broker_epoch=50))
    assert isinstance(registration, BrokerRegistrationRequest)
    assert (registration.broker_id, registration.cluster_id, registration.rack) == (1, "cluster", "r")
    assert registration.incarnation_id == b"i" * 16
    assert [(each.name, each.host, each.port) for each in registration.listeners] == [("PLAINTEXT", "h", 9092)]
    features = {each.name: (each.min_supported_version, each.max_supported_version) for each in registration.features}
    assert features == SUPPORTED_FEATURES
    assert registration.log_dirs == [FIRST.raw, SECOND.raw]
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
    rig.lifecycle.start(lambda: rig.events.append("unfenced"))
    waited = []
    for _ in range(9):
        rig.answer(BrokerRegistrationResponse(error_code=101))
        began = rig.jobs.now_ms
        while not rig.asked:
            rig.jobs.pass_ms(1)
        waited.append(rig.jobs.now_ms - began)
    assert waited[0] == pytest.approx(100, rel=0.05)
    assert waited[1] == pytest.approx(200, rel=0.05)
    assert waited[-1] == pytest.approx(9000, rel=0.05)


def test_a_broker_that_is_no_longer_known_registers_anew() -> None:
    rig = Rig().run()
    rig.jobs.pass_ms(2000)
    rig.answer(BrokerHeartbeatResponse(error_code=77))
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
    assert request.offline_log_dirs == [SECOND.raw]


def test_cordoned_directories_are_told_as_long_as_the_controller_does_not_know() -> None:
    rig = Rig().run()
    rig.directories.all[1].is_cordoned = True
    rig.jobs.pass_ms(2000)
    request = rig.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert request.cordoned_log_dirs == [FIRST.raw]
    rig.node.image.brokers[1] = BrokerRegistration(1, 50, b"i" * 16, cordoned_directories=(FIRST.raw,))
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


def test_it_leaves_in_the_end_though_nobody_answers() -> None:
    rig = Rig().run()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    rig.jobs.pass_ms(300_000)
    assert rig.events == ["unfenced", "gone"]


@pytest.mark.parametrize("is_registered", [True, False])
def test_it_leaves_at_once(is_registered: bool) -> None:
    rig = Rig(controlled_shutdown_enable=False).run() if is_registered else Rig()
    rig.lifecycle.shutdown(lambda: rig.events.append("gone"))
    assert rig.events[-1] == "gone"
    assert rig.asked == []
