"""A controller that is not active registers with the active one until the metadata has its registration."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from support.brokers.stub import StubController
from support.metadata.controllers import NODE_ID, ControllerRig
from tailrace.broker.controller_registrar import CONFIRMATION_MS, MAX_RETRY_MS, ControllerRegistrar
from tailrace.controller.controllers import registration_of
from tailrace.metadata.controller_registration import ControllerRegistration
from tailrace.metadata.versions import METADATA_VERSION
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.message import Request
from tailrace.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import FeatureLevelRecord

LEADER = 7


class Inactive:
    """A controller that follows node 7."""

    def __init__(self, metadata_version: int = 30) -> None:
        self.rig = ControllerRig(starts=False)
        level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version)
        self.rig.loader.committed([VersionedRecord(level, 0)], 1, 1, 0)
        self.rig.loader.leader_changed(LEADER, 1)
        self.link = StubController()
        controller: Any = self.rig.controller
        self.registrar = ControllerRegistrar(controller, self.link, self.rig.image, controller._env)

    @property
    def sent(self) -> list[tuple[Request, int]]:
        return self.link.sent

    def tick(self, ms: int = 0) -> int:
        """The number of requests so far."""
        self.rig.clock.ms += ms
        self.registrar.tick()
        return len(self.sent)

    def answer(self, code: int) -> None:
        self.link.answer(ControllerRegistrationResponse(error_code=code))

    def learn(self, registration: ControllerRegistration) -> None:
        offset = self.rig.image.offset + 1
        self.rig.loader.committed([registration.to_record()], offset, 1, 0)


@pytest.fixture
def inactive() -> Inactive:
    return Inactive()


def test_a_registration_is_what_an_active_controller_writes_about_itself(inactive: Inactive) -> None:
    assert inactive.tick() == 1
    ((request, version),) = inactive.sent
    assert isinstance(request, ControllerRegistrationRequest)
    received = decode(ControllerRegistrationRequest, version, encode(request, version))
    active = ControllerRig()
    assert active.ask(received).error_code == 0
    assert active.image.controllers[NODE_ID] == registration_of(inactive.rig.controller.state.identity)


def test_it_is_sent_until_the_metadata_has_it(inactive: Inactive) -> None:
    assert inactive.tick() == 1
    assert inactive.tick(60_000) == 1  # no response yet
    inactive.answer(0)
    assert inactive.tick(CONFIRMATION_MS - 1) == 1
    assert inactive.tick(1) == 2
    inactive.answer(0)
    inactive.learn(registration_of(inactive.rig.controller.state.identity))
    assert inactive.tick(10 * MAX_RETRY_MS) == 2


def test_failures_back_off(inactive: Inactive) -> None:
    delays = []
    for count in range(1, 15):
        waited = 0
        while inactive.tick() < count:
            inactive.rig.clock.ms += 10
            waited += 10
        delays.append(waited)
        inactive.answer(41)
    assert delays[0] == 0
    assert 90 <= delays[1] <= 110
    assert all(later >= earlier * 0.95 for earlier, later in pairwise(delays))
    assert MAX_RETRY_MS * 0.97 <= delays[-1] <= MAX_RETRY_MS * 1.03


def test_a_new_leader_is_asked_at_once(inactive: Inactive) -> None:
    inactive.tick()
    inactive.answer(41)
    assert inactive.tick() == 1
    inactive.rig.loader.leader_changed(None, 2)
    assert inactive.tick(60_000) == 1
    inactive.rig.loader.leader_changed(8, 2)
    assert inactive.tick() == 2


def test_another_incarnation_is_replaced(inactive: Inactive) -> None:
    inactive.learn(ControllerRegistration(NODE_ID, b"old" + bytes(13)))
    assert inactive.tick() == 1


def test_a_registration_that_the_active_controller_has_changed_is_not_repeated(inactive: Inactive) -> None:
    """A controller of another vendor may list endpoints in another order, or leave out what it does not know."""
    identity = inactive.rig.controller.state.identity
    inactive.learn(ControllerRegistration(NODE_ID, identity.incarnation_id))
    assert inactive.tick(10 * MAX_RETRY_MS) == 0


def test_an_active_controller_sends_nothing() -> None:
    inactive = Inactive()
    inactive.rig.loader.leader_changed(NODE_ID, 2)
    assert inactive.tick(60_000) == 0


def test_an_old_metadata_version_has_no_registrations() -> None:
    assert Inactive(metadata_version=14).tick() == 0
