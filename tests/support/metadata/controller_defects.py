"""Defects of the active controller, its brokers' registrations and its failover; see `node_defects`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import envelope
from tailrace.broker.lifecycle import BrokerLifecycle
from tailrace.controller import brokers, partitions
from tailrace.controller.controller import Controller
from tailrace.controller.heartbeats import Heartbeats
from tailrace.controller.state import ClusterState
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.message import Request, Response
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionRecord

# Responses


def acknowledges_what_is_appended(patch: pytest.MonkeyPatch) -> None:
    """A command is acknowledged before its records are committed."""

    def respond(
        controller: Controller, request: Request, version: int, response: Response, done: Callable[[Response], None]
    ) -> None:
        done(response)

    patch.setattr(Controller, "_respond", respond)


def acknowledges_forwarded_commands_early(patch: pytest.MonkeyPatch) -> None:
    """Only the commands that brokers forward are acknowledged before their records are committed."""
    handle, respond = envelope.handle, Controller._respond
    is_forwarded = False

    def marked(node: Any, context: RequestContext, request: Any, reply: Callable[[Any], None]) -> None:
        nonlocal is_forwarded
        is_forwarded = True
        try:
            handle(node, context, request, reply)
        finally:
            is_forwarded = False

    def early(controller: Controller, request: Request, version: int, response: Response, done: Any) -> None:
        if is_forwarded:
            done(response)
        else:
            respond(controller, request, version, response, done)

    patch.setattr(envelope, "handle", marked)
    patch.setattr(Controller, "_respond", early)


def acknowledges_at_resignation(patch: pytest.MonkeyPatch) -> None:
    """A controller that resigns acknowledges what it has appended, though another one may replace it."""
    resigned = Controller.resigned

    def acknowledging(controller: Controller) -> None:
        for each in controller._waiting:
            each.done(each.response)
        controller._waiting.clear()
        resigned(controller)

    patch.setattr(Controller, "resigned", acknowledging)


# The state of a controller


def keeps_its_state_after_resignation(patch: pytest.MonkeyPatch) -> None:
    """What is appended and not committed stays in the state of a controller that has resigned."""
    patch.setattr(ClusterState, "replace", lambda *_: None)


def returns_to_the_offset_only(patch: pytest.MonkeyPatch) -> None:
    """A controller that resigned has the offset of the committed image, and keeps its topics."""

    def replace(state: ClusterState, image: MetadataImage, registration_offsets: Any) -> None:
        state.image.offset, state.image.epoch = image.offset, image.epoch

    patch.setattr(ClusterState, "replace", replace)


def standby_reads_nothing(patch: pytest.MonkeyPatch) -> None:
    """A controller that is not active does not replay what the active one commits."""
    committed = Controller.committed

    def when_active(controller: Controller, *batch: Any) -> None:
        if controller.is_active:
            committed(controller, *batch)

    patch.setattr(Controller, "committed", when_active)


def keeps_its_state_below_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A snapshot that replaces the log replaces the image of a node, and not the state of its controller."""
    loaded = Controller.loaded

    def first_only(controller: Controller, prepared: Any, delta: MetadataDelta) -> None:
        if controller.image.is_new:
            loaded(controller, prepared, delta)

    patch.setattr(Controller, "loaded", first_only)


# Brokers


def registers_once(patch: pytest.MonkeyPatch) -> None:
    """A broker that the controller no longer knows sends heartbeats, and does not register again."""

    def failed(lifecycle: BrokerLifecycle, code: int) -> None:
        lifecycle._log_failure("heartbeat failed", code)
        lifecycle._plan_after_failure()

    patch.setattr(BrokerLifecycle, "_heartbeat_failed", failed)


def reuses_broker_epochs(patch: pytest.MonkeyPatch) -> None:
    """A new incarnation of a broker gets the epoch of the one before."""
    register = brokers.register

    def reusing(state: ClusterState, request: Any, next_offset: int, now_ms: int) -> Any:
        existing = state.image.brokers.get(request.broker_id)
        return register(state, request, next_offset if existing is None else existing.epoch, now_ms)

    patch.setattr(brokers, "register", reusing)


def counts_fenced_brokers(patch: pytest.MonkeyPatch) -> None:
    """A fenced broker stays in every ISR, and leads on."""
    fenced = brokers.fenced

    def registration_only(state: ClusterState, broker_id: int) -> list[VersionedRecord]:
        return fenced(state, broker_id)[-1:]

    patch.setattr(brokers, "fenced", registration_only)


def previous_incarnation_leads(patch: pytest.MonkeyPatch) -> None:
    """What the previous incarnation of a broker led keeps its leader when the broker registers again."""
    patch.setattr(brokers, "_previous_incarnation_gone", lambda state, request: ())


def unregistered_brokers_lead(patch: pytest.MonkeyPatch) -> None:
    """A broker is unregistered, and its partitions keep it as leader."""
    unregister = brokers.unregister

    def registration_only(state: ClusterState, request: Any) -> Any:
        decision = unregister(state, request)
        return decision._replace(records=decision.records[-1:])

    patch.setattr(brokers, "unregister", registration_only)


def unfences_at_once(patch: pytest.MonkeyPatch) -> None:
    """The first heartbeat unfences a broker, though it has not read its own registration."""
    next_state = Heartbeats.next_state

    def at_once(heartbeats: Heartbeats, broker_id: int, **wishes: bool) -> Any:
        return next_state(heartbeats, broker_id, **{**wishes, "has_caught_up": True})

    patch.setattr(Heartbeats, "next_state", at_once)


def forgets_where_brokers_registered(patch: pytest.MonkeyPatch) -> None:
    """The controller counts a broker as caught up from the first record of the log on."""
    replay = ClusterState.replay

    def forgetful(state: ClusterState, records: Any, first_offset: int) -> None:
        replay(state, records, first_offset)
        state.registration_offsets = dict.fromkeys(state.image.brokers, 0)

    patch.setattr(ClusterState, "replay", forgetful)


# Topics


def grows_from_the_first_partition(patch: pytest.MonkeyPatch) -> None:
    """New partitions of a topic take the indexes of the first ones."""
    added = partitions._added

    def from_zero(state: ClusterState, topic: Any, records_before: int) -> list[VersionedRecord]:
        new = added(state, topic, records_before)
        for index, each in enumerate(new):
            assert isinstance(each.record, PartitionRecord)
            each.record.partition_id = index
        return new

    patch.setattr(partitions, "_added", from_zero)
