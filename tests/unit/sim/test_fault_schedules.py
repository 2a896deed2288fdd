"""Fault schedules as values, and what each kind of fault does to a machine or a link."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from support.universe.endpoints import PORT, Idle, Pair
from tailrace.env import Files, Mode
from tailrace.model.errors import InvalidConfigError
from tailrace.sim.fault_injector import FaultInjector
from tailrace.sim.fault_schedule import PAIRS, UNAVAILABLE, Fault, FaultKind, FaultRules, FaultSchedule
from tailrace.sim.faults import Survival
from tailrace.sim.link import LinkRules
from tailrace.sim.machine import Machine
from tailrace.sim.universe import Universe

EVERY_KIND = dict.fromkeys(FaultKind, 1)
NAMES = ("broker-1", "broker-2", "broker-3")


def drawn(seed: int, rules: FaultRules, length_ms: int = 1_000_000) -> FaultSchedule:
    return FaultSchedule.draw(
        random.Random(seed), rules, NAMES, length_ms, dict.fromkeys(NAMES, ("client-1", "client-2"))
    )


# Schedules


def test_a_schedule_is_printed_and_read() -> None:
    for seed in range(20):
        schedule = drawn(seed, FaultRules(EVERY_KIND, mean_gap_ms=5_000))
        assert len(schedule) > 50
        assert FaultSchedule.parse(str(schedule)) == schedule
    assert str(Fault(12_345, FaultKind.KILL, "broker-2", lasts_ms=800)) == "+12.345 s   kill broker-2, for 0.800 s"


@pytest.mark.parametrize(
    "text", ["", "kill broker-1", "+1.000 s nonsense broker-1", "+1 s kill broker-1", "+1.000 s kill"]
)
def test_what_is_not_a_fault_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="not a fault"):
        Fault.parse(text)


def test_a_schedule_comes_from_the_seed() -> None:
    rules = FaultRules(EVERY_KIND)
    assert drawn(3, rules) == drawn(3, rules)
    assert drawn(3, rules) != drawn(4, rules)
    assert {fault.kind for fault in drawn(1, rules, 10_000_000).faults} == set(FaultKind)
    assert len(drawn(1, FaultRules({FaultKind.KILL: 0}))) == 0


def test_a_schedule_is_cut_and_thinned() -> None:
    schedule = drawn(1, FaultRules(EVERY_KIND))
    half = schedule.until(500_000)
    assert 0 < len(half) < len(schedule)
    assert schedule.faults[: len(half)] == half.faults
    assert schedule.only([4, 1, 1]).faults == (schedule.faults[1], schedule.faults[4])


def test_a_schedule_is_minimized_to_the_faults_that_a_failure_needs() -> None:
    schedule = drawn(1, FaultRules(EVERY_KIND))
    for needed in ({5}, {0, 17}, {3, 4, len(schedule) - 1}):
        runs: list[int] = []

        def fails(part: FaultSchedule, needed: set[int] = needed, runs: list[int] = runs) -> bool:
            runs.append(len(part))
            return all(schedule.faults[index] in part.faults for index in needed)

        assert schedule.minimized(fails) == schedule.only(needed)
        assert len(runs) < 3 * len(schedule)
    assert len(schedule.minimized(lambda part: True)) == 0


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_machines_are_unavailable_than_allowed(limit: int) -> None:
    for seed in range(20):
        rules = FaultRules(EVERY_KIND, mean_gap_ms=2_000, max_lasts_ms=30_000, max_unavailable=limit)
        busy: list[tuple[int, str]] = []
        for fault in drawn(seed, rules).faults:
            busy = [(end_ms, name) for end_ms, name in busy if end_ms > fault.at_ms]
            if fault.kind in UNAVAILABLE:
                busy.append((fault.at_ms + fault.lasts_ms, fault.machine))
            assert len({name for _, name in busy}) <= limit


def test_faults_of_links_have_peers() -> None:
    for fault in drawn(1, FaultRules(EVERY_KIND)).faults:
        assert (fault.peer in ("client-1", "client-2")) == (fault.kind in PAIRS)


# Faults


class Bench:
    """A machine with a file, and one fault that begins after 10 ms and lasts 100."""

    def __init__(self, kind: FaultKind, value: int = 0, lasts_ms: int = 100) -> None:
        self.universe = Universe(1)
        self.machine = self.universe.add_machine("one", Idle, directories=("/data",))
        self.machine.start()
        file = self.files.open("/data/a", Mode.CREATE)
        file.write_at([bytes(10_000)], 0)
        self.machine.disk.sync_all()
        machine = "" if kind is FaultKind.POWER_OF_ALL else "one"
        schedule = FaultSchedule((Fault(10, kind, machine, "", lasts_ms, value),))
        self.injector = FaultInjector(self.universe, schedule, PORT)
        self.injector.arm()

    @property
    def files(self) -> Files:
        return self.machine.disk

    def states(self, *moments_ms: int) -> Iterator[Machine]:
        for moment_ms in moments_ms:
            self.universe.run_until(moment_ms * 1000)
            yield self.machine

    def kinds(self) -> list[str]:
        return [event.kind for event in self.universe.log.events]


def test_a_fault_that_is_not_allowed_is_left_out() -> None:
    bench = Bench(FaultKind.KILL)
    schedule = FaultSchedule((Fault(5, FaultKind.DISK_NEW, "one"), Fault(6, FaultKind.PAUSE, "one", "", 10)))
    injector = FaultInjector(bench.universe, schedule, PORT, lambda fault: fault.kind is not FaultKind.DISK_NEW)
    injector.arm()
    bench.universe.run_for(8)
    assert injector.injected == 1
    assert "fault-skipped" in bench.kinds()
    assert bench.files.exists("/data/a")


@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.POWER, FaultKind.POWER_OF_ALL, FaultKind.DISK_NEW])
def test_a_machine_is_down_for_the_time_of_the_fault(kind: FaultKind) -> None:
    bench = Bench(kind)
    states = [(machine.is_running, machine.is_on) for machine in bench.states(9, 11, 109, 111)]
    is_on = kind is FaultKind.KILL
    assert states == [(True, True), (False, is_on), (False, is_on), (True, True)]
    assert bench.files.exists("/data/a") == (kind is not FaultKind.DISK_NEW)
    assert "fault" in bench.kinds()
    assert "fault-end" in bench.kinds()


def test_power_is_lost_in_a_write_or_not_at_all() -> None:
    for value, is_struck in ((2, True), (3, False)):
        bench = Bench(FaultKind.POWER_IN_WRITE, value, lasts_ms=2_000)
        process = bench.machine.process
        assert process is not None

        def write_twice(bench: Bench = bench) -> None:
            file = bench.files.open("/data/a", Mode.WRITE)
            file.write_at([b"x"], 0)
            file.write_at([b"x"], 1)

        process.env.jobs.later("write", 20, write_twice)
        assert [machine.is_on for machine in bench.states(15, 25)] == [True, not is_struck]
        assert [machine.is_running for machine in bench.states(2_011)] == [True]
        bench.files.open("/data/b", Mode.CREATE)
        assert bench.machine.is_on, "a loss that did not come is called off"


def test_a_pause() -> None:
    bench = Bench(FaultKind.PAUSE)
    paused = [machine.process is not None and machine.process.is_paused for machine in bench.states(9, 11, 109, 111)]
    assert paused == [False, True, True, False]


def test_clocks_jump_and_drift() -> None:
    bench = Bench(FaultKind.CLOCK_JUMP, -5_000)
    walls = [machine.clock.now_ms() for machine in bench.states(9, 11)]
    assert walls[1] - walls[0] == 2 - 5_000
    bench = Bench(FaultKind.CLOCK_DRIFT, 100_000, lasts_ms=1_000)
    times = [machine.clock.monotonic_ms() for machine in bench.states(10, 1_010, 2_010)]
    assert [times[1] - times[0], times[2] - times[1]] == [1_100, 1_000]


def test_a_full_disk() -> None:
    bench = Bench(FaultKind.DISK_FULL, 5_000)
    list(bench.states(11))
    file = bench.files.open("/data/b", Mode.CREATE)
    assert file.write_at([bytes(100_000)], 0) == 4096
    with pytest.raises(OSError, match="No space"):
        file.write_at([bytes(100_000)], 4096)
    list(bench.states(111))
    assert file.write_at([bytes(100_000)], 0) == 100_000


def test_a_failing_disk() -> None:
    bench = Bench(FaultKind.DISK_FAILS)
    file = bench.files.open("/data/a", Mode.WRITE)
    list(bench.states(11))
    for act in (lambda: file.write_at([b"x"], 0), file.sync, lambda: bench.files.sync_dir("/data")):
        with pytest.raises(OSError, match="Input/output"):
            act()
    list(bench.states(111))
    file.sync()


def test_a_slow_disk() -> None:
    bench = Bench(FaultKind.DISK_SLOW, 50)
    assert [machine.job_times.slowness for machine in bench.states(9, 11, 111)] == [1.0, 50.0, 1.0]


@pytest.mark.parametrize("kind", [FaultKind.BIT_FLIP, FaultKind.TRUNCATION])
def test_damage_survives_a_loss_of_power(kind: FaultKind) -> None:
    contents = set()
    for value in range(5):
        bench = Bench(kind, value, lasts_ms=0)
        list(bench.states(11))
        bench.machine.lose_power()
        bench.machine.power_up(Survival.NOTHING)
        contents.add(bench.machine.disk.inspect("/data/a"))
    assert len(contents) == 5
    assert bytes(10_000) not in contents


def test_damage_of_an_empty_disk_is_nothing() -> None:
    bench = Bench(FaultKind.BIT_FLIP, 1, lasts_ms=0)
    bench.files.unlink("/data/a")
    list(bench.states(11))


def with_fault(kind: FaultKind, value: int = 0, peer: str = "client") -> Pair:
    """A pair whose server has the fault from 100 ms on, for 10 s."""
    pair = Pair()
    schedule = FaultSchedule((Fault(100, kind, "server", peer, 10_000, value),))
    FaultInjector(pair.universe, schedule, PORT).arm()
    return pair


def links(pair: Pair) -> list[tuple[bool, bool]]:
    network = pair.universe.network
    return [
        (link.is_cut, link.is_rejecting)
        for link in (network.link("server", "client"), network.link("client", "server"))
    ]


@pytest.mark.parametrize(
    ("kind", "there", "back"),
    [
        (FaultKind.CUT, (True, False), (True, False)),
        (FaultKind.ISOLATE, (True, False), (True, False)),
        (FaultKind.CUT_ONE_WAY, (True, False), (False, False)),
        (FaultKind.FIREWALL, (False, False), (False, True)),
    ],
)
def test_links_fail_for_the_time_of_the_fault(
    kind: FaultKind, there: tuple[bool, bool], back: tuple[bool, bool]
) -> None:
    pair = with_fault(kind, peer="" if kind is FaultKind.ISOLATE else "client")
    pair.universe.run_for(101)
    assert links(pair) == [there, back]
    pair.universe.run_for(10_000)
    assert links(pair) == [(False, False)] * 2


def test_lossy_and_slow_links() -> None:
    for kind, value in ((FaultKind.LOSSY, 25), (FaultKind.SLOW_LINK, 300)):
        pair = with_fault(kind, value)
        usual = LinkRules()
        pair.universe.run_for(101)
        rules = pair.universe.network.link("client", "server").rules
        changed = (rules.loss_probability, rules.min_delay_us)
        assert changed == ((0.25, usual.min_delay_us) if kind is FaultKind.LOSSY else (0.0, 300_000))
        pair.universe.run_for(10_000)
        assert pair.universe.network.link("client", "server").rules == usual


def test_resets() -> None:
    pair = with_fault(FaultKind.RESETS)
    end, other = pair.connected()
    pair.universe.run_for(100)
    assert (end.events, other.events) == (["connected", "RESET"], ["RESET"])


@pytest.mark.parametrize("value", [0, 1, 2])
def test_a_port_is_taken_and_given_back(value: int) -> None:
    pair = with_fault(FaultKind.PORT_TAKEN, value, peer="")
    pair.universe.run_for(200)
    assert not pair.server.is_running
    end = pair.connect()
    pair.universe.run_for(100)
    assert end.events[0] == "connected"
    pair.universe.run_for(10_000)
    assert pair.server.is_running
    pair.connected()


def test_healing_ends_every_fault_and_starts_every_machine() -> None:
    for kind in FaultKind:
        pair = with_fault(kind, 3, peer="client" if kind in PAIRS else "")
        injector = FaultInjector(pair.universe, FaultSchedule((Fault(300, kind, "server", "client", 10_000, 3),)), PORT)
        if kind is FaultKind.POWER_OF_ALL:
            continue
        injector.arm()
        pair.universe.run_for(150)
        injector.heal()
        pair.universe.run_for(500)
        assert injector.injected == 0, "nothing begins after healing"
        assert links(pair) == [(False, False)] * 2
        for number in range(5):
            pair.server.disk.make_dir(f"/{number}")
        pair.universe.run_for(11_000)
        assert pair.server.is_running
        pair.connected()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+1.000 s   kill broker-9, for 1.000 s", "there is no machine broker-9"),
        ("+1.000 s   cut broker-1, for 1.000 s", "cut takes two machines"),
        ("+1.000 s   kill broker-1 and broker-2, for 1.000 s", "kill takes one machine"),
        ("+1.000 s   clock-drift broker-1, value 100001", "clock-drift takes a value from -100000 to 100000"),
    ],
)
def test_a_fault_must_fit_the_machines_and_have_a_value_in_range(text: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        Fault.parse(text).check(["broker-1", "broker-2"])


def test_every_drawn_fault_fits_its_machines() -> None:
    rules = FaultRules(dict.fromkeys(FaultKind, 1), mean_gap_ms=100)
    schedule = FaultSchedule.draw(random.Random(1), rules, ["broker-1", "broker-2"], 60_000)
    assert {fault.kind for fault in schedule.faults} == set(FaultKind)
    for fault in schedule.faults:
        fault.check(["broker-1", "broker-2"])
