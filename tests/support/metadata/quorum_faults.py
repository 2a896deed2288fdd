"""Random faults over a quorum of drivers: kills, power loss, pauses, cut and lossy links, operators, empty disks."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from support.metadata.quorum_cluster import QuorumCluster, directory_id
from tailrace.sim.faults import Survival

MEAN_GAP_MS = 700
MAX_LASTS_MS = 3_000
MAX_UNSYNCED_MS = 400
_SURVIVALS = (Survival.ANY, Survival.ANY, Survival.NOTHING, Survival.EVERYTHING)


class QuorumFaults:
    """`kinds` counts what was injected."""

    def __init__(self, cluster: QuorumCluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(f"{seed}/faults")
        self.kinds: dict[str, int] = {}
        self.wiped: int | None = None
        self._is_over = False
        self._faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill-leader": self._kill_leader,
            "power": self._power,
            "kill-and-power": self._kill_and_power,
            "power-in-write": self._power_in_write,
            "power-of-all": self._power_of_all,
            "pause": self._pause,
            "isolate": self._isolate,
            "cut-one-way": self._cut_one_way,
            "lossy": self._lossy,
            "reset": self._reset,
            "slow-disk": self._slow_disk,
            "stop": self._stop,
        }
        if cluster.is_dynamic:
            self._faults["wipe"] = self._wipe

    def run(self, duration_ms: int) -> None:
        end_us = self.cluster.universe.time.now_us + duration_ms * 1000
        while self.cluster.universe.time.now_us < end_us:
            self.cluster.run_for(round(self.dice.expovariate(1 / MEAN_GAP_MS)) + 1)
            kind = self.dice.choice(sorted(self._faults))
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.cluster.universe.log.add("", "fault", kind)
            self._faults[kind]()
        self._is_over = True

    def _later(self, action: Callable[[], object]) -> None:
        def undo() -> None:
            if not self._is_over:
                action()

        self.cluster.universe.push(self.dice.randrange(MAX_LASTS_MS * 1000), None, undo)

    def _any(self) -> int:
        return self.dice.choice(self.cluster.ids)

    def _kill(self) -> None:
        machine = self.cluster.machine(self._any())
        machine.kill()
        self._later(machine.start)

    def _kill_leader(self) -> None:
        leader = self.cluster.leader
        if leader is not None:
            machine = self.cluster.machine(leader.node_id)
            machine.kill()
            self._later(machine.start)

    def _power(self) -> None:
        machine = self.cluster.machine(self._any())
        machine.lose_power()
        self._later(partial(machine.power_up, self.dice.choice(_SURVIVALS)))

    def _kill_and_power(self) -> None:
        """A process is killed and started again, and soon after that its machine loses what is not synced."""
        machine = self.cluster.machine(self._any())
        machine.kill()
        machine.start()

        def lose_power() -> None:
            if not self._is_over:
                machine.lose_power()
                self._later(partial(machine.power_up, Survival.NOTHING))

        self.cluster.universe.push(self.dice.randrange(MAX_UNSYNCED_MS * 1000), None, lose_power)

    def _power_in_write(self) -> None:
        machine = self.cluster.machine(self._any())
        if machine.is_on:
            machine.disk.crash_at(machine.disk.ops + self.dice.randint(1, 20))
            self._later(partial(machine.power_up, self.dice.choice(_SURVIVALS)))

    def _power_of_all(self) -> None:
        for node_id in self.cluster.ids:
            machine = self.cluster.machine(node_id)
            machine.lose_power()
            self._later(partial(machine.power_up, self.dice.choice(_SURVIVALS)))

    def _pause(self) -> None:
        machine = self.cluster.machine(self._any())
        machine.pause()
        self._later(machine.resume)

    def _isolate(self) -> None:
        chosen = self._any()
        others = [f"node-{node_id}" for node_id in self.cluster.ids if node_id != chosen]
        for link in self.cluster.universe.network.between([f"node-{chosen}"], others):
            link.is_cut = True
        self._later(self.cluster.universe.network.heal)

    def _cut_one_way(self) -> None:
        source, target = self.dice.sample(self.cluster.ids, 2)
        self.cluster.universe.network.link(f"node-{source}", f"node-{target}").is_cut = True
        self._later(self.cluster.universe.network.heal)

    def _lossy(self) -> None:
        source, target = self.dice.sample(self.cluster.ids, 2)
        self.cluster.universe.network.link(f"node-{source}", f"node-{target}").rules.loss_probability = 0.3
        self._later(self.cluster.universe.network.heal)

    def _reset(self) -> None:
        source, target = self.dice.sample(self.cluster.ids, 2)
        self.cluster.universe.network.reset_connections(f"node-{source}", f"node-{target}")

    def _slow_disk(self) -> None:
        machine = self.cluster.machine(self._any())
        machine.job_times.slowness = 20.0
        self._later(lambda: setattr(machine.job_times, "slowness", 1.0))

    def _stop(self) -> None:
        """A clean stop, and a new start."""
        program = self.cluster.program(self._any())
        if program is None or program.process.is_paused or program.is_stopping:
            return
        machine = program.process.machine
        program.process.perform(program.stop)
        self._later(machine.start)

    def _wipe(self) -> None:
        """One voter at most loses its synced data, and no other before it has caught up as another replica."""
        cluster = self.cluster
        if self.wiped is not None or len(cluster.programs) < len(cluster.ids):
            return
        if any(program.offset < cluster.ledger.end - 20 for program in cluster.programs):
            return
        wiped = self.wiped = self.dice.choice(cluster.voter_ids)
        generation = cluster.generations[wiped]
        cluster.wipe(wiped)
        self._later(cluster.machine(wiped).start)
        self._replace_replica(wiped, generation)

    def _replace_replica(self, node_id: int, generation: int) -> None:
        """An operator removes the old replica and adds the new one, again and again until that is done."""
        cluster = self.cluster

        def act() -> None:
            leader = cluster.leader
            if self.wiped != node_id:
                return
            cluster.universe.push(500_000, None, act)
            if leader is None or not leader.process.is_alive or leader.process.is_paused:
                return
            known = {voter.node_id: voter.directory_id for voter in leader.quorum.voters}.get(node_id)

            def ask() -> None:
                if known == directory_id(node_id, generation):
                    cluster.remove_voter(node_id, generation, lambda _: None)
                elif known is None:
                    cluster.add_voter(node_id, lambda _: None)
                elif leader.quorum.high_watermark == leader.quorum.log_end_offset:
                    self.wiped = None

            leader.process.perform(ask)

        act()
