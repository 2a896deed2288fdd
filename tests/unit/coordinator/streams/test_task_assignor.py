"""The sticky assignor: everything assigned, evenly, and as little moved as that allows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.streams.assignor import AssignableMember, assign
from tailrace.coordinator.streams.configured import ConfiguredSubtopology, InternalTopic
from tailrace.coordinator.streams.tasks import NOTHING_ASSIGNED, TaskSet

Targets = dict[str, TaskSet]
Task = tuple[str, int]


def a_subtopology(tasks: int, *, is_stateful: bool) -> ConfiguredSubtopology:
    changelogs = (InternalTopic("store", tasks, 0, {}),) if is_stateful else ()
    return ConfiguredSubtopology(tasks, ("in",), (), (), changelogs)


def ids(tasks: object) -> set[Task]:
    assert isinstance(tasks, dict)
    return {(key, index) for key, indexes in tasks.items() for index in indexes}


processes = st.dictionaries(st.sampled_from([f"m{n}" for n in range(9)]), st.sampled_from("PQRS"), min_size=1)
topologies = st.dictionaries(
    st.sampled_from("012"),
    st.builds(lambda count, has_state: a_subtopology(count, is_stateful=has_state), st.integers(1, 7), st.booleans()),
    min_size=1,
)


def divided(
    members: dict[str, str], topology: dict[str, ConfiguredSubtopology], standbys: int, before: Targets | None = None
) -> Targets:
    known = before or {}
    return assign(
        {key: AssignableMember(process, known.get(key, NOTHING_ASSIGNED)) for key, process in members.items()},
        topology,
        standbys,
    )


def check(targets: Targets, members: dict[str, str], topology: dict[str, ConfiguredSubtopology], standbys: int) -> None:
    wanted = {(key, index) for key, each in topology.items() for index in range(each.task_count)}
    assert set(targets) == set(members)
    active = [task for target in targets.values() for task in ids(target.active)]
    assert len(active) == len(wanted)
    assert set(active) == wanted
    counts = [len(ids(target.active)) for target in targets.values()]
    assert max(counts) - min(counts) <= 1

    in_process: Counter[tuple[str, Task]] = Counter()
    copies: Counter[Task] = Counter()
    for member_id, target in targets.items():
        in_process.update((members[member_id], task) for task in (*ids(target.active), *ids(target.standby)))
        copies.update(ids(target.standby))
        assert not target.warmup
    assert all(count == 1 for count in in_process.values())
    possible = min(standbys, len(set(members.values())) - 1)
    for task in wanted:
        assert copies[task] == (possible if topology[task[0]].is_stateful else 0)


@given(members=processes, topology=topologies, standbys=st.integers(0, 3), later=processes, more=st.integers(0, 3))
def test_every_task_is_somewhere_and_nobody_has_much_more_than_others(
    members: dict[str, str],
    topology: dict[str, ConfiguredSubtopology],
    standbys: int,
    later: dict[str, str],
    more: int,
) -> None:
    first = divided(members, topology, standbys)
    check(first, members, topology, standbys)
    second = divided(later, topology, more, first)
    check(second, later, topology, more)


@given(members=processes, topology=topologies, standbys=st.integers(0, 2))
def test_without_a_change_active_tasks_stay(
    members: dict[str, str], topology: dict[str, ConfiguredSubtopology], standbys: int
) -> None:
    first = divided(members, topology, standbys)
    second = divided(members, topology, standbys, first)
    assert {key: target.active for key, target in second.items()} == {
        key: target.active for key, target in first.items()
    }


@given(members=processes, topology=topologies, gone=st.sampled_from([f"m{n}" for n in range(9)]))
def test_who_stays_loses_nothing_when_another_leaves(
    members: dict[str, str], topology: dict[str, ConfiguredSubtopology], gone: str
) -> None:
    first = divided(members, topology, 0)
    left = {key: process for key, process in members.items() if key != gone}
    if not left:
        return
    second = divided(left, topology, 0, first)
    for key in left:
        assert ids(first[key].active) <= ids(second[key].active)


@given(members=processes, topology=topologies)
def test_one_more_member_takes_only_its_share(
    members: dict[str, str], topology: dict[str, ConfiguredSubtopology]
) -> None:
    first = divided(members, topology, 0)
    second = divided({**members, "new": "N"}, topology, 0, first)
    moved = sum(len(ids(second[key].active) - ids(first[key].active)) for key in members)
    assert moved == 0


@given(members=processes, topology=topologies, standbys=st.integers(0, 2))
def test_the_order_of_members_does_not_matter(
    members: dict[str, str], topology: dict[str, ConfiguredSubtopology], standbys: int
) -> None:
    first = divided(members, topology, standbys)
    backwards = dict(reversed(members.items()))
    assert divided(backwards, topology, standbys) == first
    assert divided(backwards, topology, standbys, first) == divided(members, topology, standbys, first)


def test_a_standby_takes_over() -> None:
    topology = {"0": a_subtopology(4, is_stateful=True)}
    members = {"a": "P", "b": "Q"}
    first = divided(members, topology, 1)
    assert ids(first["a"].standby) == ids(first["b"].active)
    # c had a standby of what only a had: it is active there now, and not at d, which has as little to do.
    before = {"b": first["b"], "c": TaskSet(standby=first["a"].active), "d": NOTHING_ASSIGNED}
    second = divided({"b": "Q", "c": "R", "d": "S"}, topology, 0, before)
    assert ids(second["b"].active) == ids(first["b"].active)
    assert ids(second["c"].active) < ids(first["a"].active)
    assert len(ids(second["c"].active)) == len(ids(second["d"].active)) == 1


def test_standbys_stay_where_the_share_allows() -> None:
    topology = {"0": a_subtopology(6, is_stateful=True)}
    members = {"a": "P", "b": "Q", "c": "R"}
    first = divided(members, topology, 1)
    assert divided(members, topology, 1, first) == first


def test_no_members_no_tasks() -> None:
    assert divided({}, {"0": a_subtopology(2, is_stateful=False)}, 1) == {}
