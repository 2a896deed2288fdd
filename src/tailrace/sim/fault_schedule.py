"""Faults as values, and schedules of them: drawn from a seed, printed, read, cut and minimized.

    +12.345 s   kill broker-2, for 0.8 s
    +14.000 s   cut broker-1 and client-1, for 3.5 s
    +20.120 s   clock-jump broker-3, value -86400000

A run is a seed, its parameters and a schedule. `sim.fault_injector` carries a schedule out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from tailrace.model.errors import InvalidConfigError
from tailrace.sim.clock import MAX_DRIFT_PPM


class FaultKind(Enum):
    KILL = "kill"  # the process; it is started again after the time
    POWER = "power"  # of one machine; the survival of unsynced writes is drawn
    POWER_IN_WRITE = "power-in-write"  # at the operation of the disk that many from now, or at the latest after 1 s
    POWER_OF_ALL = "power-of-all"  # of every machine with a disk
    PAUSE = "pause"  # SIGSTOP and SIGCONT
    CLOCK_JUMP = "clock-jump"  # the wall clock, by milliseconds
    CLOCK_DRIFT = "clock-drift"  # both clocks, by ppm
    DISK_NEW = "disk-new"  # the machine is off, and comes back with an empty disk
    DISK_FULL = "disk-full"  # free bytes left
    DISK_SLOW = "disk-slow"  # factor
    DISK_FAILS = "disk-fails"  # every write and sync: EIO; what a failed sync should have written is lost
    BIT_FLIP = "bit-flip"  # a seed for the file and the bit
    TRUNCATION = "truncation"  # a seed for the file and its new size
    CUT = "cut"  # silence in both directions
    CUT_ONE_WAY = "cut-one-way"  # silence from the machine to the other
    ISOLATE = "isolate"  # silence between the machine and all others
    LOSSY = "lossy"  # percent of chunks lost, in both directions
    SLOW_LINK = "slow-link"  # milliseconds of delay, in both directions
    RESETS = "resets"  # of all connections between the two
    FIREWALL = "firewall"  # the machine refuses connections of the other
    PORT_TAKEN = "port-taken"  # the process is killed, and another program has its port; the value picks its manners
    RESTART = "restart"  # a clean stop; a supervisor starts the process again
    MOVE = "move"  # a restart with another port, after a clean stop (0) or a kill (1)
    REMOVE_VOTER = "remove-voter"  # from the quorum; it is added again after the time
    UNREGISTER = "unregister"  # a broker that was killed; it is started again after the time


MAX_CLOCK_JUMP_MS: Final = 315_360_000_000  # ten years

PAIRS: Final = frozenset(
    {
        FaultKind.CUT,
        FaultKind.CUT_ONE_WAY,
        FaultKind.LOSSY,
        FaultKind.SLOW_LINK,
        FaultKind.RESETS,
        FaultKind.FIREWALL,
    }
)
UNAVAILABLE: Final = frozenset(
    {
        FaultKind.KILL,
        FaultKind.POWER,
        FaultKind.POWER_IN_WRITE,
        FaultKind.PAUSE,
        FaultKind.DISK_NEW,
        FaultKind.DISK_FULL,
        FaultKind.DISK_FAILS,
        FaultKind.ISOLATE,
        FaultKind.PORT_TAKEN,
        FaultKind.UNREGISTER,
    }
)
"""Kinds that count against `FaultRules.max_unavailable`."""
OPERATIONS: Final = frozenset({FaultKind.RESTART, FaultKind.MOVE, FaultKind.REMOVE_VOTER, FaultKind.UNREGISTER})
"""What an operator does. The scenario says how; most have none of them."""
DAMAGE: Final = frozenset({FaultKind.DISK_NEW, FaultKind.BIT_FLIP, FaultKind.TRUNCATION})
"""Kinds that lose data which was synced."""

_VALUES: Final[Mapping[FaultKind, tuple[int, int]]] = {
    FaultKind.POWER_IN_WRITE: (1, 40),
    FaultKind.CLOCK_JUMP: (-3_600_000, 3_600_000),
    FaultKind.CLOCK_DRIFT: (-1_000, 1_000),
    FaultKind.DISK_FULL: (0, 100_000),
    FaultKind.DISK_SLOW: (5, 200),
    FaultKind.BIT_FLIP: (0, 1 << 30),
    FaultKind.TRUNCATION: (0, 1 << 30),
    FaultKind.LOSSY: (1, 40),
    FaultKind.SLOW_LINK: (5, 800),
    FaultKind.PORT_TAKEN: (0, 2),
    FaultKind.MOVE: (0, 1),
}
_LIMITS: Final[Mapping[FaultKind, tuple[int, int]]] = {
    FaultKind.CLOCK_JUMP: (-MAX_CLOCK_JUMP_MS, MAX_CLOCK_JUMP_MS),
    FaultKind.CLOCK_DRIFT: (-MAX_DRIFT_PPM, MAX_DRIFT_PPM),
    FaultKind.DISK_SLOW: (1, 1_000_000),
    FaultKind.LOSSY: (0, 100),
    FaultKind.SLOW_LINK: (0, 600_000),
}
"""Values that a schedule may give. Every other kind takes any value that is not negative."""
_AT_ONCE: Final = frozenset(
    {
        FaultKind.RESETS,
        FaultKind.BIT_FLIP,
        FaultKind.TRUNCATION,
        FaultKind.CLOCK_JUMP,
        FaultKind.RESTART,
        FaultKind.MOVE,
    }
)
"""Kinds without a duration."""
_TEXT: Final = re.compile(
    r"\+(?P<at>\d{1,9}\.\d{3}) s +(?P<kind>[a-z-]+) (?P<machine>[^\s,]*)"
    r"(?: and (?P<peer>[^\s,]+))?(?:, for (?P<lasts>\d{1,9}\.\d{3}) s)?(?:, value (?P<value>-?\d{1,12}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Fault:
    at_ms: int
    kind: FaultKind
    machine: str = ""
    peer: str = ""
    lasts_ms: int = 0
    value: int = 0

    def __str__(self) -> str:
        text = f"+{self.at_ms / 1000:.3f} s   {self.what}"
        if self.lasts_ms:
            text += f", for {self.lasts_ms / 1000:.3f} s"
        return text + (f", value {self.value}" if self.value else "")

    @property
    def what(self) -> str:
        return f"{self.kind.value} {self.machine}" + (f" and {self.peer}" if self.peer else "")

    @classmethod
    def parse(cls, text: str) -> Fault:
        found = _TEXT.fullmatch(text.strip())
        kinds = {kind.value: kind for kind in FaultKind}
        if found is None or found["kind"] not in kinds:
            raise InvalidConfigError(f"not a fault: {text.strip()!r}")
        return cls(
            round(float(found["at"]) * 1000),
            kinds[found["kind"]],
            found["machine"],
            found["peer"] or "",
            round(float(found["lasts"] or 0) * 1000),
            int(found["value"] or 0),
        )

    def check(self, machines: Collection[str]) -> None:
        """Raises `InvalidConfigError` if the fault cannot be injected into a universe with these machines."""
        if (self.kind is FaultKind.POWER_OF_ALL) != (not self.machine):
            raise InvalidConfigError(f"{self.kind.value} takes {'a' if not self.machine else 'no'} machine: {self}")
        if (self.kind in PAIRS) != bool(self.peer):
            raise InvalidConfigError(
                f"{self.kind.value} takes {'one machine' if self.peer else 'two machines'}: {self}"
            )
        for name in (self.machine, self.peer):
            if name and name not in machines:
                raise InvalidConfigError(f"there is no machine {name}: {self}")
        if self.machine and self.machine == self.peer:
            raise InvalidConfigError(f"the two machines of a link must be different: {self}")
        low, high = _LIMITS.get(self.kind, (0, 10**12))
        if not low <= self.value <= high:
            raise InvalidConfigError(f"{self.kind.value} takes a value from {low} to {high}: {self}")


@dataclass(frozen=True, slots=True)
class FaultRules:
    """What a schedule is drawn from. A kind with weight 0, or not in `weights`, does not happen."""

    weights: Mapping[FaultKind, int] = field(default_factory=dict)
    mean_gap_ms: int = 20_000
    max_lasts_ms: int = 20_000
    max_unavailable: int = 1
    """Machines that are down, paused, cut off or without a working disk at the same time."""


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return "".join(f"{fault}\n" for fault in self.faults)

    def __len__(self) -> int:
        return len(self.faults)

    @classmethod
    def parse(cls, text: str) -> FaultSchedule:
        return cls(tuple(Fault.parse(line) for line in text.splitlines() if line.strip()))

    @classmethod
    def draw(
        cls,
        rng: random.Random,
        rules: FaultRules,
        machines: Sequence[str],
        length_ms: int,
        peers: Mapping[str, Sequence[str]] | None = None,
    ) -> FaultSchedule:
        """Faults of `machines`, and of links between each and its `peers` (None: the other machines)."""
        kinds = [kind for kind in FaultKind if rules.weights.get(kind)]
        weights = [rules.weights[kind] for kind in kinds]
        faults: list[Fault] = []
        busy: list[tuple[int, str]] = []
        at_ms = 0
        while kinds:
            at_ms += 1 + int(rng.expovariate(1.0) * rules.mean_gap_ms)
            if at_ms >= length_ms:
                break
            fault = _drawn(rng, rules, rng.choices(kinds, weights)[0], at_ms, machines, peers)
            if fault.kind in UNAVAILABLE:
                busy = [(end_ms, name) for end_ms, name in busy if end_ms > at_ms]
                others = list(dict.fromkeys(name for _, name in busy if name != fault.machine))
                if len(others) >= rules.max_unavailable:
                    fault = replace(fault, machine=rng.choice(others))
                busy.append((at_ms + fault.lasts_ms, fault.machine))
            faults.append(fault)
        return cls(tuple(faults))

    def until(self, at_ms: int) -> FaultSchedule:
        return FaultSchedule(tuple(fault for fault in self.faults if fault.at_ms <= at_ms))

    def only(self, indexes: Iterable[int]) -> FaultSchedule:
        """A part of the schedule, to find out which faults a failure needs."""
        return FaultSchedule(tuple(self.faults[index] for index in sorted(set(indexes))))

    def minimized(self, fails: Callable[[FaultSchedule], bool]) -> FaultSchedule:
        """A part of the schedule with which the run still fails, while it passes without any single one of its faults.

        Leaves out halves, then smaller and smaller parts, as long as the rest fails.
        """
        kept = list(range(len(self.faults)))
        size = max(len(kept) // 2, 1)
        while kept:
            at, is_smaller = 0, False
            while at < len(kept):
                rest = kept[:at] + kept[at + size :]
                if fails(self.only(rest)):
                    kept, is_smaller = rest, True
                else:
                    at += size
            if size == 1 and not is_smaller:
                break
            size = max(size // 2, 1)
        return self.only(kept)


def _drawn(
    rng: random.Random,
    rules: FaultRules,
    kind: FaultKind,
    at_ms: int,
    machines: Sequence[str],
    peers: Mapping[str, Sequence[str]] | None,
) -> Fault:
    machine = "" if kind is FaultKind.POWER_OF_ALL else rng.choice(machines)
    others = [name for name in (machines if peers is None else peers.get(machine, ())) if name != machine]
    # Short faults are frequent, so that recoveries overlap with what comes next.
    lasts_ms = 1 + int(rules.max_lasts_ms * rng.random() ** 2)
    low, high = _VALUES.get(kind, (0, 0))
    return Fault(
        at_ms,
        kind,
        machine,
        rng.choice(others) if kind in PAIRS and others else "",
        0 if kind in _AT_ONCE else lasts_ms,
        rng.randint(low, high) if high else 0,
    )
