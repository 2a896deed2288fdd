"""Machines of a universe: their clocks, jobs, processes and disks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.universe.endpoints import Idle
from tailrace.env import Clock, Env, Mode
from tailrace.model.errors import InvalidConfigError
from tailrace.model.invariant import InvariantError
from tailrace.sim.clock import START_MS, MachineClock, TrueTime
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.faults import Survival
from tailrace.sim.machine import Machine
from tailrace.sim.process import Process, Program
from tailrace.sim.timed_jobs import JOB_THREADS, JobTimes, Span
from tailrace.sim.universe import Universe


def idle_machine(seed: int = 0, boot: Callable[[Process], Program] = Idle) -> tuple[Universe, Machine]:
    universe = Universe(seed)
    machine = universe.add_machine("one", boot, directories=("/data",))
    machine.start()
    return universe, machine


def env_of(machine: Machine) -> Env:
    assert machine.process is not None
    return machine.process.env


# Clocks


def test_a_clock_follows_true_time_with_its_skew() -> None:
    time = TrueTime()
    machine_clock = MachineClock(time, monotonic_ms=5_000, skew_ms=-70)
    clock: Clock = machine_clock
    time.now_us = 1_999
    assert (clock.monotonic_ms(), clock.now_ms()) == (5_001, START_MS - 69)
    machine_clock.jump(-3_600_000)
    assert (clock.monotonic_ms(), clock.now_ms()) == (5_001, START_MS - 69 - 3_600_000)
    machine_clock.correct()
    assert (clock.monotonic_ms(), clock.now_ms()) == (5_001, START_MS + 1)


@pytest.mark.parametrize("ppm", [-100_000, -37, 0, 41, 99_999])
def test_a_drift_changes_the_speed_and_never_jumps(ppm: int) -> None:
    time = TrueTime()
    clock = MachineClock(time, monotonic_ms=777)
    time.now_us = 10_000_123
    before_ms = clock.monotonic_ms()
    clock.drift(ppm)
    assert clock.monotonic_ms() == before_ms
    time.now_us += 100_000_000
    assert abs(clock.monotonic_ms() - before_ms - 100_000 * (1_000_000 + ppm) // 1_000_000) <= 1
    for wanted_ms in range(clock.monotonic_ms(), clock.monotonic_ms() + 300, 7):
        due_us = clock.true_us(wanted_ms)
        now_us, time.now_us = time.now_us, due_us
        assert clock.monotonic_ms() >= wanted_ms
        time.now_us = due_us - 1
        assert due_us == now_us or clock.monotonic_ms() < wanted_ms
        time.now_us = now_us


def test_a_drift_has_a_limit() -> None:
    with pytest.raises(InvariantError):
        MachineClock(TrueTime()).drift(100_001)


def test_delayed_actions_follow_the_own_clock_of_the_machine() -> None:
    universe, machine = idle_machine()
    fired: list[tuple[str, int]] = []
    jobs = env_of(machine).jobs
    for name, delay_ms in (("b", 1_000), ("c", 1_000), ("a", 500)):
        jobs.later(name, delay_ms, lambda name=name: fired.append((name, universe.time.now_us)))  # type: ignore[misc]
    universe.run_for(100)
    machine.clock.drift(-100_000)
    machine.clock.jump(10**9)
    universe.run_for(2_000)
    assert [name for name, _ in fired] == ["a", "b", "c"]
    assert [500_000 < at < 560_000 for _, at in fired[:1]] == [True]
    assert [1_090_000 < at <= 1_110_000 for _, at in fired[1:]] == [True, True]


# Jobs


def test_jobs_take_time_and_their_effect_lies_within() -> None:
    effects, ends = [], []
    for seed in range(30):
        universe, machine = idle_machine(seed)
        machine.job_times.spans = {"slow": Span(10_000, 20_000)}
        time = universe.time
        env_of(machine).jobs.run("slow", lambda time=time: time.now_us, lambda effect_us: effects.append(effect_us))
        env_of(machine).jobs.run("slow", int, lambda _, time=time: ends.append(time.now_us))
        universe.run_for(100)
    assert all(10_000 <= end <= 20_000 for end in ends)
    assert max(effects) < 20_000
    assert min(effects) < 3_000
    assert max(effects) > 9_000
    assert len(set(ends)) > 20


def test_a_slow_disk_makes_jobs_slow() -> None:
    times = JobTimes({"flush": Span(100, 100)}, slowness=50)
    universe, _ = idle_machine()
    assert times.draw_us("flush /data/x", universe.random_for("x")) == 5_000


def test_threads_are_limited_and_patient_jobs_come_last() -> None:
    universe, machine = idle_machine()
    machine.job_times.spans = {"": Span(1_000, 1_000)}
    order: list[str] = []
    jobs = env_of(machine).jobs
    for number in range(JOB_THREADS):
        jobs.run(f"first-{number}", lambda: order.append("first"))
    jobs.run("patient", lambda: order.append("patient"), can_wait=True)
    jobs.run("urgent", lambda: order.append("urgent"))
    universe.run_for(1)
    assert order == ["first"] * JOB_THREADS
    machine.job_times.spans = {}
    universe.run_for(10)
    assert sorted(order[JOB_THREADS:]) == ["patient", "urgent"]


def test_failures_of_jobs() -> None:
    universe, machine = idle_machine()

    def broken() -> None:
        raise OSError(5, "broken")

    failures: list[Exception] = []
    env_of(machine).jobs.run("handled", broken, None, failures.append)
    universe.run_for(100)
    assert [str(failure) for failure in failures] == ["[Errno 5] broken"]
    env_of(machine).jobs.run("unhandled", broken)
    with pytest.raises(OSError, match="broken") as raised:
        universe.run_for(100)
    assert any("seed 0, after event" in note for note in raised.value.__notes__)


# Processes


class Ticking:
    """Has a deadline every 100 ms, and writes down when it was kept."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.kept_ms: list[int] = []
        self.began_ms = process.env.clock.monotonic_ms()

    def due_ms(self) -> int:
        return self.began_ms + 100 * (len(self.kept_ms) + 1)

    def run_due(self, now_ms: int) -> None:
        self.kept_ms.append(now_ms - self.began_ms)

    def ends_with(self, error: Exception) -> bool:
        return isinstance(error, FileNotFoundError)


def ticks(machine: Machine) -> list[int]:
    assert machine.process is not None
    assert isinstance(machine.process.program, Ticking)
    return machine.process.program.kept_ms


def test_deadlines_of_the_program_are_kept() -> None:
    universe, machine = idle_machine(boot=Ticking)
    universe.run_for(350)
    assert ticks(machine) == [100, 200, 300]


def test_a_killed_process_runs_nothing_more_and_the_disk_keeps_what_was_written() -> None:
    universe, machine = idle_machine()
    ran: list[str] = []
    old = env_of(machine)
    old.jobs.later("later", 10, lambda: ran.append("later"))
    old.jobs.run("work", lambda: ran.append("work"), lambda _: ran.append("done"))
    file = old.files.open("/data/a", Mode.CREATE)
    file.write_at([b"written"], 0)
    machine.kill()
    old.jobs.run("after the end", lambda: ran.append("after the end"))
    universe.run_for(1_000)
    assert ran == []
    with pytest.raises(OSError, match="Bad file"):
        file.read_at(1, 0)
    machine.start()
    assert env_of(machine).files.open("/data/a", Mode.READ).read_at(9, 0) == b"written"
    assert env_of(machine) is not old


def test_lost_power_loses_what_was_not_synced() -> None:
    universe, machine = idle_machine()
    files = env_of(machine).files
    file = files.open("/data/a", Mode.CREATE)
    file.write_at([b"synced"], 0)
    file.sync()
    files.sync_dir("/data")
    file.write_at([b"newer!"], 0)
    machine.lose_power()
    machine.start()
    assert not machine.is_running
    machine.power_up(Survival.NOTHING)
    universe.run_for(1)
    assert env_of(machine).files.open("/data/a", Mode.READ).read_at(9, 0) == b"synced"


def test_power_is_lost_at_an_operation_of_the_disk() -> None:
    universe, machine = idle_machine()
    reached: list[str] = []

    def writes() -> None:
        file = env_of(machine).files.open("/data/a", Mode.CREATE)
        reached.append("created")
        file.write_at([b"x"], 0)
        reached.append("written")

    machine.disk.crash_at(machine.disk.ops + 2)
    env_of(machine).jobs.later("writes", 5, writes)
    universe.run_for(10)
    assert reached == ["created"]
    assert not machine.is_on
    machine.power_up()
    assert machine.is_running


def test_a_paused_process_catches_up_in_order() -> None:
    universe, machine = idle_machine(boot=Ticking)
    ran: list[int] = []
    for delay_ms in (30, 10, 20):
        env_of(machine).jobs.later("x", delay_ms, lambda delay_ms=delay_ms: ran.append(delay_ms))  # type: ignore[misc]
    machine.pause()
    universe.run_for(1_000)
    assert (ran, ticks(machine)) == ([], [])
    machine.resume()
    assert ran == [10, 20, 30]
    universe.run_for(50)
    assert ticks(machine)[0] >= 1_000, "the deadline is kept late"


def test_a_paused_process_can_be_killed() -> None:
    universe, machine = idle_machine(boot=Ticking)
    machine.pause()
    universe.run_for(1_000)
    machine.kill()
    machine.start()
    universe.run_for(150)
    assert ticks(machine) == [100]


def test_an_exit_ends_the_event_first_and_a_supervisor_starts_again() -> None:
    universe, machine = idle_machine()
    machine.restart_delay_ms = 500
    seen: list[str] = []

    def fails() -> None:
        assert machine.process is not None
        machine.process.exit("it cannot go on")
        seen.append("the rest of the event")

    env_of(machine).jobs.later("fails", 10, fails)
    universe.run_for(100)
    assert seen == ["the rest of the event"]
    assert not machine.is_running
    universe.run_for(500)
    assert machine.is_running


def test_a_supervisor_starts_nothing_for_a_process_that_was_replaced() -> None:
    """An operator has started the next process already, and it has ended before the restart was due."""
    universe, machine = idle_machine()
    machine.restart_delay_ms = 500
    machine.end_process("it cannot go on")
    machine.start()
    machine.restart_delay_ms = None
    machine.end_process("it is done")
    universe.run_for(1_000)
    assert not machine.is_running


def test_an_error_that_the_program_means_to_die_of() -> None:
    universe, machine = idle_machine(boot=Ticking)
    env_of(machine).jobs.later("fails", 5, lambda: env_of(machine).files.open("/nothing", Mode.READ))
    universe.run_for(10)
    assert not machine.is_running
    env = Universe(1).add_machine("two", Ticking)
    env.start()
    env_of(env).jobs.later("fails", 5, lambda: env_of(env).files.list("/nothing/below"))
    env.universe.run_for(10)
    assert not env.is_running


def test_a_program_that_cannot_start() -> None:
    def refuses(process: Process) -> Program:
        raise InvalidConfigError("no such setting")

    _, machine = idle_machine(boot=refuses)
    assert not machine.is_running
    assert "no such setting" in machine.universe.log.last(1)[0].text


def test_a_replaced_disk_is_empty() -> None:
    universe, machine = idle_machine()
    env_of(machine).files.open("/data/a", Mode.CREATE)
    with pytest.raises(InvariantError):
        machine.replace_disk()
    machine.lose_power()
    machine.replace_disk()
    machine.power_up()
    universe.run_for(1)
    assert env_of(machine).files.list("/data") == []


# The universe


def test_generators_depend_on_seed_and_name_alone() -> None:
    first, second = Universe(5), Universe(5)
    second.add_machine("another", Idle)
    assert first.random_for("a").random() == second.random_for("a").random()
    assert first.random_for("a").random() != first.random_for("b").random()
    assert first.random_for("a").random() != Universe(6).random_for("a").random()


def test_a_run_can_be_cut_after_an_event() -> None:
    for until in (2, 3):
        universe = Universe(0, until_event=until)
        for number in range(5):
            universe.push(number, None, lambda universe=universe: universe.log.add("", "test", "x"))  # type: ignore[misc]
        universe.run_for(10)
        universe.run_for(10)
        assert universe.log.count == until
        assert universe.is_cut


class Counting(Checker):
    kinds = frozenset({"good", "bad"})

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event.text)
        if event.kind == "bad":
            raise Violation(event.text)

    def on_healed(self) -> None:
        self.seen.append("healed")

    def on_end(self) -> None:
        self.seen.append("end")


def test_checkers_see_the_events_of_their_kinds_after_the_step() -> None:
    universe, checker = Universe(0), Counting()
    universe.add_checker(checker)

    def swallows() -> None:
        for kind in ("good", "other", "bad"):
            universe.log.add("one", kind, kind)
        assert checker.seen == []

    universe.push(0, None, swallows)
    with pytest.raises(Violation, match="bad"):
        universe.run_for(1)
    universe.healed()
    universe.end()
    assert checker.seen == ["good", "bad", "healed", "end"]


def test_a_goal_that_is_not_reached_in_time_is_a_violation() -> None:
    universe = Universe(0)
    reached: list[int] = []
    universe.push(5_000, None, lambda: reached.append(1))
    universe.run_until_reached(lambda: bool(reached), 10, "the first event")
    assert universe.time.now_us == 5_000
    universe.push(11_000, None, lambda: reached.append(1))
    with pytest.raises(Violation, match="not reached within 10 ms: two events"):
        universe.run_until_reached(lambda: len(reached) == 2, 10, "two events")


def test_an_endless_loop_is_a_violation() -> None:
    universe, machine = idle_machine()
    jobs = env_of(machine).jobs

    def again() -> None:
        jobs.later("again", 0, again)

    again()
    with pytest.raises(Violation, match="something loops"):
        universe.run_for(1)
