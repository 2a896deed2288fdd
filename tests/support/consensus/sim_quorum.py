"""A quorum of simulated replicas, the network between them, and an event queue: one seed, one order of events.

Requests and responses are delayed, lost, duplicated and reordered, and links can be cut in one direction. A replica has
its own clock, with an offset and a rate. Every event is followed by the checks of `Checker`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from support.consensus.checker import Checker
from support.consensus.sim_disk import Snapshot
from support.consensus.sim_replica import SimReplica, directory
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, RaftCore
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter

MAX_EVENTS = 2_000
CLIENT = -100


@dataclass
class Network:
    """`cut` has the directed links that are down. Probabilities are of each message."""

    loss: float = 0.0
    duplication: float = 0.0
    slow: float = 0.0
    slow_reads: float = 0.0
    slowest_read_ms: int = 300
    cut: set[tuple[int, int]] = field(default_factory=set)

    def delays(self, sender: int, receiver: int, rng: random.Random) -> list[float]:
        """When the copies of a message arrive; empty when it is lost."""
        if (sender, receiver) in self.cut or rng.random() < self.loss:
            return []
        copies = 2 if rng.random() < self.duplication else 1
        return [rng.uniform(0.2, 5) if rng.random() >= self.slow else rng.uniform(5, 900) for _ in range(copies)]


class SimQuorum:
    """`now_ms` is the time of the simulation; each replica sees it through `offset + rate * now_ms`.

    `pace` scales the timeouts of the cores: with a small one elections collide. `without_pre_votes` are replicas that
    answer pre-votes as Kafka did before KIP-996.
    """

    def __init__(
        self,
        seed: int,
        voters: int,
        observers: int = 0,
        *,
        is_dynamic: bool = True,
        has_fast_election: bool = True,
        is_auto_join_enabled: bool = False,
        pace: float = 1,
    ) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0.0
        self.network = Network()
        self.events: list[str] = []
        self.steps = 0
        self.results: list[int] = []
        self.without_pre_votes: set[int] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._requests: dict[int, tuple[int, int, int]] = {}
        self._wake: dict[int, float] = {}
        ids = range(1, voters + observers + 1)
        static = tuple(_voter(node_id, None) for node_id in ids[:voters])
        config = ConsensusConfig(
            static_voters=() if is_dynamic else static,
            bootstrap=tuple(endpoint for node_id in ids for endpoint in _voter(node_id, None).endpoints),
            has_fast_election=has_fast_election,
            is_auto_join_enabled=is_auto_join_enabled,
            election_timeout_ms=int(1_000 * pace),
            fetch_timeout_ms=int(2_000 * pace),
            fast_election_step_ms=int(100 * pace),
            fetch_max_wait_ms=int(500 * pace),
        )
        self.replicas = {node_id: SimReplica(node_id, config, random.Random(self.rng.random())) for node_id in ids}
        self.clocks = {node_id: (self.rng.uniform(0, 10**6), self.rng.uniform(0.9, 1.1)) for node_id in ids}
        self.checker = Checker(self.replicas)
        if is_dynamic:
            records = tuple(_voter(node_id, directory(node_id)) for node_id in ids[:voters])
            for replica in list(self.replicas.values())[:voters]:
                replica.disk.snapshots = [Snapshot(SnapshotId(0, 0), 0, 1, records)]
        for node_id in ids:
            self.start(node_id)

    # Time

    def at(self, time_ms: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (time_ms, self._count, action))

    def run(self, duration_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether `until` became true within the time."""
        end = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= end:
            if until():
                return True
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        self.now_ms = end
        return until()

    def note(self, text: str) -> None:
        self.events.append(f"{self.now_ms:10.1f} {text}")
        if len(self.events) > 2 * MAX_EVENTS:
            del self.events[:MAX_EVENTS]

    def local_ms(self, node_id: int) -> float:
        offset, rate = self.clocks[node_id]
        return offset + rate * self.now_ms

    # Replicas

    def start(self, node_id: int) -> None:
        replica = self.replicas[node_id]
        self.checker.started(replica)
        self._wake.pop(node_id, None)
        replica.start(self.local_ms(node_id))
        self.note(f"{node_id} starts, epoch {replica.core.epoch if replica.core else 0}")
        self._after(replica)

    def crash(self, node_id: int) -> None:
        """Peers see their connections closed, and refused when they connect again."""
        replica = self.replicas[node_id]
        if not replica.is_up:
            return
        self.note(f"{node_id} crashes")
        replica.crash()
        self.checker.crashed(replica)
        for other in self.replicas.values():
            if other is not replica:
                self.at(self.now_ms + self.rng.uniform(50, 60), self._evidence(other.node_id, node_id))

    def _evidence(self, observer: int, node_id: int) -> Callable[[], None]:
        def report() -> None:
            is_seen = {(observer, node_id), (node_id, observer)}.isdisjoint(self.network.cut)
            if not self.replicas[node_id].is_up and is_seen:
                self.step(observer, lambda core, now: core.leader_unreachable(node_id, now))

        return report

    def restart(self, node_id: int) -> None:
        if not self.replicas[node_id].is_up:
            self.start(node_id)

    def step(self, node_id: int, call: Callable[[Any, int], list[fx.Effect]]) -> None:
        replica = self.replicas[node_id]
        if replica.is_up:
            replica.step(self.local_ms(node_id), call)
            self._after(replica)

    def settle(self, replica: SimReplica) -> None:
        """After a step that did not come from this class."""
        self._after(replica)

    def _after(self, replica: SimReplica) -> None:
        self.steps += 1
        self.checker.stepped(replica)
        for effect in replica.notified:
            if isinstance(effect, fx.RoleChanged):
                self.note(
                    f"{replica.node_id} is {effect.role.value} in epoch {effect.epoch}, leader {effect.leader_id}"
                )
        replica.notified.clear()
        outbox, replica.outbox = replica.outbox, []
        for message in outbox:
            self._post(replica, message)
        self._schedule(replica)

    def _schedule(self, replica: SimReplica) -> None:
        offset, rate = self.clocks[replica.node_id]
        due = max((replica.due_ms() - offset) / rate, self.now_ms) + 0.01
        if self._wake.get(replica.node_id, -1.0) == due:
            return
        self._wake[replica.node_id] = due
        incarnation = replica.incarnation

        def wake() -> None:
            is_current = self._wake.get(replica.node_id) == due and replica.incarnation == incarnation
            if replica.is_up and is_current:
                del self._wake[replica.node_id]
                replica.advance(self.local_ms(replica.node_id))
                self._after(replica)

        self.at(due, wake)

    # Messages

    def _post(self, sender: SimReplica, message: fx.Send | fx.Respond | fx.RespondWithSnapshot) -> None:
        if isinstance(message, fx.Send):
            self._post_request(sender, message)
            return
        origin = self._requests.pop(message.request_id)
        request = sender.inbox.pop(message.request_id, None)
        if isinstance(message, fx.RespondWithSnapshot):
            response, snapshot = sender.chunk(message)
            self._reply(sender, origin, response, ([], snapshot))
        elif isinstance(message.response, ms.FetchResponse) and message.response.read_until is not None:
            assert isinstance(request, ms.FetchRequest)
            read = self._reading(sender, sender.incarnation, origin, request, message.response)
            slowest_ms = self.network.slowest_read_ms if self.rng.random() < self.network.slow_reads else 5
            self.at(self.now_ms + self.rng.choice((0, self.rng.uniform(0, slowest_ms))), read)
        else:
            self._reply(sender, origin, message.response, ([], None))

    def _reading(
        self,
        sender: SimReplica,
        incarnation: int,
        origin: tuple[int, int, int],
        request: ms.FetchRequest,
        response: ms.FetchResponse,
    ) -> Callable[[], None]:
        """A job of the leader's driver reads the records, perhaps after the leader was deposed and its log changed."""

        def read() -> None:
            is_there = sender.log.start <= request.offset < sender.log.end
            if sender.is_up and sender.incarnation == incarnation and is_there:
                entries = sender.read(request, min(response.read_until or 0, sender.log.end))
                runs = sender.runs_of(request.offset, entries)
                self._reply(sender, origin, response._replace(runs=runs, read_until=None), (entries, None))

        return read

    def _reply(
        self,
        sender: SimReplica,
        origin: tuple[int, int, int],
        response: ms.Response,
        payload: tuple[list[Any], Snapshot | None],
    ) -> None:
        requester, correlation_id, incarnation = origin
        if requester == CLIENT:
            assert isinstance(response, ms.VoterChangeResponse)
            self.results.append(response.error)
            return

        def deliver() -> None:
            receiver = self.replicas[requester]
            if receiver.is_up and receiver.incarnation == incarnation:
                receiver.fetched[correlation_id] = payload
                self.step(requester, lambda core, now: core.answered(correlation_id, response, now))

        for delay in self.network.delays(sender.node_id, requester, self.rng):
            self.at(self.now_ms + delay, deliver)

    def _post_request(self, sender: SimReplica, message: fx.Send) -> None:
        ports = {replica.port: replica.node_id for replica in self.replicas.values()}
        node_id = message.node_id
        if node_id < 0 or node_id not in self.replicas:
            node_id = ports.get(message.endpoints[0].port, -1) if message.endpoints else -1
        if node_id < 0:
            return
        origin = (sender.node_id, message.correlation_id, sender.incarnation)
        for delay in self.network.delays(sender.node_id, node_id, self.rng):
            self.at(self.now_ms + delay, lambda: self._deliver(node_id, message.request, origin))

    def _deliver(self, node_id: int, request: ms.Request, origin: tuple[int, int, int]) -> None:
        receiver = self.replicas[node_id]
        if not receiver.is_up:
            return
        self._count += 1
        request_id = self._count
        self._requests[request_id] = origin
        if isinstance(request, ms.KRaftVersionsRequest):
            versions = ms.KRaftVersionsResponse(ErrorCode.NONE, 0, receiver.max_kraft_version)
            self._post(receiver, fx.Respond(request_id, versions))
            return
        if isinstance(request, ms.VoteRequest) and request.is_pre_vote and node_id in self.without_pre_votes:
            self._post(receiver, fx.Respond(request_id, ms.VoteResponse(ErrorCode.UNSUPPORTED_VERSION)))
            return
        receiver.inbox[request_id] = request
        self.step(node_id, lambda core, now: core.receive(request_id, request, now))

    # Clients

    def ask(self, node_id: int, request: ms.InboundRequest) -> None:
        """A request of an administrator; its error code goes to `results`."""
        if self.replicas[node_id].is_up:
            self._deliver(node_id, request, (CLIENT, 0, 0))

    def append(self, node_id: int, count: int = 1) -> None:
        """The driver of a leader appends records, which are acknowledged when they are committed."""
        replica = self.replicas[node_id]
        if replica.core is None or not replica.core.may_append:
            return
        if replica.log.end != replica.core.end_offset:
            return
        for _ in range(count):
            self._count += 1
            replica.log.append(replica.core.epoch, str(self._count))
        self.checker.offered(replica, count)
        self.step(node_id, lambda core, now: core.appended(replica.log.end, now))

    def upgrade(self, node_id: int) -> None:
        def call(core: RaftCore, now: int) -> list[fx.Effect]:
            error, effects = core.upgrade_kraft_version(now)
            self.results.append(error)
            return effects

        self.step(node_id, call)

    @property
    def claiming(self) -> list[int]:
        """Those that lead an epoch, whether or not they have committed it."""
        return [each.node_id for each in self.replicas.values() if each.core and each.core.role is fx.RoleName.LEADER]

    @property
    def leaders(self) -> list[int]:
        """Those that may append, the one of the highest epoch first."""
        leading = [each for each in self.replicas.values() if each.core is not None and each.core.may_append]
        return [each.node_id for each in sorted(leading, key=lambda each: -each.core.epoch)]  # type: ignore[union-attr]

    def heal(self) -> None:
        self.note("heal")
        self.network = Network()
        for replica in self.replicas.values():
            replica.fault_ms = 0
            self.restart(replica.node_id)

    def isolate(self, node_ids: Iterable[int], is_both: bool = True) -> None:
        inside = set(node_ids)
        for node_id in inside:
            for other in self.replicas.keys() - inside:
                self.network.cut.add((node_id, other))
                if is_both:
                    self.network.cut.add((other, node_id))


def _voter(node_id: int, directory_id: Any) -> Voter:
    endpoints = (QuorumEndpoint("CONTROLLER", f"host{node_id}", 9000 + node_id),)
    return Voter(node_id, endpoints=endpoints) if directory_id is None else Voter(node_id, directory_id, endpoints)
