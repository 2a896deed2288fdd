"""A broker stops while a flush is on its way: from then on the log belongs to the thread that closes it."""

from __future__ import annotations

from support.logs.managers import P0, ManagedWorld


def test_a_flush_that_ends_while_its_log_is_closed_changes_nothing() -> None:
    world = ManagedWorld()
    world.start()
    world.create()
    world.append(P0, 3)
    log = world.log()
    log.roll()  # starts a flush, for which a producer snapshot waits
    while world.jobs.pending[0] != "flush-log: done":
        world.jobs.run_one()
    before = log.recovery_point
    ended: list[bool] = []
    world.manager.shutdown(lambda: ended.append(True))
    assert world.jobs.pending[0] == "flush-log: done", "nothing was closed yet"
    world.jobs.run_one()
    assert log.recovery_point == before
    world.run()
    assert ended == [True]
    again = world.restart()
    assert again.log(P0).log_end_offset == 3
    assert again.log(P0).recovery_point == 3
