"""Scenarios of the consensus core as text: commands, and what must come out of them, after the model of etcd-io/raft.

A file is a row of blocks: comment lines (`#`), one command, `----`, and the expected output up to an empty line.

    quorum voters=1,2,3 [observers=4,5] [kraft=1] [fast=no] [auto_join=yes]
    log N end=OFFSET epochs=EPOCH@START,…      the log on the disk of a replica that is not started yet
    snapshot N offset=OFFSET epoch=EPOCH       as above: a snapshot at the start of the log
    start N…   crash N…   stop N               a crash loses what is not persisted
    wipe N…                                    the disk loses everything, which no replica may do to a quorum
    tick N after=MS                            time passes, and this replica sees it
    persist N…                                 everything that this replica writes becomes durable
    deliver [from=N] [to=N] [only=KIND]        the messages under way, in their order; answers stay under way
    drop [from=N] [to=N]                       loses them
    fail to=N                                  all requests to N that are not answered fail
    refuse to=N                                all requests to N get UNSUPPORTED_VERSION, as from an older release
    replace N…                                 the disk is swapped for an empty one with another directory id
    settle N…                                  persist and deliver among these replicas until nothing is left; no output
    append N [count=1]                         the leader's own records
    evidence N leader=N                        the leader's process is gone
    add N voter=N   remove N voter=N   upgrade N    requests of an administrator to node N
    vote N epoch=E candidate=C end=OFFSET last=EPOCH [pre=yes] [to=N] [disk=0]
                                               a request of a replica that is not simulated, to this disk of node N
    fetch N epoch=E replica=R offset=OFFSET last=EPOCH [hw=OFFSET] [wait=MS]
    begin N epoch=E leader=L   end N epoch=E leader=L successors=A,B    likewise
    state [N…]                                 role, epoch, log and voters of each

Set TAILRACE_REWRITE_SCENARIOS=1 to write what comes out into the files; then read the difference.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.consensus.descriptions import describe, describe_request, describe_response
from support.consensus.sim_disk import Log, SimDisk, Snapshot
from support.consensus.sim_replica import SimReplica, directory
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, RaftCore, ReplicaKey
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter

SEPARATOR = "----"
MAX_ROUNDS = 200
OUTSIDE = 0


class Block(NamedTuple):
    comments: list[str]
    command: str
    expected: list[str]

    def text(self, output: list[str]) -> str:
        return "\n".join([*self.comments, self.command, SEPARATOR, *(output or ["ok"]), ""])


def blocks(text: str) -> Iterator[Block]:
    for part in text.strip().split("\n\n"):
        lines = part.splitlines()
        comments = [line for line in lines if line.startswith("#")]
        command, separator, *expected = [line for line in lines if not line.startswith("#")]
        if separator != SEPARATOR:
            raise ValueError(f"{command!r} is not followed by {SEPARATOR}")
        yield Block(comments, command, expected)


class KnownRandom(random.Random):
    """Election timeouts are 1000 ms for node 1, 1100 ms for node 2, and so on. Choices are the first."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._draw = 100 * (node_id - 1)

    def randrange(self, *bounds: int) -> int:  # type: ignore[override]
        return self._draw

    def choice(self, choices: Any) -> Any:
        return choices[0]


class ScenarioReplica(SimReplica):
    """Prints its effects, and writes only when the command says so."""

    def __init__(self, node_id: int, config: ConsensusConfig, output: list[str]) -> None:
        super().__init__(node_id, config, random.Random(node_id))
        self.output = output

    def start(self, now_ms: float) -> None:
        self.incarnation += 1
        self.log = self.disk.log.copy()
        self.outbox, self.inbox, self.fetched, self.leading_epoch = [], {}, {}, -1
        rng = KnownRandom(self.node_id)
        self.core = RaftCore(self.config, self.voter, self.disk.stored(), self.disk.election, rng, int(now_ms))
        self.high_watermark = self.core.high_watermark
        self.execute(self.core.start(int(now_ms)))

    def execute(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            line = describe(effect)
            if line is not None:
                self.output.append(f"{self.node_id}: {line}")
            if isinstance(effect, fx.HighWatermarkMoved):
                self.high_watermark = effect.offset
            if not isinstance(effect, fx.Fail):
                super().execute([effect])


class Message(NamedTuple):
    """Under way. `call` delivers it to the receiver."""

    sender: int
    receiver: int
    text: str
    kind: str
    call: Any


class Scenario:
    def __init__(self) -> None:
        self.output: list[str] = []
        self.now_ms = 0
        self.replicas: dict[int, ScenarioReplica] = {}
        self.messages: list[Message] = []
        self._count = 0
        self._open: dict[tuple[int, int], int] = {}
        self._origins: dict[int, tuple[int, int]] = {}

    def run(self, command: str) -> list[str]:
        self.output.clear()
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        nodes = [int(word) for word in words if "=" not in word]
        getattr(self, f"do_{name}")(nodes, options)
        return list(self.output)

    # Commands

    def do_quorum(self, _: list[int], options: dict[str, str]) -> None:
        voters = _numbers(options["voters"])
        is_dynamic = options.get("kraft") == "1"
        config = ConsensusConfig(
            static_voters=() if is_dynamic else tuple(_voter(each, False) for each in voters),
            bootstrap=tuple(endpoint for each in voters for endpoint in _voter(each, False).endpoints),
            has_fast_election=options.get("fast") != "no",
            is_auto_join_enabled=options.get("auto_join") == "yes",
        )
        for node_id in [*voters, *_numbers(options.get("observers", ""))]:
            self.replicas[node_id] = ScenarioReplica(node_id, config, self.output)
            if is_dynamic and node_id in voters:
                records = tuple(_voter(each, True) for each in voters)
                self.replicas[node_id].disk.snapshots = [Snapshot(SnapshotId(0, 0), 0, 1, records)]

    def do_log(self, nodes: list[int], options: dict[str, str]) -> None:
        starts = [
            (int(epoch), int(start)) for epoch, start in (each.split("@") for each in options["epochs"].split(","))
        ]
        for node_id in nodes:
            log = self.replicas[node_id].disk.log
            for offset in range(log.end, int(options["end"])):
                log.append(max(epoch for epoch, start in starts if start <= offset), "x")

    def do_snapshot(self, nodes: list[int], options: dict[str, str]) -> None:
        offset, epoch = int(options["offset"]), int(options["epoch"])
        for node_id in nodes:
            disk = self.replicas[node_id].disk
            disk.snapshots = [Snapshot(SnapshotId(offset, epoch), 7, 0, ())]
            disk.log = Log(offset, 7)

    def do_wipe(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes:
            self.replicas[node_id].disk = SimDisk(directory(node_id))

    def do_start(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes:
            self.replicas[node_id].start(self.now_ms)
            self._collect(node_id)

    def do_crash(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes:
            replica = self.replicas[node_id]
            replica.core = None
            replica.disk.elections.clear()
            replica.disk.log_operations.clear()
            self.messages = [each for each in self.messages if node_id != each.sender]

    def do_stop(self, nodes: list[int], _: dict[str, str]) -> None:
        self._step(nodes[0], lambda core, now: core.stop(now))

    def do_tick(self, nodes: list[int], options: dict[str, str]) -> None:
        self.now_ms += int(options.get("after", "0"))
        for node_id in nodes:
            self._step(node_id, lambda core, now: core.tick(now))

    def do_persist(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes:
            disk = self.replicas[node_id].disk
            while disk.elections or disk.log_operations:
                queue = disk.elections or disk.log_operations
                self.replicas[node_id].finish(queue.pop(0), self.now_ms)
                self._collect(node_id)

    def do_deliver(self, _: list[int], options: dict[str, str]) -> None:
        for message in self._take(options):
            self.output.append(f"{_name(message.sender)} -> {_name(message.receiver)}: {message.text}")
            message.call()

    def do_drop(self, _: list[int], options: dict[str, str]) -> None:
        self._take(options)

    def do_fail(self, _: list[int], options: dict[str, str]) -> None:
        self._take(options)
        receiver = int(options["to"])
        for (sender, correlation_id), asked in list(self._open.items()):
            if asked == receiver:
                del self._open[sender, correlation_id]
                self._step(sender, lambda core, now, number=correlation_id: core.failed(number, now))

    def do_refuse(self, _: list[int], options: dict[str, str]) -> None:
        receiver, response = int(options["to"]), ms.VoteResponse(ErrorCode.UNSUPPORTED_VERSION)
        self.messages = [each for each in self.messages if each.receiver != receiver]
        for (sender, correlation_id), asked in list(self._open.items()):
            if asked == receiver:
                del self._open[sender, correlation_id]
                self._step(sender, lambda core, now, number=correlation_id: core.answered(number, response, now))

    def do_replace(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes:
            self.do_crash([node_id], {})
            self.replicas[node_id].replace_disk()

    def do_settle(self, nodes: list[int], _: dict[str, str]) -> None:
        before = len(self.output)
        for _round in range(MAX_ROUNDS):
            self.do_persist(nodes, {})
            inside = [each for each in self.messages if {each.sender, each.receiver} <= {*nodes, OUTSIDE}]
            if not inside:
                break
            self.messages = [each for each in self.messages if each not in inside]
            for message in inside:
                message.call()
        del self.output[before:]

    def do_append(self, nodes: list[int], options: dict[str, str]) -> None:
        replica = self.replicas[nodes[0]]
        assert replica.core is not None
        for _ in range(int(options.get("count", "1"))):
            replica.log.append(replica.core.epoch, "data")
        self._step(nodes[0], lambda core, now: core.appended(replica.log.end, now))

    def do_evidence(self, nodes: list[int], options: dict[str, str]) -> None:
        leader_id = int(options["leader"])
        self._step(nodes[0], lambda core, now: core.leader_unreachable(leader_id, now))

    def do_add(self, nodes: list[int], options: dict[str, str]) -> None:
        self._request(nodes[0], ms.AddRaftVoterRequest(self.replicas[int(options["voter"])].voter))

    def do_remove(self, nodes: list[int], options: dict[str, str]) -> None:
        voter = int(options["voter"])
        self._request(nodes[0], ms.RemoveRaftVoterRequest(ReplicaKey(voter, directory(voter))))

    def do_upgrade(self, nodes: list[int], _: dict[str, str]) -> None:
        def call(core: RaftCore, now: int) -> list[fx.Effect]:
            error, effects = core.upgrade_kraft_version(now)
            self.output.append(f"upgrade: {ErrorCode(error).name}")
            return effects

        self._step(nodes[0], call)

    def do_vote(self, nodes: list[int], options: dict[str, str]) -> None:
        receiver = int(options.get("to", nodes[0]))
        candidate = int(options["candidate"])
        request = ms.VoteRequest(
            int(options["epoch"]),
            ReplicaKey(candidate, directory(candidate)),
            ReplicaKey(receiver, directory(receiver, int(options.get("disk", "0")))),
            int(options["last"]),
            int(options["end"]),
            options.get("pre") == "yes",
        )
        self._request(nodes[0], request)

    def do_fetch(self, nodes: list[int], options: dict[str, str]) -> None:
        replica = int(options["replica"])
        request = ms.FetchRequest(
            ReplicaKey(replica, directory(replica)),
            int(options["epoch"]),
            int(options["offset"]),
            int(options["last"]),
            int(options.get("hw", ms.UNKNOWN_HIGH_WATERMARK)),
            int(options.get("wait", "0")),
        )
        self._request(nodes[0], request)

    def do_begin(self, nodes: list[int], options: dict[str, str]) -> None:
        self._request(nodes[0], ms.BeginQuorumEpochRequest(int(options["epoch"]), int(options["leader"]), None))

    def do_end(self, nodes: list[int], options: dict[str, str]) -> None:
        preferred = tuple(ReplicaKey(each) for each in _numbers(options["successors"]))
        self._request(nodes[0], ms.EndQuorumEpochRequest(int(options["epoch"]), int(options["leader"]), preferred))

    def do_state(self, nodes: list[int], _: dict[str, str]) -> None:
        for node_id in nodes or sorted(self.replicas):
            core = self.replicas[node_id].core
            if core is None:
                self.output.append(f"{node_id}: down")
                continue
            voters = ",".join(str(each) for each in core.voters.node_ids)
            leader = f", leader {core.leadership.leader_id}" if core.leadership.leader_id >= 0 else ""
            self.output.append(
                f"{node_id}: {core.role.value} in epoch {core.epoch}{leader}, log ends at {core.end_offset}, "
                f"high watermark {core.high_watermark}, voters {voters}"
            )

    # Messages

    def _take(self, options: dict[str, str]) -> list[Message]:
        def matches(message: Message) -> bool:
            return (
                options.get("from", str(message.sender)) == str(message.sender)
                and options.get("to", str(message.receiver)) == str(message.receiver)
                and options.get("only", message.kind) == message.kind
            )

        taken = [each for each in self.messages if matches(each)]
        self.messages = [each for each in self.messages if not matches(each)]
        return taken

    def _step(self, node_id: int, call: Any) -> None:
        if self.replicas[node_id].is_up:
            self.replicas[node_id].step(self.now_ms, call)
            self._collect(node_id)

    def _request(self, node_id: int, request: ms.InboundRequest) -> None:
        """From outside; its answer is printed at once if there is one."""
        self._receive(node_id, request, (OUTSIDE, 0))
        for message in self._take({"from": str(node_id), "to": str(OUTSIDE)}):
            self.output.append(f"{node_id} answers: {message.text}")

    def _receive(self, node_id: int, request: ms.Request, origin: tuple[int, int]) -> None:
        replica = self.replicas.get(node_id)
        if replica is None or not replica.is_up:
            return
        self._count += 1
        request_id = self._count
        self._origins[request_id] = origin
        if isinstance(request, ms.KRaftVersionsRequest):
            replica.outbox.append(fx.Respond(request_id, ms.KRaftVersionsResponse(ErrorCode.NONE, 0, 1)))
            self._collect(node_id)
            return
        replica.inbox[request_id] = request
        self._step(node_id, lambda core, now: core.receive(request_id, request, now))

    def _collect(self, node_id: int) -> None:
        replica = self.replicas[node_id]
        outbox, replica.outbox = replica.outbox, []
        for effect in outbox:
            if isinstance(effect, fx.Send):
                self._sent(replica, effect)
            else:
                self._answered(replica, effect)

    def _sent(self, sender: ScenarioReplica, effect: fx.Send) -> None:
        receiver = effect.node_id
        if receiver < 0:
            receiver = effect.endpoints[0].port - 9000
        origin = (sender.node_id, effect.correlation_id)
        self._open[origin] = receiver
        text = describe_request(effect.request)
        self.messages.append(
            Message(
                sender.node_id,
                receiver,
                text,
                text.split()[0],
                lambda: self._receive(receiver, effect.request, origin),
            )
        )

    def _answered(self, sender: ScenarioReplica, effect: fx.Respond | fx.RespondWithSnapshot) -> None:
        requester, correlation_id = self._origins.pop(effect.request_id)
        request = sender.inbox.pop(effect.request_id, None)
        payload: Any = ([], None)
        if isinstance(effect, fx.RespondWithSnapshot):
            response, snapshot = sender.chunk(effect)
            payload = ([], snapshot)
        else:
            response = effect.response
            if isinstance(response, ms.FetchResponse) and response.read_until is not None:
                assert isinstance(request, ms.FetchRequest)
                entries = sender.read(request, response.read_until)
                response = response._replace(runs=sender.runs_of(request.offset, entries), read_until=None)
                payload = (entries, None)

        def deliver() -> None:
            self._open.pop((requester, correlation_id), None)
            if requester != OUTSIDE:
                self.replicas[requester].fetched[correlation_id] = payload
                self._step(requester, lambda core, now: core.answered(correlation_id, response, now))

        text = describe_response(response)
        self.messages.append(Message(sender.node_id, requester, text, text.split()[0], deliver))


def _name(node_id: int) -> str:
    return "administrator" if node_id == OUTSIDE else str(node_id)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _voter(node_id: int, has_directory: bool) -> Voter:
    endpoints = (QuorumEndpoint("CONTROLLER", f"host{node_id}", 9000 + node_id),)
    return Voter(node_id, directory(node_id), endpoints) if has_directory else Voter(node_id, endpoints=endpoints)


def play(path: Path) -> tuple[str, str]:
    """The text of the file, and what it would be with the output of today."""
    text = path.read_text()
    scenario = Scenario()
    return text, "\n".join(block.text(scenario.run(block.command)) for block in blocks(text))
