"""What the driver does: plan a batch before its tasks run, decide it when all have written, give it up when they fail.

The steps of one call follow each other in one process; a call may be cut off anywhere, and anything may happen between
two steps. Whoever plans takes the driver's id, and so ends what older plans can still do: all that they may write is
signed with an identity that is not good any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.client.outgoing import Identity
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.decision import DECIDED, PARTIAL, Decision, Epoch, Grant, merged
from tailrace.spark.sink.exactly_once.effects import (
    INVALID_PRODUCER_ID_MAPPING,
    End,
    ListOpen,
    Look,
    ReadLast,
    Sights,
    Steps,
    Take,
    Write,
    is_refusal,
)
from tailrace.spark.sink.exactly_once.names import driver_id, partition_of

MOST_NAMED: Final = 20

_log: Final = logging.getLogger("tailrace.spark")


class TakenOverError(PipelineError):
    """Nothing can be decided by this plan any more."""

    hint = "one query writes under a sinkId at a time; this one can be started again, when the other has ended"


class PartialEpochError(PipelineError):
    """An epoch was decided, and a part of it is lost."""

    def __init__(self, sink_id: str, decision: Decision) -> None:
        if decision.lost:
            what = "a part of it was lost: its transactions were not committed in time"
        else:
            what = "it is not known any more whether all of it was committed"
        unknown = (
            f"Committed or lost, which the cluster cannot tell since these transactional ids have expired: "
            f"{_named(decision.unknown)}. "
            if decision.unknown
            else ""
        )
        super().__init__(
            f"{decision.epoch} was decided for sink {sink_id}, and {what}. Committed: {_named(decision.committed)}. "
            f"Lost: {_named(decision.lost)}. {unknown}Nothing more is written until "
            f"acceptPartialEpoch={decision.epoch.batch_id} is given, which gives up what was lost"
        )
        self.decision = decision


class LateEpochError(PipelineError):
    """Nothing of the batch is visible, and nothing will be."""

    hint = (
        "start the query again: the batch is run anew; smaller batches take less time, fewer tasks less of it for "
        "their end, and a larger transaction.max.timeout.ms of the brokers gives more"
    )


@dataclass(frozen=True)
class Plan:
    """What tasks know. It goes to them, and comes back, without the heirs, with what they have written."""

    sink_id: str
    driver: Identity
    decided: Epoch | None
    heirs: tuple[Grant, ...]
    others: tuple[Epoch, ...] = ()

    def heir_of(self, partition: int) -> Grant | None:
        return next((each for each in self.heirs if partition_of(each.id) == partition), None)

    def is_done(self, epoch: Epoch) -> bool:
        """Whether the batch is decided, and so must not be written. Refuses those that are older."""
        known = (*self.others, self.decided) if self.decided else ()
        last = next((each for each in known if each.query_id == epoch.query_id), None)
        if last is None or last.batch_id < epoch.batch_id:
            return False
        if last.batch_id > epoch.batch_id:
            raise PipelineError(
                f"sink {self.sink_id} has {last} already, and is asked for batch {epoch.batch_id}: "
                "the checkpoint is older than what was written from it"
            )
        return True


def _plan_of(sink_id: str, driver: Identity, last: Decision | None) -> Plan:
    return Plan(sink_id, driver, last.epoch, last.heirs, last.others) if last else Plan(sink_id, driver, None, ())


def plan(sink_id: str, accept_partial: int | None = None) -> Steps[Plan]:
    driver = yield Take(driver_id(sink_id))
    last: Decision | None = yield ReadLast()
    if last is not None and last.state == DECIDED:
        driver, last = yield from _finish(sink_id, driver, last)
    if last is not None and last.state == PARTIAL:
        if accept_partial != last.epoch.batch_id:
            raise PartialEpochError(sink_id, last)
        last = last.accepted()
        driver = yield from _store(sink_id, driver, last.epoch, last)
    yield from _tidy(sink_id, driver)  # readers wait for what a dead driver's tasks left open
    return _plan_of(sink_id, driver, last)


def commit(
    planned: Plan, epoch: Epoch, grants: Sequence[Grant], margin_ms: int, *, is_only: bool = False
) -> Steps[None]:
    """All tasks have written. Nothing is open behind this, apart from what late tasks may still begin.

    `margin_ms` is what the ends may take, and a transaction's own end when its time is over. `is_only`: nobody plans
    for this sink again, and nothing is left of it.
    """
    sink_id, driver = planned.sink_id, planned.driver
    if grants:
        last: Decision | None = yield ReadLast()
        if (last.epoch if last else None) != planned.decided:
            raise _taken_over(sink_id, epoch)
        if _plan_of(sink_id, driver, last).is_done(epoch):
            raise PipelineError(f"tasks have written {epoch}, which sink {sink_id} has already")
        written = {partition_of(each.id) for each in grants}
        unused = (each for each in (last.heirs if last else ()) if partition_of(each.id) not in written)
        others = last.before(epoch) if last else ()
        decision = Decision(epoch, DECIDED, tuple(grants), merged((), unused), others=others)
        driver = yield from _decide(sink_id, driver, decision, margin_ms)
        driver, _ = yield from _finish(sink_id, driver, decision, is_only=is_only)
    yield from _tidy(sink_id, driver)


def abort(planned: Plan, grants: Iterable[Grant]) -> Steps[None]:
    """The batch has failed. Whether it was decided before it did is for the coordinator of the driver's id to say."""
    try:
        driver: Identity = yield End(driver_id(planned.sink_id), planned.driver, is_commit=False)
    except TailraceError as error:
        if is_refusal(error):  # decided, or somebody has planned since: both take care of these transactions
            return
        raise
    yield from _abort(grants)
    yield from _tidy(planned.sink_id, driver)  # tasks that were killed have told nobody


def sweep(sink_id: str, driver: Identity) -> Steps[None]:
    """Abort what is open and belongs to no decision: failed and doubled attempts, and what older drivers left."""
    ids: tuple[str, ...] = yield ListOpen()
    if not ids:
        return
    seen: Sights = yield Look(ids)
    # Only now: whatever was seen then belongs to plans up to this one, if this one is still the last.
    holder: Sights = yield Look((driver_id(sink_id),))
    held = holder.get(driver_id(sink_id))
    if held is None or held.identity != driver:
        return
    for name, each in seen.items():
        if each.is_open:
            yield from _abort_one(name, each.identity)


def _tidy(sink_id: str, driver: Identity) -> Steps[None]:
    """Sweep. What cannot be swept now is left to the next one, or to its timeout: only readers wait for it."""
    try:
        yield from sweep(sink_id, driver)
    except TailraceError as error:
        _log.warning("sink %s: what failed tasks have left open is not aborted yet: %s", sink_id, error)


def _decide(sink_id: str, driver: Identity, decision: Decision, margin_ms: int) -> Steps[Identity]:
    """The decision is written first, and committed when the transactions were seen after that: its own beginning tells
    the time by the clocks of brokers. It can be committed as long as its own time is not over, so that much must be
    left of theirs, and the margin for their ends."""
    name = driver_id(sink_id)
    try:
        yield Write(driver, decision)
        seen: Sights = yield Look((name, *(each.id for each in decision.transactions)))
        complaint = _why_not(name, driver, decision, seen, margin_ms)
        if complaint is None:
            following: Identity = yield End(name, driver, is_commit=True)
            return following
        yield End(name, driver, is_commit=False)
    except TailraceError as error:
        if is_refusal(error):
            raise _taken_over(sink_id, decision.epoch) from error
        raise
    yield from _abort(decision.transactions)
    raise LateEpochError(f"{decision.epoch} cannot be committed to sink {sink_id}: {complaint}")


def _why_not(name: str, driver: Identity, decision: Decision, seen: Sights, margin_ms: int) -> str | None:
    own = seen.get(name)
    if own is None or own.identity != driver or own.began_ms is None:
        return "the decision itself took too long"
    needed_ms = own.timeout_ms + margin_ms
    for each in decision.transactions:
        found = seen.get(each.id)
        if found is None or not found.is_open or found.identity != each.identity or found.began_ms is None:
            return f"transaction {each.id} is not open any more: it took too long, or a task went on after its end"
        left_ms = found.began_ms + found.timeout_ms - own.began_ms
        if left_ms < needed_ms:
            return (
                f"transaction {each.id} has only {max(left_ms, 0)} ms left of {found.timeout_ms}, and {needed_ms} ms "
                f"are needed to decide and end {len(decision.transactions)}"
            )
    return None


def _finish(
    sink_id: str, driver: Identity, decision: Decision, *, is_only: bool = False
) -> Steps[tuple[Identity, Decision]]:
    """Commit what is decided. Nobody else does anything with these transactions until it is written that they ended."""
    heirs: list[Grant] = []
    lost: list[str] = []
    unknown: list[str] = []
    for each in decision.transactions:
        try:
            following: Identity = yield End(each.id, each.identity, is_commit=True)
            heirs.append(each._replace(identity=following))
        except TailraceError as error:
            if not is_refusal(error):
                raise
            (unknown if error.code == INVALID_PRODUCER_ID_MAPPING else lost).append(each.id)
    if lost or unknown:
        partial = decision.partly_ended(lost, unknown)
        yield from _store(sink_id, driver, partial.epoch, partial)
        raise PartialEpochError(sink_id, partial)
    outcome = decision.ended(heirs)
    driver = yield from _store(sink_id, driver, outcome.epoch, None if is_only else outcome)
    return driver, outcome


def _store(sink_id: str, driver: Identity, epoch: Epoch, decision: Decision | None) -> Steps[Identity]:
    try:
        yield Write(driver, decision)
        following: Identity = yield End(driver_id(sink_id), driver, is_commit=True)
    except TailraceError as error:
        if is_refusal(error):
            raise _taken_over(sink_id, epoch) from error
        raise
    return following


def _abort(grants: Iterable[Grant]) -> Steps[None]:
    for each in grants:
        yield from _abort_one(each.id, each.identity)


def _abort_one(name: str, identity: Identity) -> Steps[None]:
    try:
        yield End(name, identity, is_commit=False)
    except TailraceError as error:
        if not is_refusal(error):
            raise


def _taken_over(sink_id: str, epoch: Epoch) -> TakenOverError:
    return TakenOverError(
        f"another driver has planned for sink {sink_id} since {epoch} was begun, or this one was stopped for too long "
        f"while it decided, or Spark has given the batch up: this one gives up ({TakenOverError.hint})"
    )


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return (", ".join(ids[:MOST_NAMED]) or "nothing") + more
