"""Reading topics as a member of a group: each partition by one member, from where the group has committed.

    with GroupConsumer(cluster, "billing") as consumer:
        consumer.subscribe(["orders"])
        while True:
            for run in consumer.poll(1.0):
                for record in run.records(): ...

A call of `poll` says that everything it gave before is dealt with: that is what is committed, every few seconds, before
partitions go to other members, and at the end. With `commit_every_s=None` only `commit` commits; `on_revoked` is then
the place for what must not be done twice.

Heartbeats are sent by `poll`, so it has to be called more often than the group's session lasts (45 s by default);
otherwise the group goes on without this member, which joins again with its next call.

One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.coordinators import GROUP, Coordinators
from tailrace.client.deadline import Backoff, Deadline
from tailrace.client.errors import (
    FENCED_MEMBER_EPOCH,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    ClientError,
    NoAnswerError,
)
from tailrace.client.group_membership import Membership, MembershipLostError, Subscription
from tailrace.client.group_offsets import Committed, MemberId, commit_offsets, fetch_offsets
from tailrace.client.offsets import EARLIEST, READ_UNCOMMITTED
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition

COMMIT_EVERY_S: Final = 5.0
REBALANCE_TIMEOUT_MS: Final = 300_000

Told = Callable[[list[TopicPartition]], None]
_T = TypeVar("_T")


class GroupConsumer:
    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        start: int = EARLIEST,
        out_of_range: int = EARLIEST,
        isolation: int = READ_UNCOMMITTED,
        commit_every_s: float | None = COMMIT_EVERY_S,
        instance_id: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        on_assigned: Told | None = None,
        on_revoked: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """`start`, a point of `client.offsets`, is for partitions of which the group has committed nothing.

        Revoked partitions can still be committed in `on_revoked`, those of `on_lost` may be another member's already.
        `instance_id` makes it a static member: its partitions wait for it while it restarts.
        """
        if not group_id:
            raise ClientError("a group's id is not empty")
        self.group_id = group_id
        self._cluster = cluster
        self._start = start
        self._commit_every_s = commit_every_s
        self._coordinators = Coordinators(cluster, GROUP)
        self._membership = Membership(
            cluster,
            self._coordinators,
            group_id,
            instance_id=instance_id,
            rack=rack,
            assignor=assignor,
            rebalance_timeout_ms=rebalance_timeout_ms,
            clock=cluster.clock,
        )
        self._consumer = Consumer(cluster, isolation=isolation, out_of_range=out_of_range)
        self._told = {"assigned": on_assigned, "revoked": on_revoked, "lost": on_lost}
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due_s = cluster.clock() + (commit_every_s or 0)
        self._is_closed = False
        self._trouble: Backoff | None = None

    # What

    def subscribe(self, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        """To these topics, and to all whose whole name matches `pattern`; in place of what it was before."""
        names = tuple(sorted(set(topics)))
        if not names and not pattern:
            raise ClientError("neither topics nor a pattern to subscribe to")
        self._membership.subscription = Subscription(names, pattern)

    @property
    def member(self) -> MemberId:
        """For a transaction that commits this member's offsets."""
        return self._membership.member

    @property
    def has_joined(self) -> bool:
        return self._membership.has_joined

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._membership.owned

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets that come next, of the partitions assigned."""
        return self._consumer.positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    def ends(self) -> dict[TopicPartition, int]:
        """Where each assigned partition ends now, for a reader of this isolation."""
        return self._consumer.ends()

    # Reading

    def poll(self, timeout_s: float) -> list[BatchRun]:
        """What has arrived of the partitions that are ours; nothing when that is all in `timeout_s`."""
        self._check()
        deadline = self._cluster.deadline(timeout_s)
        while True:
            self._guard(self._tend, deadline)
            wait = self._cluster.deadline(min(deadline.left_s, self._membership.due_in_s))
            if self._consumer.positions:
                runs = self._consumer.poll(wait.left_s)
                if runs:
                    return runs
            elif not wait.is_over:
                self._cluster.backoff().wait(wait)
            if deadline.is_over:
                return []

    def _tend(self) -> None:
        """Whatever is due of heartbeats, partitions given and taken, and commits."""
        membership = self._membership
        if membership.due_in_s <= 0:
            try:
                membership.heartbeat()
            except MembershipLostError:
                self._lost()
                membership.heartbeat()
        if membership.wanted != membership.owned:
            self._reconcile()
        if self._commit_every_s is not None and self._cluster.clock() >= self._commit_due_s:
            self._commit_what_is_done()

    def _reconcile(self) -> None:
        membership = self._membership
        revoked, new = membership.owned - membership.wanted, membership.wanted - membership.owned
        if revoked:
            if self._commit_every_s is not None:
                self._commit_what_is_done()
            self._tell("revoked", revoked)
            kept = membership.owned - revoked
            self._consumer.assign(kept)
            self._committed = {each: at for each, at in self._committed.items() if each in kept}
            membership.owns(kept)
        if new:
            found = self._as_member(
                lambda: fetch_offsets(self._cluster, self._coordinators, self.group_id, new, membership.member)
            )
            known = {partition: each.offset for partition, each in found.items()}
            self._consumer.assign(membership.owned | new, known, start=self._start)
            self._committed |= known
            membership.owns(membership.owned | new)
            self._tell("assigned", new)

    def _lost(self) -> None:
        lost = self.positions
        self._consumer.assign(())
        self._committed.clear()
        self._tell("lost", lost)

    def _tell(self, what: str, partitions: Iterable[TopicPartition]) -> None:
        listener, told = self._told[what], sorted(partitions)
        if listener is not None and told:
            listener(told)

    # Committing

    def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """These, or the positions of all partitions assigned. MembershipLostError when they are not ours any more."""
        self._check()
        given = self.positions if offsets is None else offsets
        known = {each: at if isinstance(at, Committed) else Committed(at) for each, at in given.items()}
        self._as_member(
            lambda: commit_offsets(self._cluster, self._coordinators, self.group_id, known, self._membership.member)
        )
        self._committed |= {partition: each.offset for partition, each in known.items()}

    def committed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Committed]:
        """What the group has committed, whoever did it; partitions without are left out."""
        return fetch_offsets(self._cluster, self._coordinators, self.group_id, partitions)

    def _commit_what_is_done(self) -> None:
        assert self._commit_every_s is not None
        self._commit_due_s = self._cluster.clock() + self._commit_every_s
        moved = {each: at for each, at in self.positions.items() if self._committed.get(each) != at}
        if moved and self.has_joined:
            self.commit(moved)

    def _as_member(self, ask: Callable[[], _T]) -> _T:
        """A coordinator that knows a later epoch of ours tells it in the next heartbeat."""
        deadline, backoff = self._cluster.deadline(), self._cluster.backoff()
        while True:
            try:
                return ask()
            except TailraceError as error:
                if error.code in (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH):
                    self._membership.lose()
                    self._lost()
                    raise MembershipLostError(f"out of group {self.group_id}: {error}") from error
                if error.code != STALE_MEMBER_EPOCH or deadline.is_over:
                    raise
            backoff.wait(deadline)
            try:
                self._membership.heartbeat()
            except MembershipLostError:
                self._lost()
                raise

    # Trouble, and the end

    def _guard(self, step: Callable[[], None], deadline: Deadline) -> None:
        """Wait a little after what passes; raise what does not, or does not pass for long."""
        patience = self._cluster.deadline()
        try:
            step()
            self._trouble = None
        except MembershipLostError:
            pass  # the next turn joins
        except TailraceError as error:
            if not error.retriable and not isinstance(error, NoAnswerError):
                raise
            if self._trouble is None:
                self._trouble, self._patience = self._cluster.backoff(), patience
            if self._patience.is_over:
                raise
            self._trouble.wait(deadline)

    def _check(self) -> None:
        if self._is_closed:
            raise ClientError(f"the consumer of group {self.group_id} is closed")
        if self._membership.subscription == Subscription():
            raise ClientError("subscribe first")

    def close(self) -> None:
        """Commit, unless only `commit` does that, and leave, so that others need not wait for the session to end."""
        if self._is_closed:
            return
        try:
            if self._commit_every_s is not None and self.has_joined:
                self._commit_what_is_done()
        finally:
            self._is_closed = True
            with suppress(TailraceError):  # the session ends by itself
                self._membership.leave()
            self._consumer.close()

    def __enter__(self) -> GroupConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # what poll gave last may not be dealt with
            self._commit_every_s = None
        self.close()
