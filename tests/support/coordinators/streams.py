"""Threads of streams applications, and the coordinator that they talk to: commands go straight to its runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.conversations.streams_members import KINDS, Held, subtopology, task_ids, topology
from support.coordinators.classic import GROUP, Awaited
from support.coordinators.consumer import ConsumerRig
from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.heartbeats import HeartbeatAnswer
from tailrace.coordinator.streams.requests import check_request
from tailrace.coordinator.streams.status import StatusCode
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.streams_group_describe import DescribedGroup
from tailrace.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

WORDS = topology(subtopology("0", "t"), subtopology("1", "u", state="u-store"))
"""Reads topics `t` and `u`, with a store for the latter."""


class StreamsRig(ConsumerRig):
    def __init__(self, topics: Mapping[str, int] | None = None, *, in_sync: Sequence[int] = (1,), **settings: Any):
        """Assignments follow each other at once, and the first is not put off, unless it is said otherwise."""
        settings.setdefault("group_streams_assignment_interval_ms", "0")
        settings.setdefault("group_streams_initial_rebalance_delay_ms", "0")
        if topics is None:
            topics = {"t": 4, "u": 2, "u-store": 2}
        super().__init__(topics, in_sync=in_sync, **settings)

    @property
    def streams(self) -> StreamsGroup:
        group = self.pair.leader.machine.groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    def send_beat(self, member_id: str, epoch: int, *, held: Held | None = None, **fields: Any) -> Awaited:
        if held is not None:
            fields.update({f"{kind}_tasks": task_ids(held.get(kind, {})) for kind in KINDS})
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
        try:
            check_request(request)
        except TailraceError as error:
            awaited = Awaited()
            awaited(error)
            return awaited
        caller = Caller("me", "/10.0.0.1", 0)
        return self.submit(lambda machine: machine.streams.heartbeat(caller, request))

    def describe_streams(self) -> DescribedGroup:
        answer = self.submit(lambda machine: Outcome(response=machine.streams.describe(GROUP))).answer
        assert isinstance(answer, DescribedGroup), repr(answer)
        return answer


class StreamsThread:
    """It gives up and takes what it is told to, when it is told to."""

    def __init__(self, rig: StreamsRig, member_id: str, process: str | None = None, **fields: Any) -> None:
        self.rig = rig
        self.member_id = member_id
        self.fields = {"process_id": process or member_id, "topology": WORDS, "rebalance_timeout_ms": 30_000, **fields}
        self.epoch = 0
        self.held: dict[str, dict[str, list[int]]] = {}
        self.statuses: list[StatusCode] = []
        self.last: HeartbeatAnswer | None = None

    def beat(self, *, loses_answer: bool = False, **fields: Any) -> TailraceError | None:
        """One heartbeat. What went wrong, where it was refused: the thread has given everything up then."""
        said = {**self.fields, **fields} if self.epoch == 0 else fields
        answer = self.rig.send_beat(self.member_id, self.epoch, held=self.held, **said).answer
        if loses_answer:
            return None
        if isinstance(answer, TailraceError):
            self.epoch, self.held = 0, {}
            return answer
        assert isinstance(answer, HeartbeatAnswer), repr(answer)
        self._take(answer.response)
        self.last = answer
        return None

    def _take(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.statuses = [StatusCode(each.status_code) for each in response.status or ()]
        for kind in KINDS:
            tasks = getattr(response, f"{kind}_tasks")
            if tasks is not None:
                self.held[kind] = {each.subtopology_id: list(each.partitions) for each in tasks}

    def leave(self, **fields: Any) -> None:
        self.rig.send_beat(self.member_id, -1, **fields)
        self.epoch, self.held = 0, {}

    def tasks(self, *kinds: str) -> set[tuple[str, int]]:
        """Of these kinds; active ones when none are named."""
        return {
            (key, index)
            for kind in kinds or ("active",)
            for key, indexes in self.held.get(kind, {}).items()
            for index in indexes
        }
