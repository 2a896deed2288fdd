"""Whatever the order of heartbeats, lost answers, joins, leaves and new topics: a task is active in one place."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from suite.seeds import examples
from support.coordinators.streams import StreamsRig, StreamsThread
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.tasks import OwnedTaskSet
from tailrace.protocol.records.settings import ConfigRecord

PROCESSES = {"a": "P", "b": "P", "c": "Q", "d": "R"}
"""Of the threads."""
GROUP_RESOURCE = 32
a_name = st.sampled_from(sorted(PROCESSES))


def tasks_in(tasks: OwnedTaskSet) -> Counter[tuple[str, int]]:
    return Counter((key, index) for kind in tasks for key, indexes in kind.items() for index in indexes)


class OnePlace(RuleBasedStateMachine):
    """Threads as they see themselves. One that the coordinator has taken out, and does not know it yet, is not asked:
    its session has ended, and it must not count on anything."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = StreamsRig({"t": 3, "u": 4, "u-store": 4})
        self.threads: dict[str, StreamsThread] = {}

    @initialize()
    def begin(self) -> None:
        self._thread("a").beat()

    def _thread(self, name: str) -> StreamsThread:
        if name not in self.threads:
            self.threads[name] = StreamsThread(self.rig, name, PROCESSES[name])
        return self.threads[name]

    @property
    def _members(self) -> dict[str, StreamsMember]:
        return getattr(self.rig.pair.leader.machine.groups.get("g"), "members", {})

    @rule(name=a_name, loses_answer=st.booleans())
    def heartbeat(self, name: str, loses_answer: bool) -> None:
        self._thread(name).beat(loses_answer=loses_answer)

    @rule(name=a_name)
    def leave(self, name: str) -> None:
        thread = self.threads.pop(name, None)
        if thread is not None and name in self._members:
            thread.leave()

    @rule(more=st.integers(1, 2))
    def widen(self, more: int) -> None:
        self.rig.extend("t", len(self.rig.pair.image.topics["t"].partitions) + more)

    @rule()
    def lose_and_find_a_topic(self) -> None:
        self.rig.delete("t")
        for name in self._members:
            self._thread(name).beat()
        self.rig.create("t", 2)

    @rule(count=st.integers(0, 2))
    def standbys(self, count: int) -> None:
        name = "streams.num.standby.replicas"
        self.rig._change([ConfigRecord(resource_type=GROUP_RESOURCE, resource_name="g", name=name, value=str(count))])

    @rule(ms=st.sampled_from([5_000, 31_000]))
    def pass_time(self, ms: int) -> None:
        self.rig.pass_time(ms)

    @rule()
    def another_coordinator(self) -> None:
        self.rig.reload()

    @invariant()
    def no_task_is_active_twice(self) -> None:
        known = [thread for name, thread in self.threads.items() if name in self._members]
        active = [task for thread in known for task in thread.tasks()]
        assert len(active) == len(set(active))

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        found: Counter[tuple[str, tuple[str, int]]] = Counter()
        for member in self._members.values():
            for tasks in (member.owned, member.revoked):
                for task, count in tasks_in(tasks).items():
                    found[member.process_id, task] += count
        assert all(count == 1 for count in found.values())

    @invariant()
    def who_owns_what_is_known(self) -> None:
        group = self.rig.pair.leader.machine.groups.get("g")
        for member in self._members.values():
            for key, since in member.owned.active.items():
                for index in since:
                    assert getattr(group, "owners").is_active_in(key, index, member.process_id)  # noqa: B009

    def teardown(self) -> None:
        """When nothing happens any more everybody reaches its target, and every task is active."""
        if not self._members:
            return
        for _ in range(12):
            for name in list(self._members):
                self._thread(name).beat()
        group = self.rig.streams
        assert group.state_name == "Stable"
        widths = {"0": len(self.rig.pair.image.topics["t"].partitions), "1": 4}
        wanted = {(key, index) for key, width in widths.items() for index in range(width)}
        assert {task for name in group.members for task in self.threads[name].tasks()} == wanted


TestOnePlace = OnePlace.TestCase
TestOnePlace.settings = settings(max_examples=examples(40), stateful_step_count=30)
