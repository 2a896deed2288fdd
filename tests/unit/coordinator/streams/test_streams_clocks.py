"""What a thread is given time for goes by what is in the log."""

from __future__ import annotations

from support.coordinators.refused_appends import refused_appends
from support.coordinators.streams import StreamsRig, StreamsThread


def is_timed(rig: StreamsRig, member_id: str) -> bool:
    """Whether it has to give up tasks in time."""
    return rig.pair.leader.machine.shard.timers.is_scheduled(("streams rebalance", "g", member_id))


def two_threads(rig: StreamsRig) -> StreamsThread:
    """The first has everything, and the second waits for its half."""
    first, second = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    first.beat()
    second.beat()
    return first


def test_who_is_told_of_nothing_is_not_late_to_give_it_up() -> None:
    rig = StreamsRig()
    first = two_threads(rig)
    with refused_appends():
        rig.send_beat("a", first.epoch, held=first.held)
    assert not is_timed(rig, "a")
    first.beat()
    assert is_timed(rig, "a")


def test_who_has_not_been_heard_giving_up_is_still_being_timed() -> None:
    rig = StreamsRig()
    first = two_threads(rig)
    first.beat()
    with refused_appends():
        rig.send_beat("a", first.epoch, held=first.held)
    assert is_timed(rig, "a")
    first.beat()
    assert not is_timed(rig, "a")
