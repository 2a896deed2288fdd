"""What the demo shows of a moment, whoever draws it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from tailrace.cli.demo_usage import Usage
from tailrace.cli.lines import Item


class Scene(NamedTuple):
    """What does not change while the demo runs."""

    bootstrap: str
    port: int
    topic: str
    rate: int
    data_dir: str
    keeps_data: bool
    ready_s: float
    metrics_url: str | None
    program: str
    """How this program is called from where the reader is."""


class Rate(NamedTuple):
    records_per_s: float
    bytes_per_s: float


class PartitionFacts(NamedTuple):
    number: int
    start: int
    end: int
    behind: int


class Counting(StrEnum):
    """How far Spark is with counting the same orders."""

    OFF = "off"
    MISSING = "missing"
    STARTING = "starting"
    COUNTING = "counting"
    FAILED = "failed"


class Counted(NamedTuple):
    state: Counting
    orders: int = 0
    batches: int = 0
    best_item: str = ""
    best_cents: int = 0
    trouble: str = ""

    def is_sound(self, sent: int) -> bool:
        """At the end: whoever does not count cannot be wrong."""
        return self.state in (Counting.OFF, Counting.MISSING) or (
            self.state is Counting.COUNTING and self.orders == sent
        )


NOT_COUNTED: Final = Counted(Counting.OFF)


class Tabling(StrEnum):
    """How far Spark is with putting the same orders into a table."""

    OFF = "off"
    MISSING = "missing"
    STARTING = "starting"
    FILLING = "filling"
    FULL = "full"
    FAILED = "failed"


class Sales(NamedTuple):
    """A row of the summary that SQL makes of the table."""

    item: str
    orders: int
    cents: int


class Tabled(NamedTuple):
    state: Tabling
    rows: int = 0
    version: int | None = None
    place: str = ""
    sales: tuple[Sales, ...] = ()
    trouble: str = ""

    @property
    def summed(self) -> int:
        """How many rows the summary is of."""
        return sum(each.orders for each in self.sales)

    def is_awaited(self, sent: int) -> bool:
        """Whether orders are still to come. The summary reads the table, and may be ahead of the rows reported."""
        return self.state is Tabling.STARTING or (self.state is Tabling.FILLING and min(self.rows, self.summed) < sent)

    def is_sound(self, sent: int) -> bool:
        """At the end: the table has every order, and the summary is of all of them."""
        return self.state in (Tabling.OFF, Tabling.MISSING, Tabling.FULL) or (
            self.state is Tabling.FILLING and self.rows == self.summed == sent
        )


NO_TABLE: Final = Tabled(Tabling.OFF)


class Auditing(StrEnum):
    """How far the audit of what the demo wrote is, which ends it."""

    OFF = "off"
    READY = "ready"
    """Spark reads the topic no more: the broker may end."""
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class Audited(NamedTuple):
    state: Auditing
    findings: int = 0
    """Errors and warnings."""
    first: str = ""
    """What the first of them says."""
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    report: str = ""
    """Where the page is."""
    trouble: str = ""

    @property
    def is_sound(self) -> bool:
        """At the end: whoever did not look cannot be wrong."""
        return self.state in (Auditing.OFF, Auditing.SKIPPED) or (self.state is Auditing.DONE and not self.findings)


NOT_AUDITED: Final = Audited(Auditing.OFF)


class Facts(NamedTuple):
    seconds: float
    sent: int
    returned: int
    produced: Rate
    consumed: Rate
    p50_s: float | None
    p99_s: float | None
    usage: Usage
    pid: int | None
    partitions: tuple[PartitionFacts, ...]
    last_order: str
    restarts: int
    out_of_order: int
    unexpected: int
    """Records that nobody waited for: a second time, or of other producers."""
    counted: Counted = NOT_COUNTED
    tabled: Tabled = NO_TABLE
    audited: Audited = NOT_AUDITED
    waits_for_spark: bool = False
    """Nothing is sent: Spark is not there yet, or has not counted all of it."""

    @property
    def missing(self) -> int:
        return self.sent - self.returned

    @property
    def is_sound(self) -> bool:
        return not (self.missing or self.out_of_order or self.unexpected)


def scene_item(scene: Scene) -> Item:
    return {
        "type": "broker",
        "bootstrap": scene.bootstrap,
        "topic": scene.topic,
        "data_dir": scene.data_dir,
        "ready_s": round(scene.ready_s, 3),
        "metrics_url": scene.metrics_url,
    }


def facts_item(kind: str, facts: Facts) -> Item:
    return {
        "type": kind,
        "seconds": round(facts.seconds, 3),
        "sent": facts.sent,
        "returned": facts.returned,
        "out_of_order": facts.out_of_order,
        "unexpected": facts.unexpected,
        "produced_per_s": round(facts.produced.records_per_s),
        "produced_bytes_per_s": round(facts.produced.bytes_per_s),
        "consumed_per_s": round(facts.consumed.records_per_s),
        "consumed_bytes_per_s": round(facts.consumed.bytes_per_s),
        "p50_ms": _ms(facts.p50_s),
        "p99_ms": _ms(facts.p99_s),
        "broker_pid": facts.pid,
        "broker_memory_bytes": facts.usage.memory_bytes,
        "broker_cores": None if facts.usage.cores is None else round(facts.usage.cores, 3),
        "broker_restarts": facts.restarts,
        "spark": facts.counted._asdict(),
        "table": {**facts.tabled._asdict(), "sales": [each._asdict() for each in facts.tabled.sales]},
        "audit": facts.audited._asdict(),
        "partitions": [{"partition": each.number, "start": each.start, "end": each.end} for each in facts.partitions],
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
