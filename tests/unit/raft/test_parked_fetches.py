"""Fetches that wait equal a plain list of them, after any sequence of operations."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.raft.consensus.messages import FetchRequest, ReplicaKey
from tailrace.raft.consensus.parked_fetches import ParkedFetch, ParkedFetches
from tailrace.raft.consensus.replica_progress import ReplicaProgress
from tailrace.raft.consensus.voter_log import VoterSet
from tailrace.raft.voters import Voter

REPLICAS = st.sampled_from([ReplicaKey(-1), *map(ReplicaKey, range(4))])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), REPLICAS, st.integers(0, 20)),
        st.tuples(st.just("due"), st.none(), st.integers(0, 20)),
        st.tuples(st.just("all"), st.none(), st.just(0)),
    ),
    max_size=40,
)


@given(OPERATIONS)
@settings(max_examples=examples(200))
def test_parked_fetches_equal_a_list(operations: list[tuple[str, ReplicaKey | None, int]]) -> None:
    parked, expected = ParkedFetches(), list[ParkedFetch]()
    for request_id, (name, replica, ms) in enumerate(operations):
        if replica is not None:
            earlier = [each for each in expected if each.request.replica == replica and replica.node_id >= 0]
            assert parked.take_of(replica) == (earlier[0] if earlier else None)
            expected = [each for each in expected if each not in earlier]
            expected.append(ParkedFetch(request_id, FetchRequest(replica, 1, 0, 0, 0, 500), ms))
            parked.add(expected[-1])
        elif name == "due":
            assert parked.take_due(ms) == [each for each in expected if each.deadline_ms <= ms]
            expected = [each for each in expected if each.deadline_ms > ms]
        else:
            assert parked.take_all() == expected
            expected = []
        assert list(parked) == expected
        assert len(parked) == len(expected)
        assert parked.next_deadline_ms() == min((each.deadline_ms for each in expected), default=None)


def test_a_replica_that_fetches_again_and_again_takes_no_more_memory() -> None:
    parked = ParkedFetches()
    for request_id in range(1000):
        parked.take_of(ReplicaKey(1))
        parked.add(ParkedFetch(request_id, FetchRequest(ReplicaKey(1), 1, 0, 0, 0, 500), request_id))
    assert len(parked) == 1
    assert len(vars(parked)["_deadlines"]) < 10


@given(st.lists(st.tuples(st.integers(2, 6), st.integers(0, 200_000)), max_size=30))
@settings(max_examples=examples(100))
def test_observers_are_forgotten_in_the_order_of_their_last_fetches(fetches: list[tuple[int, int]]) -> None:
    progress, last, now_ms = ReplicaProgress(ReplicaKey(1), VoterSet(-1, 0, (Voter(1),))), dict[ReplicaKey, int](), 0
    for node_id, passed_ms in fetches:
        now_ms += passed_ms
        progress.forget_observers(now_ms)
        last = {key: fetched_ms for key, fetched_ms in last.items() if now_ms - fetched_ms < 300_000}
        assert set(progress.observers) == set(last)
        progress.state_of(ReplicaKey(node_id)).on_fetch(0, 0, now_ms)
        last[ReplicaKey(node_id)] = now_ms
        assert progress.next_forgotten_ms() == min(last.values()) + 300_000
